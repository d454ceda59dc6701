"""Working memory as a value: plain JSON of version 1, read strictly and bounded.

Rules:
- A snapshot comes from `create_snapshot`, `read_snapshot` or a patch, and from nothing
  else; those check all that the types do not say.
- An item tells who wrote it, the revision that last changed it, when, and from what.
  Its writer stays the same when the host rules on it.
- Ids are unique within a list; an item's status is a word of its list.
- Everything is bounded: characters, items per list, sources per item, bytes in all.
"""

from collections.abc import Mapping
from typing import Annotated, Final, Literal, get_args

import msgspec
from msgspec import Meta

from deuz_compiler.canonical import canonical_json
from deuz_compiler.errors import MalformedInput
from deuz_compiler.records.loading import load_record, load_records, parse_json

SNAPSHOT_VERSION: Final = 1
MAX_TEXT_LENGTH = 2_000
MAX_SOURCES = 8
MAX_SECONDS = 1e12
MAX_SNAPSHOT_BYTES = 262_144
"""Without the remembered operations: those cannot be removed to make room."""

MAX_REMEMBERED = 64
"""Operation ids kept. A replay of a forgotten one fails on its expected revision."""

Writer = Literal["host", "model"]
SourceKind = Literal["host", "user", "tool", "document", "model"]
ListName = Literal[
    "constraints",
    "tasks",
    "decisions",
    "questions",
    "attempts",
    "hypotheses",
    "observations",
]
LISTS: tuple[ListName, ...] = get_args(ListName)

STATUSES: Mapping[ListName, tuple[str, ...]] = {
    "constraints": ("",),
    "tasks": ("open", "blocked", "done"),
    "decisions": ("accepted", "proposed", "reverted"),
    "questions": ("open", "answered", "dropped"),
    "attempts": ("in-progress", "failed", "abandoned", "succeeded"),
    "hypotheses": ("confirmed", "proposed", "rejected"),
    "observations": ("",),
}
"""The words of each list, in the order in which its items fill the tail."""

MAX_ITEMS: Mapping[ListName, int] = {
    "constraints": 32,
    "tasks": 64,
    "decisions": 64,
    "questions": 64,
    "attempts": 64,
    "hypotheses": 64,
    "observations": 128,
}

MAX_NEW_IDS = 80  # A whole list of tasks and sixteen operations.

Text = Annotated[str, Meta(pattern=r"\S", max_length=MAX_TEXT_LENGTH)]
Detail = Annotated[str, Meta(max_length=MAX_TEXT_LENGTH)]
# A closing `\Z`: with `$` an id might end in a line feed.
Id = Annotated[str, Meta(pattern=r"\A[A-Za-z0-9][A-Za-z0-9._:/-]{0,127}\Z")]
Count = Annotated[int, Meta(ge=0, le=2**53)]
Seconds = Annotated[float, Meta(ge=0.0, le=MAX_SECONDS)]
Scope = Annotated[str, Meta(min_length=1, max_length=512)]


class SourceRef(msgspec.Struct, frozen=True, gc=False, forbid_unknown_fields=True):
    """Where something was learned: for a tool, `ref` is the id of the call."""

    kind: SourceKind
    ref: Annotated[str, Meta(min_length=1, max_length=256)]


Sources = Annotated[tuple[SourceRef, ...], Meta(max_length=MAX_SOURCES)]


class Item(
    msgspec.Struct, frozen=True, kw_only=True, gc=False, forbid_unknown_fields=True
):
    """One thing to remember.

    `detail` is a decision's rationale, a question's answer, or what came of an attempt.
    `changed_at` is in Unix seconds.
    """

    id: Id
    text: Text
    status: str = ""
    detail: Detail = ""
    writer: Writer
    revision: Count
    changed_at: Seconds
    sources: Sources = ()


class TaskList(msgspec.Struct, frozen=True, gc=False, forbid_unknown_fields=True):
    """The host's plan; `list_revision` counts how often it was set."""

    list_revision: Count = 0
    items: tuple[Item, ...] = ()
    active_task_id: Id | None = None

    @property
    def active(self) -> Item | None:
        """The task worked on, if one is."""
        return next((t for t in self.items if t.id == self.active_task_id), None)


class Applied(msgspec.Struct, frozen=True, gc=False, forbid_unknown_fields=True):
    """A patch that was applied: its id, the digest of what it did, what it made."""

    operation_id: Id
    digest: Annotated[str, Meta(max_length=128)]
    revision: Count
    ids: Annotated[tuple[Id, ...], Meta(max_length=MAX_NEW_IDS)] = ()


class Snapshot(
    msgspec.Struct, frozen=True, gc=False, kw_only=True, forbid_unknown_fields=True
):
    """Everything that is remembered of one task, at one revision."""

    version: Literal[1]
    scope: Scope
    revision: Count = 0
    goal: Item | None = None
    constraints: tuple[Item, ...] = ()
    tasks: TaskList = TaskList()
    decisions: tuple[Item, ...] = ()
    questions: tuple[Item, ...] = ()
    attempts: tuple[Item, ...] = ()
    hypotheses: tuple[Item, ...] = ()
    observations: tuple[Item, ...] = ()
    applied: tuple[Applied, ...] = ()

    def items(self, name: ListName) -> tuple[Item, ...]:
        """Return the items of a list by its name."""
        if name == "tasks":
            return self.tasks.items
        items: tuple[Item, ...] = getattr(self, name)
        return items


_snapshots = msgspec.json.Decoder(Snapshot)


def write_snapshot(snapshot: Snapshot) -> bytes:
    """Return the one spelling of a snapshot in JSON."""
    return canonical_json(snapshot)


def read_snapshot(payload: bytes) -> Snapshot:
    """Return the snapshot in a JSON text.

    Raises:
        MalformedInput: it is not a sound snapshot of version 1; every fault is listed.
    """
    try:
        snapshot = _snapshots.decode(payload)
    except (msgspec.DecodeError, UnicodeDecodeError):
        # The quick way stops at the first fault; find them all.
        raise MalformedInput(_type_faults(payload)) from None
    if faults := _value_faults(snapshot):
        raise MalformedInput(tuple(faults))
    return snapshot


def size_bytes(snapshot: Snapshot) -> int:
    """Return what counts towards `MAX_SNAPSHOT_BYTES`."""
    return len(write_snapshot(msgspec.structs.replace(snapshot, applied=())))


def _type_faults(payload: bytes) -> tuple[str, ...]:
    """Return every fault of form, looking at lists item by item."""
    faults: list[str] = []
    raw = parse_json(payload, where="snapshot", faults=faults)
    rest = dict(raw) if isinstance(raw, Mapping) else raw
    if isinstance(rest, dict):
        for name in LISTS:
            if name != "tasks" and name in rest:
                load_records(Item, rest.pop(name), where=name, faults=faults)
        _note_task_faults(rest.pop("tasks", {}), faults)
    load_record(Snapshot, rest, where="snapshot", faults=faults)
    return tuple(faults)


def _note_task_faults(raw: object, faults: list[str]) -> None:
    rest = dict(raw) if isinstance(raw, Mapping) else raw
    if isinstance(rest, dict):
        load_records(Item, rest.pop("items", []), where="tasks", faults=faults)
    load_record(TaskList, rest, where="tasks", faults=faults)


def _value_faults(snapshot: Snapshot) -> list[str]:
    faults = []
    for name in LISTS:
        faults += _list_faults(snapshot, name)
    if snapshot.goal is not None:
        faults += _item_faults(snapshot, snapshot.goal, where="goal", statuses=("",))
    if snapshot.tasks.active_task_id is not None and snapshot.tasks.active is None:
        faults.append("tasks: active_task_id is not in the list")
    if len(snapshot.applied) > MAX_REMEMBERED:
        faults.append(f"applied: over {MAX_REMEMBERED} operations")
    if size_bytes(snapshot) > MAX_SNAPSHOT_BYTES:
        faults.append(f"snapshot: over {MAX_SNAPSHOT_BYTES} bytes")
    return faults


def _list_faults(snapshot: Snapshot, name: ListName) -> list[str]:
    items = snapshot.items(name)
    faults = []
    if len(items) > MAX_ITEMS[name]:
        faults.append(f"{name}: over {MAX_ITEMS[name]} items")
    seen: dict[str, None] = {}
    for place, item in enumerate(items):
        where = f"{name}[{place}]"
        faults += _item_faults(snapshot, item, where=where, statuses=STATUSES[name])
        if item.id in seen:
            faults.append(f"{where}: id is given twice")
        seen[item.id] = None
    return faults


def _item_faults(
    snapshot: Snapshot, item: Item, *, where: str, statuses: tuple[str, ...]
) -> list[str]:
    faults = []
    if item.status not in statuses:
        words = ", ".join(statuses) or "empty"
        faults.append(f"{where}: status is not one of: {words}")
    if item.revision > snapshot.revision:
        faults.append(f"{where}: revision is newer than the snapshot's")
    return faults
