"""The only way to change working memory: a patch that is applied whole, or not at all.

Rules:
- Pure: the snapshot given is never changed, and time is an argument.
- A patch is `applied`, a `duplicate` of one applied before, or `rejected` for one of
  `REJECTIONS`; what breaks the form of a patch is an error, with all its faults.
- Every applied patch raises the revision by one, whatever it did.
- A replay is known by its operation id before its revision is looked at.
- A model is refused the host's operations, others' items, and citing a host source.
"""

import math
from collections.abc import Sequence
from typing import Literal

import msgspec

from deuz_compiler.errors import MalformedInput
from deuz_compiler.records.loading import load_record
from deuz_compiler.working_memory.actions import (
    Action,
    Add,
    SetGoal,
    SetTasks,
    TaskInput,
    Tasks,
)
from deuz_compiler.working_memory.draft import (
    FORBIDDEN,
    MEMORY_FULL,
    UNKNOWN_ITEM,
    Draft,
)
from deuz_compiler.working_memory.operations import (
    HOST_ONLY,
    Operation,
    Patch,
    load_patch,
)
from deuz_compiler.working_memory.snapshot import (
    MAX_REMEMBERED,
    MAX_SECONDS,
    MAX_SNAPSHOT_BYTES,
    SNAPSHOT_VERSION,
    Applied,
    Id,
    Scope,
    Snapshot,
    Text,
    size_bytes,
)

REVISION_MISMATCH = "revision-mismatch"
OPERATION_ID_REUSED = "operation-id-reused"

REJECTIONS: tuple[str, ...] = (
    REVISION_MISMATCH,
    OPERATION_ID_REUSED,
    FORBIDDEN,
    UNKNOWN_ITEM,
    MEMORY_FULL,
)


class Patched(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """What became of a patch.

    `snapshot` is the new one, or the very one given if nothing changed. `revision` is
    its revision; for a duplicate the one that the first application made. `ids` are
    those of new items, in order. `operation` is the place of the one refused.
    """

    status: Literal["applied", "duplicate", "rejected"]
    snapshot: Snapshot
    revision: int
    ids: tuple[str, ...] = ()
    reason: str | None = None
    operation: int | None = None


class _Start(msgspec.Struct, kw_only=True):
    scope: Scope
    goal: Text | None
    constraints: tuple[Text, ...]
    tasks: Tasks
    active_task_id: Id | None


def create_snapshot(
    scope: str,
    *,
    goal: str | None = None,
    constraints: Sequence[str] = (),
    tasks: Sequence[TaskInput] = (),
    active_task_id: str | None = None,
    now: float,
) -> Snapshot:
    """Return working memory at revision 0, all of it written by the host.

    Raises:
        MalformedInput: a value breaks the rules; every fault is listed.
    """
    given = {
        "scope": scope,
        "goal": goal,
        "constraints": list(constraints),
        "tasks": [msgspec.to_builtins(task) for task in tasks],
        "active_task_id": active_task_id,
    }
    faults = _time_faults(now)
    start = load_record(_Start, given, where="working memory", faults=faults)
    if start is None or faults:
        raise MalformedInput(tuple(faults))
    return _filled(start, now)


def apply_patch(snapshot: Snapshot, patch: object, *, now: float) -> Patched:
    """Apply a patch, given as a JSON value, at a time in Unix seconds.

    Raises:
        MalformedInput: the patch breaks the form; every fault is listed.
    """
    if faults := _time_faults(now):
        raise MalformedInput(tuple(faults))
    read = load_patch(patch)
    for done in snapshot.applied:
        if done.operation_id == read.operation_id:
            return _repeated(snapshot, done, read)
    if read.expected_revision != snapshot.revision:
        return _rejected(snapshot, REVISION_MISMATCH)
    return _carried_out(snapshot, read, now)


def _carried_out(snapshot: Snapshot, patch: Patch, now: float) -> Patched:
    revision = snapshot.revision + 1
    draft = Draft(snapshot, revision=revision, writer=patch.writer, now=now)
    for place, operation in enumerate(patch.operations):
        if patch.writer == "model" and _is_host_only(operation):
            return _rejected(snapshot, FORBIDDEN, place)
        if reason := draft.perform(operation.action):
            return _rejected(snapshot, reason, place)
    ids = draft.new_ids
    done = Applied(patch.operation_id, patch.digest, revision, ids)
    changed = msgspec.structs.replace(
        draft.close(),
        applied=(*snapshot.applied, done)[-MAX_REMEMBERED:],
    )
    if size_bytes(changed) > MAX_SNAPSHOT_BYTES:
        return _rejected(snapshot, MEMORY_FULL)
    return Patched(status="applied", snapshot=changed, revision=revision, ids=ids)


def _is_host_only(operation: Operation) -> bool:
    action = operation.action
    return (
        operation.name in HOST_ONLY
        or any(source.kind == "host" for source in action.sources)
        or (isinstance(action, Add) and action.is_ruling)
    )


def _repeated(snapshot: Snapshot, done: Applied, patch: Patch) -> Patched:
    if done.digest != patch.digest:
        return _rejected(snapshot, OPERATION_ID_REUSED)
    return Patched(
        status="duplicate", snapshot=snapshot, revision=done.revision, ids=done.ids
    )


def _rejected(snapshot: Snapshot, reason: str, operation: int | None = None) -> Patched:
    return Patched(
        status="rejected",
        snapshot=snapshot,
        revision=snapshot.revision,
        reason=reason,
        operation=operation,
    )


def _filled(start: _Start, now: float) -> Snapshot:
    empty = Snapshot(version=SNAPSHOT_VERSION, scope=start.scope)
    draft = Draft(empty, revision=0, writer="host", now=now)
    actions: list[Action] = [SetGoal(text=start.goal)]
    actions += [Add(list_name="constraints", text=text) for text in start.constraints]
    plan = SetTasks(tasks=start.tasks, active_task_id=start.active_task_id)
    if start.tasks or start.active_task_id is not None:
        actions.append(plan)
    refused = [draft.perform(action) for action in actions]
    faults = [f"working memory: {reason}" for reason in refused if reason]
    if plan.repeated_ids():
        faults.append("working memory: tasks: an id is given twice")
    snapshot = draft.close()
    try:
        if size_bytes(snapshot) > MAX_SNAPSHOT_BYTES:
            faults.append(f"working memory: over {MAX_SNAPSHOT_BYTES} bytes")
    except UnicodeEncodeError as error:
        raise MalformedInput(("working memory: a text is not Unicode",)) from error
    if faults:
        raise MalformedInput(tuple(faults))
    return snapshot


def _time_faults(now: float) -> list[str]:
    is_time = math.isfinite(now) and 0 <= now <= MAX_SECONDS
    return [] if is_time else ["now: not a time in Unix seconds"]
