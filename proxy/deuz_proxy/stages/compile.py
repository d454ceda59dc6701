"""Compile: decide what is added, lay it out on the client's bytes, judge the prefix.

Rules:
- Nothing waits here: sources and ledger have answered, the answer is computed.
- What is added is a pure function of what was recalled; the same request gives the
  same bytes.
- A shadow route goes all the way, and then sends the client's own bytes.
"""

from collections.abc import Mapping, Sequence

import msgspec
from msgspec.structs import replace

from deuz_compiler import (
    Append,
    Bare,
    Baseline,
    Envelope,
    Operation,
    Ours,
    Prefix,
    Reading,
    Standing,
    Surface,
    Verdict,
    judge,
    judged_shares,
    part_span,
    plain_prefix,
    prefix_again,
    project,
    put_again,
    put_back,
    put_more,
    shortens,
    splice,
    surface_again,
    was_redacted,
    was_unfolded,
    with_surface,
)
from deuz_proxy.calls import NOTHING_KNOWN, Body, Call, Compiled, Known, Tail
from deuz_proxy.errors import ContextRefused
from deuz_proxy.observe.events import Compile
from deuz_proxy.offers import compile_gathered, describe_compile, make_block
from deuz_proxy.own_breaks import UNEXPLAINED, tell_own_break
from deuz_proxy.placements import tell_stood
from deuz_proxy.predicting import tried_baselines
from deuz_proxy.runtime import Runtime
from deuz_proxy.tails import copy_of, make_tail

Operations = Mapping[int, tuple[Operation, ...]]

_LEDGER_LOST = "ledger_lost"


def compile_call(call: Call, known: Known, runtime: Runtime) -> Compiled:
    """Return the request as it will be sent.

    Raises:
        ContextRefused: mandatory context cannot be added and the route fails closed.
    """
    if call.envelope is None:
        return Compiled(call.body)
    if known is NOTHING_KNOWN:
        return tell_own_break(call, known, lay_out(call, {}, runtime))
    own_cause = _LEDGER_LOST if known.is_ledger_lost else None
    if known.gathered is None and known.notes is None and not known.undecided:
        # Most requests of an agent: what stands is put back, and nothing is new.
        compiled = lay_out(
            call,
            known.operations,
            runtime,
            own_cause=own_cause,
            reading=known.reading,
        )
        compiled = tell_own_break(call, known, compiled)
        is_lost = known.is_ledger_lost
        return replace(compiled, is_ledger_lost=True) if is_lost else compiled
    known = _with_tail(call, known, runtime)
    pending = stay_bare(known.undecided, known.operations)
    told = None
    if known.gathered is not None and known.place is not None:
        at_place = known.operations.get(known.place, ())
        block, told = add_context(call, known, runtime)
        pending[known.place] = (*at_place, block or Bare())
    pending = keep_tail(known.tail, pending, known.operations)
    operations = {**known.operations, **pending}
    compiled = lay_out(call, operations, runtime, own_cause=own_cause, tail=known.tail)
    return replace(
        tell_own_break(call, known, compiled),
        pending=pending,
        compile=told,
        is_ledger_lost=known.is_ledger_lost,
    )


def _with_tail(call: Call, known: Known, runtime: Runtime) -> Known:
    """Write the end of the request first: what it takes is no room for records."""
    if known.notes is None or call.envelope is None:
        return known
    surface = project(call.envelope, known.operations, part_span)
    return replace(known, tail=make_tail(call, known, surface, runtime))


def stay_bare(
    turns: Sequence[int], operations: Operations
) -> dict[int, tuple[Operation, ...]]:
    """Return the turns' operations, now saying that no block will stand behind them."""
    return {turn: (*operations.get(turn, ()), Bare()) for turn in turns}


def keep_tail(
    tail: Tail | None,
    pending: dict[int, tuple[Operation, ...]],
    operations: Operations,
) -> dict[int, tuple[Operation, ...]]:
    """Return what is pending, with the end of the request where it is to stay."""
    if tail is None or not tail.is_kept:
        return pending
    turn = tail.ending.turn
    held = pending.get(turn, operations.get(turn, ()))
    return {**pending, turn: (*held, copy_of(tail))}


def add_context(
    call: Call, known: Known, runtime: Runtime, *, free_tokens: int | None = None
) -> tuple[Append | None, Compile]:
    """Return the new block, if anything was selected, and the account of it.

    Raises:
        ContextRefused: the compiler refused and the route fails closed.
    """
    if call.envelope is None or known.gathered is None:
        raise ValueError("nothing was gathered for this request")
    started_at, start = runtime.clock(), runtime.monotonic()
    surface = _projected(call, call.envelope, known.operations)
    compilation = compile_gathered(
        call, known, surface, runtime, free_tokens=free_tokens
    )
    is_binding = call.target.is_closed_on_error and call.target.mode == "compile"
    if compilation.refusal is not None and is_binding:
        raise ContextRefused(reason=compilation.refusal.reason)
    told = describe_compile(
        compilation.manifest,
        known.gathered,
        started_at=started_at,
        duration_seconds=runtime.monotonic() - start,
    )
    return make_block(call, known, compilation, runtime), told


def _projected(call: Call, envelope: Envelope, operations: Operations) -> Surface:
    """Return the surface of what was placed before: as it stood, as a rule."""
    standing = call.resumed.standing if call.resumed else None
    stood = put_back(standing, envelope, operations) if standing else None
    return stood or project(envelope, operations, part_span)


def lay_out(
    call: Call,
    operations: Operations,
    runtime: Runtime,
    *,
    own_cause: str | None = None,
    tail: Tail | None = None,
    reading: Reading | None = None,
) -> Compiled:
    """Return the request with the operations applied and its prefix judged.

    `reading` is where the operations are from, if that may be gone on with.
    """
    envelope = _envelope(call)
    inbound = plain_prefix(envelope, call.shared)
    passing = tail if tail is not None and not tail.is_kept else None
    shown = _BARE
    if operations or passing is not None:
        shown = _shown(call, operations, inbound, passing, reading)
    surface, outbound = shown.surface, shown.outbound or inbound
    sighting = runtime.tracker.sight(
        call.chain[envelope.lead :],
        inbound,
        session=call.identity.session,
        is_probe=call.is_probe,
    )
    current = Baseline(inbound, outbound, call.at, 0.0)
    baselines = sighting.baselines
    if own_cause is None and baselines and baselines[0].is_ledger_lost:
        # What was missing has come back, and breaks the prefix a second time.
        own_cause = _LEDGER_LOST
    body, kept = envelope.body, runtime.tracker.kept_text
    verdict = judge(baselines, current, body=body, kept=kept, own_cause=own_cause)
    if verdict.segment is not None:
        # Of what was put again the surface is only needed to tell of a break.
        seen = surface_again(shown.standing, envelope) if shown.standing else surface
        verdict = _explained(verdict, envelope, seen, operations)
    tried = tried_verdict = None
    if call.target.mode == "shadow" and call.identity.is_known:
        tried = with_surface(inbound, envelope, surface) if surface.edits else inbound
        told = judge(
            tried_baselines(baselines),
            replace(current, outbound=tried),
            body=body,
            kept=kept,
            own_cause=own_cause,
        )
        tried_verdict = _explained(told, envelope, surface, operations)
    is_changed = outbound is not inbound
    # In the order of the fields: by name, each is looked for.
    return Compiled(
        (shown.body or splice(body, surface.edits)) if is_changed else body,
        surface,
        inbound,
        outbound,
        sighting,
        verdict,
        judged_shares(verdict, baselines, current, shown.ours),
        operations,
        passthrough=None if is_changed else call.passthrough,
        tail=tail,
        tail_tokens=passing.tokens if passing and is_changed else 0,
        tried=tried,
        tried_verdict=tried_verdict,
        standing=shown.standing,
        reading=shown.reading,
    )


class _Shown(msgspec.Struct, frozen=True):
    """What the model will see; `outbound` is its prefix, where that is not the plain.

    `ours` is what is ours in it, `standing` is what was put back, `body` what is sent,
    where that is known without the surface's edits, and `reading` what was put back was
    read from. Of what was put back as it was the last time, the surface is blank.
    """

    surface: Surface
    outbound: Prefix | None = None
    ours: Ours = Ours()
    standing: Standing | None = None
    body: Body | None = None
    reading: Reading | None = None


_BLANK = Surface(edits=(), pieces=(), blocks=())
_BARE = _Shown(_BLANK)


def _shown(
    call: Call,
    operations: Operations,
    inbound: Prefix,
    passing: Tail | None,
    reading: Reading | None,
) -> _Shown:
    envelope, is_sent = _envelope(call), call.target.mode == "compile"
    standing = call.resumed.standing if call.resumed else None
    if standing is not None and passing is None and is_sent:
        again, before = prefix_again(standing, inbound), standing.reading
        if before is not None and reading is not None and reading.held is before.held:
            body = put_again(standing, envelope.body, reading.texts())
            return _Shown(_BLANK, again, standing.marks.ours, standing, body, reading)
        back = put_back(standing, envelope, operations)
        if back is not None:
            # What may be new is told when it is known what became of it.
            told = () if reading is None else tell_stood(operations)
            standing = replace(standing, told=told)
            body = put_again(standing, envelope.body, _texts(back))
            return _Shown(back, again, standing.marks.ours, standing, body, reading)
        more = put_more(standing, envelope, inbound, operations)
        if more is not None:
            surface, stands = more
            body = put_again(stands, envelope.body, _texts(surface))
            return _Shown(surface, stands.outbound, stands.marks.ours, stands, body)
    ending = passing.ending if passing else None
    surface = project(envelope, operations, part_span, ending=ending)
    if not (surface.edits and is_sent):
        return _Shown(surface)
    outbound = with_surface(inbound, envelope, surface)
    return _Shown(surface, outbound, surface.ours(envelope.lead))


def _texts(surface: Surface) -> list[bytes]:
    return [block.append.text for block in surface.blocks]


def _explained(
    verdict: Verdict, envelope: Envelope, surface: Surface, operations: Operations
) -> Verdict:
    """Give a break its cause, if it is one that was meant, and its place."""
    if verdict.segment is None:
        return verdict
    named = _named(verdict, envelope, surface, operations)
    return _located(named, envelope, surface)


def _named(
    verdict: Verdict, envelope: Envelope, surface: Surface, operations: Operations
) -> Verdict:
    """Tell what we meant from what must not happen: a recovery, a forgotten record.

    A branch shares the ledger: what was condensed for one is condensed for all.
    """
    if verdict.cause != UNEXPLAINED or verdict.index is None:
        return verdict
    turns = [e.turn for e in surface.elements if e.turn >= envelope.lead]
    at = verdict.index
    # The break is at the block, or at the turn that took its place.
    around = turns[max(0, at - 1) : at + 1]
    is_forgotten = any(was_redacted(operations.get(turn, ())) for turn in around)
    if is_forgotten or (at < len(turns) and was_unfolded(operations, turns[at])):
        return msgspec.structs.replace(verdict, cause="record_forgotten")
    # Of a turn's elements the first is its stub or its fold, the others are blocks.
    if at >= len(turns) or turns[at] in turns[max(0, at - 1) : at]:
        return verdict
    if not shortens(operations, turns[at]):
        return verdict
    return msgspec.structs.replace(verdict, cause="overflow_recovery")


def _located(verdict: Verdict, envelope: Envelope, surface: Surface) -> Verdict:
    """Give a break in the history its place in the client's body."""
    if verdict.segment != "turn" or verdict.index is None or verdict.offset is not None:
        return verdict
    turn = envelope.lead + verdict.index
    if verdict.owner == "sidecar":
        elements = [e for e in surface.elements if e.turn >= envelope.lead]
        turn = elements[verdict.index].turn if verdict.index < len(elements) else turn
    if turn >= len(envelope.turns):
        return verdict
    offset = envelope.turns[turn].start
    return msgspec.structs.replace(verdict, offset=offset)


def _envelope(call: Call) -> Envelope:
    if call.envelope is None:
        raise ValueError("a request that is not understood has no layout")
    return call.envelope
