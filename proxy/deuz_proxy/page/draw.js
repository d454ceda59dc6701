// Elements for requests, conversations and totals. Every string from outside becomes a
// text node or a plain attribute, never markup.

import * as words from "/page/words.js";

/** Make an element; attributes that are null are left out, children may be strings. */
export function make(tag, attributes, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes ?? {})) {
    if (words.isKnown(value)) element.setAttribute(name, value);
  }
  element.append(...children.flat().filter((child) => words.isKnown(child) && child !== ""));
  return element;
}

export function drawRequest(request, loadDetails) {
  const kind = request.verdict?.verdict ?? "none";
  return make(
    "li",
    { class: "request", "data-id": request.id, "data-verdict": kind, "data-loss": words.isLoss(request.verdict) ? request.verdict.owner ?? "unknown" : null },
    drawHead(request, kind),
    // A request that has no prompt, such as a list of models, has nothing to compare.
    request.verdict ? make("p", { class: "sentence" }, words.verdictWords(request.verdict)) : null,
    drawBar(request.segments),
    drawReading(request.usage),
    drawLabels(request.segments),
    drawNumbers(request),
    drawNotes(request),
    drawDetails(request, loadDetails),
  );
}

function drawHead(request, kind) {
  const { duration_seconds: duration, first_byte_seconds: firstByte } = request.timings;
  const first = words.isKnown(firstByte) ? `first byte after ${words.seconds(firstByte)}` : null;
  return make(
    "div",
    { class: "head" },
    make("span", { class: "chip", "data-verdict": kind }, words.verdictName(request.verdict)),
    make("strong", { class: "model", title: request.model ?? "no model" }, request.model ?? request.path),
    make("span", { class: "quiet route", title: `${request.method} ${request.path}` }, `${request.route} · ${words.modeName(request)}`),
    make("span", { class: "facts" },
      make("span", { class: "outcome", "data-outcome": request.outcome }, `${request.status} ${words.plain(request.outcome)}`),
      make("span", { title: first }, words.seconds(duration)),
      make("time", { datetime: words.moment(request.at), title: words.moment(request.at) }, words.clock(request.at)),
    ),
  );
}

/** One bar of the whole prompt: segments by size, each cut into what became of it. */
export function drawBar(segments) {
  const shown = segments.filter((segment) => words.segmentTotal(segment) > 0);
  if (!shown.length) return null;
  const bar = make("div", { class: "bar", role: "img", "aria-label": words.barWords(shown) });
  bar.append(...shown.map(drawSegment));
  return bar;
}

/** The segments' names below the bar; hidden from readers that get the bar in words. */
function drawLabels(segments) {
  const shown = segments.filter((segment) => words.segmentTotal(segment) > 0);
  if (!shown.length) return null;
  return make("div", { class: "labels quiet", "aria-hidden": "true" }, shown.map((segment) => {
    const title = words.segmentWords(segment);
    const label = make("span", { title, "data-segment": segment.segment }, words.segmentLabel(segment.segment));
    label.style.flexGrow = words.segmentTotal(segment);
    return label;
  }));
}

function drawSegment(segment) {
  const shares = [["reused", segment.reused_tokens], ["lost", segment.lost_tokens], ["new", segment.new_tokens]];
  const parts = shares.filter(([, tokens]) => tokens > 0).map(([share, tokens]) => drawShare(segment, share, tokens));
  const element = make("div", { class: "segment", "data-segment": segment.segment }, parts);
  element.style.flexGrow = words.segmentTotal(segment);
  return element;
}

function drawShare(segment, share, tokens) {
  const title = `${words.segmentName(segment.segment)}: ${words.count(tokens, "token")} ${words.shareName(share)}`;
  const part = make("i", { class: `share ${share}`, "data-share": share, title });
  part.style.flexGrow = tokens;
  return part;
}

/** The provider's own word beside our estimate: how much of the prompt it read from its cache. */
function drawReading(usage) {
  if (!usage?.input_total || !words.isKnown(usage.cache_read)) return null;
  const title = `The provider read ${words.number(usage.cache_read)} of ${words.count(usage.input_total, "token")} from its cache`;
  const line = make("div", { class: "reading", role: "img", "aria-label": title, title }, make("i"));
  line.firstChild.style.width = `${(100 * usage.cache_read) / usage.input_total}%`;
  return line;
}

function drawNumbers(request) {
  const shown = request.segments.filter((segment) => words.segmentTotal(segment) > 0);
  const usage = request.usage;
  const hit = usage?.input_total && words.isKnown(usage.cache_read) ? words.percent(usage.cache_read, usage.input_total) : null;
  if (!shown.length && !usage) return null;
  return make(
    "dl",
    { class: "numbers" },
    shown.length ? drawPair("Estimated", shown.map(words.segmentWords).join(" · ")) : null,
    drawPair("Reported", words.usageWords(request)),
    hit ? drawPair("Cached", hit) : null,
  );
}

function drawPair(term, text, title = null) {
  return make("div", { title }, make("dt", null, term), make("dd", null, text));
}

function drawNotes(request) {
  const notes = [
    ...request.overflows.map((overflow) => ["overflow", words.overflowWords(overflow)]),
    ...request.compactions.map((compaction) => ["compaction", words.compactionWords(compaction)]),
    ...request.placements.map((placement) => ["placement", words.placementWords(placement)]),
  ];
  if (request.compile?.fallback) notes.unshift(["fault", `No context added: ${words.plain(request.compile.fallback)}`]);
  if (request.error) notes.unshift(["fault", `Error: ${words.plain(request.error)}`]);
  if (request.prediction) notes.push(["prediction", words.predictionWords(request.prediction)]);
  const leftOut = words.leftOutWords(request.compile);
  if (leftOut) notes.push(["left-out", leftOut]);
  // Of a route that only watches it is the normal case, and its mode is in the head.
  if (request.passthrough && request.passthrough !== request.mode) notes.push(["passthrough", `Passed through untouched: ${words.plain(request.passthrough)}`]);
  if (request.sidecar_mutations) notes.unshift(["fault", "The sidecar changed the prefix: please report this"]);
  if (!notes.length) return null;
  return make("ul", { class: "notes" }, notes.map(([kind, text]) => make("li", { "data-note": kind }, text)));
}

function drawDetails(request, loadDetails) {
  const room = make("div", { class: "room" });
  const details = make("details", null, make("summary", null, "Details"), room);
  details.addEventListener("toggle", async () => {
    if (!details.open || room.dataset.loaded) return;
    room.dataset.loaded = "yes";
    try {
      room.replaceChildren(...drawRoom(await loadDetails(request.id)));
    } catch (fault) {
      delete room.dataset.loaded;
      room.replaceChildren(make("p", { class: "quiet" }, `Details are not available: ${fault.message}`));
    }
  });
  return details;
}

function drawRoom(request) {
  return [
    drawFacts(request),
    drawTable("Manifest: every candidate and why", ["record", "source", "tokens", "decision"], manifestRows(request)),
    drawTable("Sources", ["source", "status", "time", "selected", "tokens"], sourceRows(request)),
    drawTable("Added blocks", ["behind turn", "records", "tokens", "since"], placementRows(request)),
    drawTable("Time that the sidecar added", ["stage", "time"], stageRows(request)),
    drawTable("Calls to the upstream", ["purpose", "status", "time"], callRows(request)),
  ].filter(words.isKnown);
}

function drawFacts(request) {
  const { compile, trace } = request;
  const facts = [
    ["Request", request.id],
    ["Conversation", request.conversation],
    ["Path", `${request.method} ${request.path}`],
    ["Upstream", `${request.upstream} (${request.wire})`],
    ["Answer", [request.response_model, request.finish_reason && `ended by ${words.plain(request.finish_reason)}`].filter(Boolean).join(", ")],
    ["Bytes", `${words.number(request.request_bytes)} in, ${words.number(request.response_bytes)} out${request.is_streamed ? ", streamed" : ""}`],
    ["Input tokens", `${words.number(request.estimated_input_tokens)} estimated, ${words.number(request.usage?.input_total)} reported`],
    ["Compile", compile && `${words.plain(compile.refresh_reason)}; ${compile.selected} selected, ${compile.excluded} excluded, ${words.number(compile.tokens)} of ${words.count(compile.budget_tokens, "token")} (${compile.estimator})`],
    ["Manifest", compile?.manifest_digest],
    ["Trace", trace?.trace_id],
  ];
  return make("dl", { class: "facts-list" }, facts.filter(([, text]) => text).map(([term, text]) => drawPair(term, text)));
}

function manifestRows(request) {
  return (request.compile?.records ?? []).map((record) => [
    record.record_id,
    `${record.source} (${record.kind})`,
    words.number(record.tokens),
    `${record.is_selected ? "selected" : "excluded"}: ${words.plain(record.reason)}`,
  ]);
}

function sourceRows(request) {
  return (request.compile?.sources ?? []).map((source) => [
    `${source.source} (${source.kind})`,
    words.plain(source.status),
    words.seconds(source.duration_seconds),
    `${source.selected} of ${source.selected + source.excluded}`,
    words.number(source.tokens),
  ]);
}

function placementRows(request) {
  return request.placements.map((placement) => [
    `${placement.turn} (${placement.form})`,
    placement.records.join(", "),
    words.number(placement.tokens),
    sinceWords(placement),
  ]);
}

function sinceWords(placement) {
  if (placement.state === "shadow") return "only tried";
  if (placement.state === "dropped") return "not kept";
  if (placement.state === "tail") return "this request alone";
  return placement.is_new ? "this request" : "an earlier request";
}

function stageRows(request) {
  const rows = Object.entries(request.timings.stages);
  return rows.map(([stage, duration]) => [stage, words.seconds(duration)]);
}

function callRows(request) {
  return request.upstream_calls.map((call) => [
    words.plain(call.purpose),
    call.error ? words.plain(call.error) : String(call.status ?? "?"),
    words.seconds(call.duration_seconds),
  ]);
}

function drawTable(caption, titles, rows) {
  if (!rows.length) return null;
  const head = make("tr", null, titles.map((title) => make("th", { scope: "col" }, title)));
  const body = rows.map((row) => make("tr", null, row.map((text) => make("td", null, text))));
  const table = make("table", null, make("caption", null, caption), make("thead", null, head), make("tbody", null, body));
  // A region that scrolls must be reachable by keyboard.
  return make("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": caption }, table);
}

export function drawConversation(conversation) {
  const { tokens, verdict, breaks, placements } = conversation;
  const records = placements.reduce((sum, placement) => sum + placement.records.length, 0);
  const added = placements.reduce((sum, placement) => sum + placement.tokens, 0);
  const said = breaks.slice(0, 2).map(words.breakWords);
  if (breaks.length > 2) said.push(`${words.count(breaks.length - 2, "more cause")}`);
  return [
    make("span", { class: "head" },
      make("span", { class: "chip", "data-verdict": verdict?.verdict ?? "none" }, words.verdictName(verdict)),
      make("strong", { class: "model" }, conversation.model ?? "no model"),
      make("time", { datetime: words.moment(conversation.last_at), title: words.moment(conversation.last_at) }, words.clock(conversation.last_at)),
    ),
    make("span", { class: "quiet" }, `${conversation.id.slice(0, 12)} · ${words.count(conversation.requests, "request")}`),
    make("span", { class: "pair" },
      make("span", null, make("b", { class: "hit" }, words.percent(tokens.cached, tokens.input)), " cached"),
      make("span", { class: conversation.lost_tokens ? "bad" : null }, make("b", { class: "lost-tokens" }, words.number(conversation.lost_tokens)), " lost"),
    ),
    ...said.map((text) => make("span", { class: "broken-by" }, text)),
    records ? make("span", { class: "surface" }, `${words.count(records, "record")} placed, ${words.count(added, "token")}`) : null,
  ].filter(words.isKnown);
}

export function drawTotals(status) {
  const { tokens, faults } = status;
  const blamed = faults.reduce((sum, fault) => sum + fault.count, 0);
  const blame = faults.map((fault) => `${fault.count} × ${fault.code} at ${fault.where}, route ${fault.route}`).join("\n");
  const failing = (status.sources ?? []).filter((source) => source.failures > 0);
  const failed = failing.map((source) => `${source.id}: ${words.plain(source.error ?? source.status)}, ${words.count(source.failures, "failure")} in a row`).join("\n");
  return [
    drawTotal("Requests", words.number(status.requests)),
    drawTotal("In flight", words.number(status.in_flight)),
    drawTotal("Cached", words.percent(tokens.cached, tokens.input), `${words.number(tokens.cached)} of ${words.count(tokens.input, "input token")}`),
    drawTotal("Breaks", words.number(status.breaks), "Requests that lost tokens which the cache held"),
    drawTotal("Tokens lost", words.number(status.lost_tokens)),
    drawTotal("Unplanned by us", words.number(status.sidecar_mutations), "Prefix changes that the sidecar caused without meaning to; must stay 0. A recovered overflow is meant", status.sidecar_mutations > 0),
    drawTotal("Faults", words.number(blamed), blame || "Faults of the sidecar, and requests that led to no upstream", blamed > 0),
    ...drawGroups(status.groups ?? {}),
    failing.length ? drawTotal("Sources failing", failing.map((source) => source.id).join(", "), failed, true) : null,
  ].filter(words.isKnown);
}

/** The two sides of the holdout, where there is one: what a request used on each. */
function drawGroups(groups) {
  return ["treated", "held_out"].filter((name) => groups[name]).map((name) => {
    return drawTotal(words.groupName(name), `${words.perRequest(groups[name])} / request`, words.groupWords(groups[name]));
  });
}

function drawTotal(term, text, title = null, isBad = false) {
  const pair = drawPair(term, text, title);
  if (isBad) pair.className = "bad";
  return pair;
}

/** What each of several processes did, in the order of their places. */
export function drawWorkers(workers) {
  return workers.map((worker) => {
    const title = worker.is_serving ? `Process ${worker.process}` : "Its process is gone, or not ready yet";
    return make("li", { "data-worker": worker.worker, class: worker.is_serving && !worker.failures ? null : "bad", title }, words.workerWords(worker));
  });
}

export function drawCommand(command, copy) {
  const button = make("button", { type: "button" }, "Copy");
  const code = make("code", null, command);
  button.addEventListener("click", async () => {
    button.textContent = (await copy(command, code)) ? "Copied" : "Selected: press Ctrl+C";
  });
  return make("li", null, code, button);
}
