"""Recall: what the conversation already holds, and what the sources offer now.

Rules:
- Only routes that compile ask the ledger or a source; an unknown scope gets no context.
- Retrieval answers a turn with fresh user text, once; the block then stays, and so does
  its absence.
- One deadline for all sources: who is late is counted and left behind. Who was late or
  failed too often rests and is not asked.
"""

import asyncio
from collections.abc import Sequence
from itertools import islice
from typing import Literal

from msgspec.structs import replace

from deuz_compiler import (
    Append,
    Candidate,
    MalformedInput,
    NotLifted,
    Reading,
    Snapshot,
    digest_text,
    place_for_context,
    user_text,
)
from deuz_proxy.calls import (
    NOTHING_KNOWN,
    ByTurn,
    Call,
    Gathered,
    Known,
    SourceAnswer,
    header,
)
from deuz_proxy.errors import SidecarError, SourceFailed, StoreFailed
from deuz_proxy.memory.working import WorkingMemory, key_fault
from deuz_proxy.observe.events import FaultCaught
from deuz_proxy.ports import FindHere, Query, SharedTracker, Source
from deuz_proxy.runtime import Runtime
from deuz_proxy.undecided import is_decided, undecided_turns

_LONGEST_QUERY = 2000
_NOTES = b"x-deuz-working-memory"

Answer = tuple[SourceAnswer, Sequence[Candidate]]


def is_recall_due(call: Call, runtime: Runtime) -> bool:
    """Tell whether anything is to be recalled: of the ledger, or what others saw."""
    return runtime.shared is not None or call.is_compiled


def recall_here(call: Call, runtime: Runtime) -> Known | None:
    """Return what is known of a request that asks nothing; None if it is to wait.

    Most turns of an agent, with a ledger in the process. Else `recall_context` tells.
    """
    envelope = call.envelope
    is_waiting = runtime.shared is not None or _may_have_notes(call, runtime)
    if envelope is None or is_waiting or place_for_context(envelope) is not None:
        return None
    known = _read_before(call)
    # Leading turns have keys too, at which nothing is ever held.
    reading = runtime.ledger.read_here(call.ledger_keys, known)
    if reading is None:
        return None
    since = known.count if known is not None and known.held is reading.held else 0
    operations = reading.operations()
    undecided = undecided_turns(envelope, operations, since=since)
    if undecided:
        return Known(operations, undecided=undecided if runtime.sources else ())
    # Of what is gone on with it is known that it asks for no shorter history.
    return Known(operations, reading=None if call.is_condensing else reading)


def _read_before(call: Call) -> Reading | None:
    """Return what was held of the history that this goes on from, if that is known."""
    standing = call.resumed.standing if call.resumed else None
    # What is only tried out has keys of its own.
    if standing is None or call.target.mode != "compile":
        return None
    return standing.reading


async def recall_context(call: Call, runtime: Runtime) -> Known:
    """Return the ledger's operations on this history and, if due, new candidates.

    What others saw of the conversation is loaded at the same time, if it is shared.

    A ledger that fails is counted and answered with nothing: the request goes on.

    Raises:
        StoreFailed: the ledger failed, and the route fails closed.
        Exception: asking the sources failed, and the route fails closed.
    """
    if not call.is_compiled:
        if runtime.shared is not None:
            await _load(call, runtime.shared)
        return NOTHING_KNOWN
    try:
        operations = await _read_ledger(call, runtime)
    except StoreFailed as fault:
        if call.target.is_closed_on_error:
            raise
        runtime.notice(FaultCaught(call.target.route, "recall", fault.code))
        return Known(is_ledger_lost=True)
    known = await _with_offers(call, operations, runtime)
    notes = await _read_notes(call, runtime)
    return known if notes is None else replace(known, notes=notes)


async def _load(call: Call, shared: SharedTracker) -> None:
    if call.envelope is not None:
        keys = call.chain[call.envelope.lead :]
        await shared.load(keys, session=call.identity.session)


async def _read_notes(call: Call, runtime: Runtime) -> Snapshot | None:
    """Return the working memory that the client names, or its conversation's.

    Raises:
        StoreFailed: the store failed, and the route fails closed.
    """
    if runtime.notes is None or not _may_have_notes(call, runtime):
        return None
    named = header(call.headers, _NOTES)
    try:
        async with asyncio.timeout(runtime.config.context.refresh.deadline_ms / 1000):
            return await _notes(call, runtime.notes, runtime, named)
    except (StoreFailed, MalformedInput, TimeoutError) as fault:
        if call.target.is_closed_on_error:
            raise StoreFailed(store="memory", operation="load") from fault
        runtime.notice(FaultCaught(call.target.route, "recall", StoreFailed.code))
        return None


def _may_have_notes(call: Call, runtime: Runtime) -> bool:
    """Tell whether there may be working memory to be read."""
    if runtime.notes is None:
        return False
    admission = call.incoming.letterhead.admission
    is_named = admission is None or _NOTES in admission.names
    return is_named or not runtime.notes.is_known_empty


async def _notes(
    call: Call, notes: WorkingMemory, runtime: Runtime, named: bytes | None
) -> Snapshot | None:
    if named is not None:
        key = named.decode("latin-1").strip()
        # A word that cannot be a key names nothing, and not the conversation either.
        is_key = key_fault(key) is None
        return await notes.find(call.identity.scope, key) if is_key else None
    lead = call.envelope.lead if call.envelope else 0
    conversation = runtime.tracker.conversation_of(call.chain[lead:])
    if conversation is None or not await notes.is_in_use():
        return None
    return await notes.find(call.identity.scope, conversation)


async def _with_offers(call: Call, operations: ByTurn, runtime: Runtime) -> Known:
    due = _due_place(call, operations, runtime)
    undecided: tuple[int, ...] = ()
    if call.envelope is not None and runtime.sources:
        undecided = undecided_turns(call.envelope, operations)
    if due is None:
        return Known(operations, undecided=undecided)
    place, reason = due
    undecided = tuple(turn for turn in undecided if turn != place)
    try:
        asked = _asked_sources(operations, runtime)
        gathered = await _gather(call, runtime, asked, (place, reason))
    except NotLifted:
        # A turn that its provider cannot read either asks nothing; it is told there.
        return Known(operations, undecided=(*undecided, place))
    except Exception as fault:
        if call.target.is_closed_on_error:
            raise
        # What was placed before stays, whatever happens to what would be new.
        code = getattr(fault, "code", SidecarError.code)
        runtime.notice(FaultCaught(call.target.route, "recall", str(code)))
        return Known(operations, undecided=(*undecided, place))
    return Known(operations, gathered, place, undecided)


async def _read_ledger(call: Call, runtime: Runtime) -> ByTurn:
    first = call.envelope.lead if call.envelope else 0
    reading = runtime.ledger.read(call.ledger_keys[first:])
    if runtime.shared is None:
        found = await reading
    else:
        # Both at once: one round trip, as far as the request is concerned.
        loading = _load(call, runtime.shared)
        found, _ = await asyncio.gather(reading, loading)
    return {first + i: operations for i, operations in enumerate(found) if operations}


def _due_place(
    call: Call, operations: ByTurn, runtime: Runtime
) -> tuple[int, str] | None:
    """Return the turn behind which new context is due and why, or None."""
    envelope = call.envelope
    place = place_for_context(envelope) if envelope else None
    # A probe asks nothing, and a history is made shorter by what is in it alone.
    is_asking = bool(runtime.sources) and not (call.is_probe or call.is_condensing)
    if envelope is None or place is None or not is_asking:
        return None
    blocks = [
        index
        for index, known in operations.items()
        if any(isinstance(operation, Append) for operation in known)
    ]
    is_requested = header(call.headers, b"x-deuz-refresh") == b"1"
    # Only who asks for it gets a block behind a turn that was answered without one.
    is_over = not is_requested and is_decided(operations.get(place, ()))
    if place in blocks or is_over:
        return None
    if is_requested:
        return place, "host-request"
    if not blocks:
        return place, "initial"
    answers = (t for t in envelope.turns[max(blocks) :] if t.role == "assistant")
    # No more of them are looked at than are wanted.
    wanted = runtime.config.context.refresh.min_steps
    is_due = sum(1 for _ in islice(answers, wanted)) == wanted
    return (place, "fresh-turn") if is_due else None


def _asked_sources(operations: ByTurn, runtime: Runtime) -> tuple[Source, ...]:
    """Return the sources to ask: past the limit, those whose records must enter."""
    limit = runtime.config.context.refresh.max_passes
    placed = [o for held in operations.values() for o in held if isinstance(o, Append)]
    if len(placed) < limit:
        return runtime.sources
    return tuple([source for source in runtime.sources if source.gives_mandatory])


async def _gather(
    call: Call, runtime: Runtime, sources: Sequence[Source], due: tuple[int, str]
) -> Gathered:
    place, reason = due
    refresh = runtime.config.context.refresh
    text, limit = _query_text(call, place), refresh.candidates_per_source
    query = Query(text, call.identity.scope, limit, call.envelope, call.chain)
    deadline = asyncio.get_running_loop().time() + refresh.deadline_ms / 1000
    if len(sources) == 1:
        # Nothing to be done at the same time: no task of its own.
        answers = [await _ask(sources[0], query, deadline, runtime)]
    else:
        async with asyncio.TaskGroup() as group:
            asked = [_ask(source, query, deadline, runtime) for source in sources]
            tasks = [group.create_task(each) for each in asked]
        answers = [task.result() for task in tasks]
    return Gathered(
        refresh_reason=reason,
        candidates=tuple([c for _, found in answers for c in found]),
        answers=tuple([answer for answer, _ in answers]),
        query_digest=digest_text(text),
    )


async def _ask(
    source: Source, query: Query, deadline: float, runtime: Runtime
) -> Answer:
    if not runtime.breakers.admit(source.id):
        return SourceAnswer(source.id, source.kind, "skipped", 0.0, "resting"), ()
    try:
        answer, found = await _answered(source, query, deadline, runtime)
    except BaseException:
        # The client has left: that says nothing of the source.
        runtime.breakers.note(source.id, None)
        raise
    runtime.breakers.note(source.id, answer.status)
    return answer, found


async def _answered(
    source: Source, query: Query, deadline: float, runtime: Runtime
) -> Answer:
    start = runtime.monotonic()
    error = None
    found: Sequence[Candidate] = ()
    status: Literal["ok", "empty", "late", "failed", "skipped"]
    try:
        find_here: FindHere | None = getattr(source, "find_here", None)
        offered = find_here(query) if find_here else None
        if offered is None:
            async with asyncio.timeout_at(deadline):
                offered = await source.find(query)
        found = _bounded(offered, query.limit)
        status = "ok" if found else "empty"
    except TimeoutError:
        status = "late"
    except asyncio.CancelledError:
        if _is_cancelled():
            raise
        # A source that cancels itself has not cancelled the request.
        status, error = "failed", "cancelled"
    except Exception as fault:  # noqa: BLE001  # A source may be anybody's code.
        error = _error_of(fault)
        status = "skipped" if error == SourceFailed.NOT_READY else "failed"
    seconds = runtime.monotonic() - start
    return SourceAnswer(source.id, source.kind, status, seconds, error), found


def _error_of(fault: Exception) -> str:
    """Return a word for the fault; its message might quote the answer."""
    if isinstance(fault, SourceFailed):
        return fault.reason
    return str(getattr(fault, "code", type(fault).__name__))


def _bounded(found: Sequence[Candidate], limit: int) -> tuple[Candidate, ...]:
    """Return what was found, checked and within the limit; mandatory ones all stay."""
    kept = tuple(found)
    if not all(isinstance(each, Candidate) for each in kept):
        raise TypeError("a source offered something that is no candidate")
    if len(kept) <= limit:
        return kept
    return tuple([c for i, c in enumerate(kept) if i < limit or c.is_mandatory])


def _is_cancelled() -> bool:
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


def _query_text(call: Call, place: int) -> str:
    if call.envelope is None:
        return ""
    raw = call.envelope.body[slice(*call.envelope.turns.place(place))]
    return user_text(call.envelope.wire, raw)[:_LONGEST_QUERY]
