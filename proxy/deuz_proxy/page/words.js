// Numbers and verdicts in words; no element is touched here.

const THIN_SPACE = "\u202f";

// What provider-side names mean to a reader; a name that is not here is shown as it is.
// In a bar all turns are one share; a verdict names the one that broke.
const SEGMENTS = { turn: "turns", context: "added context" };

const CAUSES = {
  model_changed: "another model",
  parameter_changed: "another parameter",
  tool_added: "tool added",
  tool_removed: "tool removed",
  tools_reordered: "tools in another order",
  tool_edited: "tool definition edited",
  system_added: "system prompt added",
  system_removed: "system prompt removed",
  system_time: "timestamp in system prompt",
  system_nonce: "random id in system prompt",
  system_edited: "system prompt edited",
  turn_edited: "earlier turn edited",
  turn_inserted: "turn inserted into the history",
  turns_dropped: "turns dropped from the history",
  overflow_recovery: "history made shorter after an overflow",
  evicted: "added context put out by the ledger's bounds",
  ledger_lost: "added context forgotten by the ledger",
  record_forgotten: "record deleted on request",
  sidecar_changed: "prefix changed by the sidecar",
  ttl_expired: "expired between the requests",
  provider_miss: "not found by the provider",
};

const OWNERS = {
  client: "the client",
  sidecar: "the sidecar",
  ttl: "time",
  provider: "the provider",
  parameter: "a parameter",
  unknown: "owner unknown",
};

const PLACEMENTS = {
  placed: "Placed",
  shadow: "Would place",
  dropped: "Not placed, the request was not accepted",
  tail: "Working memory at the end",
  kept: "Working memory, kept in place",
};

const SHARES = { reused: "same as before", lost: "lost to a break", new: "new" };

const VERDICTS = {
  first: "First request of its conversation",
  extended: "Prefix extended: all before the new part is reusable",
  unchanged: "Same prompt as before: all of it is reusable",
  shortened: "History shortened: what is left is reusable",
  returned: "Back at an earlier prefix: reusable while the provider keeps it",
  side_call: "Side call: not part of the conversation's history",
};

export function number(value) {
  if (value === null || value === undefined) return "?";
  return String(Math.round(value)).replace(/\B(?=(\d{3})+$)/g, THIN_SPACE);
}

export function count(value, one, many = `${one}s`) {
  return `${number(value)} ${value === 1 ? one : many}`;
}

export function percent(part, whole) {
  return whole > 0 ? `${Math.round((100 * part) / whole)}${THIN_SPACE}%` : "–";
}

export function seconds(value) {
  if (value === null || value === undefined) return "?";
  if (value < 0.001) return `${(value * 1e6).toFixed(0)} µs`;
  if (value < 1) return `${(value * 1e3).toFixed(value < 0.01 ? 2 : 0)} ms`;
  return `${value.toFixed(value < 10 ? 2 : 1)} s`;
}

export function clock(at) {
  return new Date(at * 1000).toLocaleTimeString([], { hour12: false });
}

export function moment(at) {
  return new Date(at * 1000).toISOString();
}

export function plain(name) {
  return String(name ?? "unknown").replace(/[_-]+/g, " ");
}

export function segmentName(name) {
  return SEGMENTS[name] ?? plain(name);
}

/** What became of a share, in the words of the legend. */
export function shareName(share) {
  return SHARES[share];
}

/** As short as it gets: a label has only its segment's width. */
export function segmentLabel(name) {
  return segmentName(name).split(" ")[0];
}

export function segmentTotal(segment) {
  return segment.reused_tokens + segment.lost_tokens + segment.new_tokens;
}

/** The shares of one segment in words, nothing said about a share of 0. */
export function segmentWords(segment) {
  const shares = [
    [segment.reused_tokens, "same"],
    [segment.lost_tokens, "lost"],
    [segment.new_tokens, "new"],
  ].filter(([tokens]) => tokens > 0);
  const said = shares.map(([tokens, word]) => `${number(tokens)} ${word}`);
  return `${segmentName(segment.segment)} ${said.join(", ") || "0"}`;
}

export function barWords(segments) {
  const total = segments.reduce((sum, segment) => sum + segmentTotal(segment), 0);
  return `${count(total, "token")}: ${segments.map(segmentWords).join("; ")}`;
}

/** The route's mode; of a conversation that is held out, that it is. */
export function modeName(request) {
  return request.group === "held_out" ? "held out" : request.mode;
}

const GROUPS = { treated: "With context", held_out: "Held out" };

export function groupName(group) {
  return GROUPS[group] ?? plain(group);
}

export function perRequest(group) {
  return count((group.tokens.input + group.tokens.output) / group.requests, "token");
}

export function groupWords(group) {
  const { input, cached, output } = group.tokens;
  const said = [`${number(input)} in, ${percent(cached, input)} of it cached`, `${number(output)} out`, count(group.errors, "error")];
  return `${count(group.requests, "request")}: ${said.join(", ")}`;
}

export function workerWords(worker) {
  const said = [`${count(worker.requests, "request")}`];
  if (worker.in_flight) said.push(`${number(worker.in_flight)} in flight`);
  if (worker.failures) said.push(count(worker.failures, "failure"));
  if (!worker.is_serving) said.push("not serving");
  return `Worker ${worker.worker}: ${said.join(", ")}`;
}

export function verdictName(verdict) {
  return verdict ? plain(verdict.verdict) : "not compared";
}

/** Whether cached tokens were lost; an intact prefix can be lost to time as well. */
export function isLoss(verdict) {
  return Boolean(verdict) && (verdict.verdict === "broken" || isKnown(verdict.cause));
}

export function causeWords(cause) {
  return CAUSES[cause] ?? plain(cause);
}

export function verdictWords(verdict) {
  if (verdict.verdict === "broken") return `Broken at ${placeWords(verdict)}: ${lossWords(verdict)}${missedWords(verdict)}`;
  const said = VERDICTS[verdict.verdict] ?? plain(verdict.verdict);
  if (isLoss(verdict)) return `Prefix ${plain(verdict.verdict)}, but its cache was lost: ${lossWords(verdict)}`;
  return `${said}${missedWords(verdict)}`;
}

function placeWords(verdict) {
  const place = [verdict.segment ?? "an unknown place"];
  if (isKnown(verdict.index)) place[0] += ` ${verdict.index}`;
  // Byte 0 is the body's brace: of what is gone there is no place.
  if (verdict.offset) place.push(`byte ${number(verdict.offset)}`);
  return place.join(", ");
}

function lossWords(verdict) {
  const owner = OWNERS[verdict.owner] ?? plain(verdict.owner);
  return `${causeWords(verdict.cause)} — ${owner} — ${count(verdict.lost_tokens, "token")} re-read`;
}

function missedWords(verdict) {
  if (!verdict.missed_tokens) return "";
  const expected = isKnown(verdict.expected_tokens) ? ` of ${number(verdict.expected_tokens)} expected` : "";
  return ` · the provider did not read ${number(verdict.missed_tokens)}${expected} from its cache`;
}

export function usageWords(request) {
  const usage = request.usage;
  if (!usage) return "nothing";
  const said = [
    [usage.cache_read, "cached"],
    [usage.cache_write, "written"],
    [usage.input_uncached, "uncached"],
    [usage.output, "output"],
  ].filter(([tokens]) => isKnown(tokens));
  return said.map(([tokens, word]) => `${number(tokens)} ${word}`).join(" · ") || "nothing";
}

export function placementWords(placement, shown = 3) {
  const named = placement.records.slice(0, shown).join(", ");
  const rest = placement.records.length - shown;
  const more = rest > 0 ? ` and ${rest} more` : "";
  const since = placement.is_new ? "new, " : "";
  const done = PLACEMENTS[placement.state] ?? plain(placement.state);
  return `${done}: ${named}${more} — ${since}behind turn ${placement.turn}, ${count(placement.tokens, "token")}`;
}

const PREDICTED = {
  kept: "the prefix would have stayed",
  broken_by_client: "the prefix is broken by the client, with context as without",
  broken_by_sidecar: "the sidecar would have broken the prefix",
};

/** What compiling would have made of a request that was only tried. */
export function predictionWords(prediction) {
  const { prefix, cause, added_tokens: added, cache_read_tokens: read } = prediction;
  const why = prefix === "broken_by_sidecar" && cause ? ` (${causeWords(cause)})` : "";
  const said = [`${PREDICTED[prefix] ?? plain(prefix)}${why}`, `${count(added, "token")} added`];
  if (isKnown(read)) said.push(`${number(read)} read from the cache`);
  return `Had context been added: ${said.join(", ")}`;
}

/** What a compile left out; a request that added and left out nothing says nothing. */
export function leftOutWords(compile) {
  return compile?.excluded ? `${count(compile.excluded, "record")} left out: the reasons are under Details` : null;
}

export function overflowWords(overflow) {
  const numbers = [];
  if (isKnown(overflow.requested_tokens)) numbers.push(`${number(overflow.requested_tokens)} asked for`);
  if (isKnown(overflow.limit_tokens)) numbers.push(`${number(overflow.limit_tokens)} allowed`);
  const said = numbers.length ? ` (${numbers.join(", ")})` : "";
  return `Overflow, ${plain(overflow.stage)}: ${plain(overflow.outcome)}${said}`;
}

export function compactionWords(compaction) {
  const { layer, trigger, tokens_before: before, tokens_after: after } = compaction;
  return `Compacted, ${plain(layer)}: ${number(before)} → ${count(after, "token")} (${plain(trigger)})`;
}

export function breakWords(broken) {
  const times = broken.count === 1 ? "" : `${broken.count} × `;
  return `${times}${causeWords(broken.cause)} (${plain(broken.owner)}), ${number(broken.lost_tokens)} lost`;
}

export function isKnown(value) {
  return value !== null && value !== undefined;
}
