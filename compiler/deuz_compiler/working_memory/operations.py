"""The named operations of a patch: their fields, checked as they are read.

Rules:
- There is no free-form change: every operation has a name and its own fields.
- A patch holds 1 to 16 operations; all faults of a patch are listed at once.
- A patch's digest is over its writer and operations, not over the revision it expects:
  a lost race that is tried again is still the same patch.
"""

from collections.abc import Callable, Mapping
from typing import Literal, TypeVar

import msgspec

from deuz_compiler.canonical import canonical_json, digest_bytes
from deuz_compiler.errors import MalformedInput
from deuz_compiler.records.loading import load_record
from deuz_compiler.working_memory.actions import (
    Action,
    Add,
    Change,
    Remove,
    SetActiveTask,
    SetGoal,
    SetTasks,
)
from deuz_compiler.working_memory.snapshot import (
    Count,
    Detail,
    Id,
    ListName,
    Sources,
    Text,
    Writer,
)

T = TypeVar("T", bound=msgspec.Struct)
Reader = Callable[[object, str, list[str]], Action | None]

MAX_OPERATIONS = 16

HOST_ONLY: tuple[str, ...] = (
    "set-goal",
    "add-constraint",
    "remove-constraint",
    "set-tasks",
    "set-hypothesis-status",
    "set-decision-status",
)

DecisionStatus = Literal["accepted", "proposed", "reverted"]
HypothesisStatus = Literal["confirmed", "proposed", "rejected"]
AttemptOutcome = Literal["in-progress", "failed", "abandoned", "succeeded"]

_REMOVABLE: tuple[ListName, ...] = (
    "decisions",
    "questions",
    "attempts",
    "hypotheses",
    "observations",
)


class Operation(msgspec.Struct, frozen=True, gc=False):
    """One operation of a patch: its name, and what it does."""

    name: str
    action: Action


class Patch(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """A checked patch; `digest` tells whether two patches do the same."""

    operation_id: str
    expected_revision: int
    writer: Writer
    operations: tuple[Operation, ...]
    digest: str


class _Envelope(msgspec.Struct, kw_only=True):
    operation_id: Id
    expected_revision: Count
    writer: Writer


class _Note(msgspec.Struct):
    text: Text
    sources: Sources = ()


class _Observation(msgspec.Struct):
    text: Text
    detail: Detail = ""
    sources: Sources = ()


class _Hypothesis(msgspec.Struct):
    text: Text
    status: HypothesisStatus = "proposed"
    sources: Sources = ()


class _Decision(msgspec.Struct):
    text: Text
    rationale: Detail = ""
    status: DecisionStatus = "proposed"
    sources: Sources = ()


class _Attempt(msgspec.Struct):
    text: Text
    outcome: AttemptOutcome = "in-progress"
    detail: Detail = ""
    sources: Sources = ()


class _Named(msgspec.Struct):
    id: Id


class _Outcome(msgspec.Struct):
    id: Id
    outcome: AttemptOutcome
    detail: Detail = ""
    sources: Sources = ()


class _Answer(msgspec.Struct):
    id: Id
    answer: Text
    sources: Sources = ()


class _DecisionRuling(msgspec.Struct):
    id: Id
    status: DecisionStatus


class _HypothesisRuling(msgspec.Struct):
    id: Id
    status: HypothesisStatus


def load_patch(raw: object) -> Patch:
    """Return the patch in a JSON value.

    Raises:
        MalformedInput: it breaks the rules; every fault is listed.
    """
    faults: list[str] = []
    if not isinstance(raw, Mapping):
        raise MalformedInput(("patch: not an object",))
    rest = dict(raw)
    listed = rest.pop("operations", None)
    envelope = load_record(_Envelope, rest, where="patch", faults=faults)
    operations = _load_operations(listed, faults)
    if envelope is None or faults:
        raise MalformedInput(tuple(faults))
    return Patch(
        operation_id=envelope.operation_id,
        expected_revision=envelope.expected_revision,
        writer=envelope.writer,
        operations=operations,
        digest=_digest(envelope.writer, operations),
    )


def _load_operations(listed: object, faults: list[str]) -> tuple[Operation, ...]:
    if not isinstance(listed, list | tuple):
        faults.append("patch: operations is not a list")
        return ()
    if not 1 <= len(listed) <= MAX_OPERATIONS:
        faults.append(f"patch: operations holds not 1 to {MAX_OPERATIONS}")
        return ()
    loaded = [
        _load_operation(raw, f"operations[{place}]", faults)
        for place, raw in enumerate(listed)
    ]
    return tuple([operation for operation in loaded if operation is not None])


def _load_operation(raw: object, where: str, faults: list[str]) -> Operation | None:
    if not isinstance(raw, Mapping):
        faults.append(f"{where}: not an object")
        return None
    fields = dict(raw)
    name = fields.pop("op", None)
    reader = READERS.get(name) if isinstance(name, str) else None
    if reader is None:
        faults.append(f"{where}: op is not one of {', '.join(READERS)}")
        return None
    action = reader(fields, where, faults)
    if isinstance(action, SetTasks) and action.repeated_ids():
        faults.append(f"{where}: tasks: an id is given twice")
    return None if action is None else Operation(str(name), action)


def _digest(writer: Writer, operations: tuple[Operation, ...]) -> str:
    try:
        return digest_bytes(canonical_json((writer, operations)))
    except UnicodeEncodeError as error:
        # Half a surrogate pair: no JSON text, and no provider, could carry it.
        raise MalformedInput(("operations: a text is not Unicode",)) from error


def _reader(record: type[T], act: Callable[[T], Action]) -> Reader:
    def read(raw: object, where: str, faults: list[str]) -> Action | None:
        loaded = load_record(record, raw, where=where, faults=faults)
        return None if loaded is None else act(loaded)

    return read


def _plain(action: Action) -> Action:
    return action


def _note(name: ListName, status: str = "") -> Callable[[_Note], Action]:
    return lambda note: Add(
        list_name=name, text=note.text, status=status, sources=note.sources
    )


def _add_hypothesis(given: _Hypothesis) -> Action:
    return Add(
        list_name="hypotheses",
        text=given.text,
        status=given.status,
        sources=given.sources,
        is_ruling=given.status != "proposed",
    )


def _add_decision(given: _Decision) -> Action:
    return Add(
        list_name="decisions",
        text=given.text,
        status=given.status,
        detail=given.rationale,
        sources=given.sources,
        is_ruling=given.status != "proposed",
    )


def _record_attempt(given: _Attempt) -> Action:
    return Add(
        list_name="attempts",
        text=given.text,
        status=given.outcome,
        detail=given.detail,
        sources=given.sources,
    )


def _add_observation(given: _Observation) -> Action:
    return Add(
        list_name="observations",
        text=given.text,
        detail=given.detail,
        sources=given.sources,
    )


def _answer_question(given: _Answer) -> Action:
    return Change(
        list_name="questions",
        id=given.id,
        status="answered",
        detail=given.answer,
        sources=given.sources,
    )


def _set_outcome(given: _Outcome) -> Action:
    return Change(
        list_name="attempts",
        id=given.id,
        status=given.outcome,
        detail=given.detail,
        sources=given.sources,
    )


READERS: Mapping[str, Reader] = {
    "set-goal": _reader(SetGoal, _plain),
    "add-constraint": _reader(_Note, _note("constraints")),
    "remove-constraint": _reader(_Named, lambda it: Remove(("constraints",), it.id)),
    "set-tasks": _reader(SetTasks, _plain),
    "set-active-task": _reader(SetActiveTask, _plain),
    "add-decision": _reader(_Decision, _add_decision),
    "set-decision-status": _reader(
        _DecisionRuling,
        lambda it: Change(list_name="decisions", id=it.id, status=it.status),
    ),
    "add-question": _reader(_Note, _note("questions", "open")),
    "answer-question": _reader(_Answer, _answer_question),
    "drop-question": _reader(
        _Named, lambda it: Change(list_name="questions", id=it.id, status="dropped")
    ),
    "record-attempt": _reader(_Attempt, _record_attempt),
    "set-attempt-outcome": _reader(_Outcome, _set_outcome),
    "add-hypothesis": _reader(_Hypothesis, _add_hypothesis),
    "set-hypothesis-status": _reader(
        _HypothesisRuling,
        lambda it: Change(list_name="hypotheses", id=it.id, status=it.status),
    ),
    "add-observation": _reader(_Observation, _add_observation),
    "remove-item": _reader(_Named, lambda it: Remove(_REMOVABLE, it.id)),
}
