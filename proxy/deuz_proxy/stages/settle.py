"""Settle: what is kept of an answered request, and what is told of it.

Rules:
- Operations and baselines are kept once the upstream accepted, before the client can
  send what follows.
- Usage is the second witness of the prefix; without it nothing is claimed.
- Nothing here can fail the request: it has been served.
"""

from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass

from msgspec.structs import replace

from deuz_compiler import (
    Baseline,
    Envelope,
    Operation,
    Prefix,
    ReplyFacts,
    Standing,
    Usage,
    Verdict,
    digest_held,
    gone_on,
    kept_seconds,
    may_read_cache,
    progress_of,
    standing_of,
    weigh_usage,
)
from deuz_proxy.calls import Call, Compiled, Sent, Totals
from deuz_proxy.errors import StoreFailed
from deuz_proxy.observe.events import (
    Compile,
    FaultCaught,
    Overflow,
    Placement,
    RequestFinished,
)
from deuz_proxy.observe.watch import Watch
from deuz_proxy.overflows import Seen, observe_overflow
from deuz_proxy.placements import tell_placements
from deuz_proxy.predicting import predict_call
from deuz_proxy.readings import with_reading
from deuz_proxy.runtime import Runtime

# Bounds and modes are the operator's: what they change is ours to tell, and no fault.
_DELIBERATE = (
    "overflow_recovery",
    "record_forgotten",
    "evicted",
    "ledger_changed",
    "mode_changed",
)
# OpenAI caches from 1024 tokens on and counts in steps of 128.
_OPENAI_LEAST, _OPENAI_STEP = 1024, 128


@dataclass(slots=True)
class Story:
    """What the line knows of a request so far. Written by the task that serves it.

    It is told once, when the request is over, however it ended.
    """

    call: Call
    compiled: Compiled
    watch: Watch
    totals: Totals
    sent: Sent | None = None
    overflows: tuple[Overflow, ...] = ()


async def keep_call(call: Call, compiled: Compiled, runtime: Runtime) -> None:
    """Commit what an accepted request added and take it as the new baseline."""
    envelope, inbound, outbound = call.envelope, compiled.inbound, compiled.outbound
    starts = call.starts
    if envelope is None or inbound is None or outbound is None or starts is None:
        return
    is_kept = not compiled.pending or await _commit(call, compiled, runtime)
    progress = progress_of(
        envelope,
        call.chain,
        inbound,
        starts=starts,
        seed=call.identity.seed,
        resumed=call.resumed,
    )
    held = _digest(call, compiled)
    standing = _standing(envelope, compiled, held, turns=len(progress.keys))
    if standing is not None and standing.reading is None and is_kept:
        standing = with_reading(call, compiled, standing, runtime)
    runtime.checkpoints.keep(starts, progress, standing, resumed=call.resumed)
    if compiled.sighting is None or call.is_apart:
        return
    if runtime.archives and call.target.mode == "compile" and call.identity.is_known:
        for archive in runtime.archives:
            archive.note(call)
    # Where our blocks stand tells the client's prefix: it need not be kept, too.
    own = standing.marks.ours.within if standing is not None else b""
    # In the order of its fields: by name, each is looked for among all of them.
    baseline = Baseline(
        own or inbound,
        outbound,
        call.at,
        kept_seconds(envelope, progress),
        None,
        # What could not be kept is missing later, as if the ledger did not answer.
        compiled.is_ledger_lost or not is_kept,
        compiled.tried,
        len(compiled.operations),
        held,
    )
    runtime.tracker.record(
        compiled.sighting,
        call.chain[envelope.lead :],
        baseline,
        session=call.identity.session,
        texts=_segment_texts(envelope.body, outbound, runtime.tracker.kept_text),
    )


def _digest(call: Call, compiled: Compiled) -> int | None:
    """Return the digest of what the ledger held; None where nothing may be added."""
    if not call.is_compiled:
        return None
    reading = compiled.reading
    if reading is not None and reading.digest is not None:
        return reading.digest
    return digest_held(compiled.operations)


def _standing(
    envelope: Envelope, compiled: Compiled, held: int | None, *, turns: int
) -> Standing | None:
    """Return what stands on the first turns, for a request that goes on from there.

    `held` is the digest of what the ledger held.
    """
    inbound, outbound = compiled.inbound, compiled.outbound
    if inbound is None or outbound is None or compiled.surface is None:
        return None
    # What is not sent does not stand; what ends one request is no part of the next.
    if inbound is outbound or compiled.tail is not None:
        return None
    if (known := compiled.standing) is not None:
        reading = compiled.reading
        if reading is not None and reading.digest is None:
            reading = replace(reading, digest=held)
        return gone_on(known, envelope, inbound, outbound, turns=turns, reading=reading)
    return standing_of(envelope, compiled.surface, inbound, outbound, turns=turns)


async def _commit(call: Call, compiled: Compiled, runtime: Runtime) -> bool:
    keys = call.ledger_keys
    kept = {keys[turn]: operations for turn, operations in compiled.pending.items()}
    try:
        try:
            await runtime.ledger.commit(kept)
        except BaseException:
            # Late, or left by its client, it may be kept all the same.
            with suppress(StoreFailed):
                await _look_after(kept, call, runtime)
            raise
        await _look_after(kept, call, runtime)
    except StoreFailed as fault:
        runtime.notice(FaultCaught(call.target.route, "settle", fault.code))
        return False
    return True


async def _look_after(
    kept: Mapping[bytes, tuple[Operation, ...]], call: Call, runtime: Runtime
) -> None:
    if runtime.memory is not None:
        # Its owner may have forgotten a record while the request was under way.
        await runtime.memory.look_after(kept, since=call.at)


def _segment_texts(
    body: bytes, sent: Prefix, kept: Callable[[bytes], bytes | None]
) -> list[tuple[bytes, bytes]]:
    """Return tools and system by digest: what a later break is explained from.

    One that is kept already is that one, not another copy.
    """
    texts = []
    for segment in (sent.tools, sent.system):
        if digest := segment.digest:
            text = kept(digest)
            texts.append((digest, text or body[segment.start : segment.end]))
    return texts


def tell_call(story: Story, runtime: Runtime) -> RequestFinished:
    """Weigh the answer's usage and return what happened."""
    facts = story.sent.meter.close() if story.sent else ReplyFacts()
    overflows = story.overflows or observe_overflow(
        Seen(story.call, story.compiled, story.sent, story.totals, facts), runtime
    )
    return _finished(story, facts, _weighed(story, facts.usage), overflows)


def plain_finish(story: Story) -> RequestFinished:
    """Return what is known without weighing anything."""
    return _finished(story, ReplyFacts(), story.compiled.verdict, story.overflows)


def learn_call(story: Story, finished: RequestFinished, runtime: Runtime) -> None:
    """Learn from the provider's own counts, unless it counted less than was sent."""
    compiled, envelope = story.compiled, story.call.envelope
    usage = finished.usage
    if usage is None or usage.is_anomalous or envelope is None:
        return
    for overflow in finished.overflows:
        if overflow.stage == "silent":
            return
    total = usage.input_total
    if total and compiled.outbound is not None and not envelope.is_partial:
        estimated = compiled.outbound.total_tokens + compiled.tail_tokens
        runtime.estimates.learn(envelope.model, estimated=estimated, actual=total)
    frontier = _frontier(story.call.target.api, usage)
    if frontier is not None and compiled.sighting is not None:
        # What ended this request alone is not at the front of the next one.
        most = (total or frontier) - compiled.tail_tokens
        frontier = most if most < frontier else frontier
        frontier = frontier if frontier > 0 else 0
        runtime.tracker.note_frontier(compiled.sighting.conversation, frontier)


def _frontier(api: str, usage: Usage) -> int | None:
    """Return how many tokens of the prefix the provider now holds, if it said so."""
    if usage.cache_read is None:
        return None
    if usage.cache_write is not None or api == "anthropic":
        return usage.cache_read + (usage.cache_write or 0)
    if api == "gemini":
        # What was read is there; that more was kept, nobody promises.
        return usage.cache_read
    total = usage.input_total or 0
    # Nothing read and no write counted: the provider may not cache at all.
    if total < _OPENAI_LEAST:
        return None
    return total // _OPENAI_STEP * _OPENAI_STEP


def _weighed(story: Story, usage: Usage | None) -> Verdict | None:
    compiled = story.compiled
    if compiled.verdict is None:
        return None
    is_side_call = compiled.sighting is not None and compiled.sighting.is_side_call
    if is_side_call or story.call.is_apart:
        return Verdict("side_call")
    baselines = compiled.sighting.baselines if compiled.sighting else ()
    latest = baselines[0] if baselines else None
    envelope = story.call.envelope
    weighed = weigh_usage(compiled.verdict, latest, usage, now=story.call.at)
    if weighed is compiled.verdict or (usage is not None and usage.cache_read):
        return weighed
    # Nothing was read of what stands there: perhaps it was not asked for.
    is_asked = envelope is not None and may_read_cache(envelope)
    return weighed if is_asked else compiled.verdict


def _finished(
    story: Story,
    facts: ReplyFacts,
    verdict: Verdict | None,
    overflows: tuple[Overflow, ...],
) -> RequestFinished:
    call, compiled, totals = story.call, story.compiled, story.totals
    target, envelope = call.target, call.envelope
    address, port = target.address
    sent, sighting, usage = compiled.outbound, compiled.sighting, facts.usage
    is_added = compiled.operations or compiled.tail
    is_ours = verdict is not None and verdict.owner == "sidecar"
    stages, stage_seconds = story.watch.stages()
    # In the order of its fields: by name, each is looked for among all of them, which
    # takes longer than all that is told here.
    return RequestFinished(
        call.id,
        target.route,
        target.upstream,
        target.api or target.family,
        target.mode,
        call.incoming.method,
        target.path.partition("?")[0],
        envelope.model if envelope else facts.model or target.model or None,
        facts.model,
        totals.status,
        totals.outcome,
        totals.error,
        call.at,
        story.watch.elapsed(),
        totals.first_byte_seconds,
        bool(envelope and envelope.is_streamed),
        len(call.as_sent(compiled.body) or b""),
        totals.response_bytes,
        stages,
        stage_seconds,
        compiled.passthrough or call.passthrough,
        sighting.conversation if sighting else None,
        usage,
        "reported" if usage is not None and not usage.is_anomalous else _odd(usage),
        facts.finish_reason,
        facts.response_id,
        sent.total_tokens + compiled.tail_tokens if sent else None,
        verdict,
        compiled.shares,
        _placements(story) if is_added else (),
        _told_compile(compiled.compile, verdict) if compiled.compile else None,
        overflows,
        compiled.compactions,
        tuple(story.watch.calls),
        envelope.max_output_tokens if envelope else None,
        address,
        port,
        _mutations(verdict) if is_ours else 0,
        call.trace,
        call.group,
        predict_call(call, compiled, usage) if compiled.tried else None,
    )


def _odd(usage: Usage | None) -> str:
    """Name the status of a usage that is not there, or not to be trusted."""
    return "absent" if usage is None else "anomalous"


def _placements(story: Story) -> tuple[Placement, ...]:
    is_accepted = story.sent is not None and story.sent.is_accepted
    return tell_placements(story.call, story.compiled, is_accepted=is_accepted)


def _told_compile(compiled: Compile, verdict: Verdict | None) -> Compile:
    """Add what the verdict says: whether the prefix sent before is still there."""
    is_changed = verdict is not None and verdict.verdict == "broken"
    return replace(compiled, is_prefix_changed=True) if is_changed else compiled


def _mutations(verdict: Verdict | None) -> int:
    """Count a prefix change that is ours and was not meant: it must never happen."""
    if verdict is None or verdict.owner != "sidecar":
        return 0
    return int(verdict.cause not in _DELIBERATE)
