"""The next revision in the making: actions are carried out on it, one after another.

Rules:
- A draft lives within one call and never leaves it; the snapshot it came from is not
  touched.
- An action is carried out whole, or refused by name with nothing done.
- A new item's id is `<list>-<revision>-<index>`, its index the first free one from 0;
  within a revision no id is given to two things.
- Rights: a model changes only what it wrote, and takes out nothing the host ruled on.
"""

from collections.abc import Mapping

import msgspec

from deuz_compiler.working_memory.actions import (
    Action,
    Add,
    Change,
    Remove,
    SetGoal,
    SetTasks,
    TaskInput,
)
from deuz_compiler.working_memory.snapshot import (
    LISTS,
    MAX_ITEMS,
    Item,
    ListName,
    Snapshot,
    Sources,
    TaskList,
    Writer,
)

FORBIDDEN = "forbidden"
UNKNOWN_ITEM = "unknown-item"
MEMORY_FULL = "memory-full"

_UNRULED = ("", "proposed")
_RULED_LISTS: tuple[ListName, ...] = ("decisions", "hypotheses")


class Draft:
    """A snapshot that may be written to. Mutable: owned by the call that opened it."""

    __slots__ = (
        "_active_id",
        "_base",
        "_goal",
        "_list_revision",
        "_lists",
        "_made",
        "_now",
        "_revision",
        "_writer",
    )

    def __init__(
        self, base: Snapshot, *, revision: int, writer: Writer, now: float
    ) -> None:
        self._base = base
        self._revision = revision
        self._writer = writer
        # A whole number would be written otherwise than it is once read again.
        self._now = float(now)
        self._goal = base.goal
        self._lists = {name: list(base.items(name)) for name in LISTS}
        self._list_revision = base.tasks.list_revision
        self._active_id = base.tasks.active_task_id
        self._made: dict[str, None] = {}

    @property
    def new_ids(self) -> tuple[str, ...]:
        """The ids that were made and are still there, in the order they were made."""
        there = {item.id: None for items in self._lists.values() for item in items}
        return tuple([made for made in self._made if made in there])

    def close(self) -> Snapshot:
        """Return the draft as a snapshot."""
        lists = {name: tuple(items) for name, items in self._lists.items()}
        tasks = TaskList(self._list_revision, lists.pop("tasks"), self._active_id)
        return msgspec.structs.replace(
            self._base, revision=self._revision, goal=self._goal, tasks=tasks, **lists
        )

    def perform(self, action: Action) -> str | None:
        """Carry an action out; return why not, if it is refused."""
        refused: str | None = None
        match action:
            case Add():
                refused = self._add(action)
            case Change():
                refused = self._change(action)
            case Remove():
                refused = self._remove(action)
            case SetGoal():
                self._set_goal(action)
            case SetTasks():
                refused = self._set_tasks(action)
            case _:
                refused = self._set_active(action.id)
        return refused

    def _add(self, action: Add) -> str | None:
        items = self._lists[action.list_name]
        if len(items) >= MAX_ITEMS[action.list_name]:
            return MEMORY_FULL
        name = self._free_id(action.list_name, {item.id: None for item in items})
        item = self._item(name, action.text, action.sources)
        filled = {"status": action.status, "detail": action.detail}
        items.append(msgspec.structs.replace(item, **filled))
        return None

    def _change(self, action: Change) -> str | None:
        items = self._lists[action.list_name]
        place = _place_of(items, action.id)
        if place is None:
            return UNKNOWN_ITEM
        item = items[place]
        if not self._is_own(item):
            return FORBIDDEN
        items[place] = msgspec.structs.replace(
            item,
            status=action.status,
            detail=action.detail or item.detail,
            sources=action.sources or item.sources,
            revision=self._revision,
            changed_at=self._now,
        )
        return None

    def _remove(self, action: Remove) -> str | None:
        for name in action.lists:
            items = self._lists[name]
            place = _place_of(items, action.id)
            if place is not None:
                if not self._may_remove(name, items[place]):
                    return FORBIDDEN
                del items[place]
                return None
        return UNKNOWN_ITEM

    def _set_goal(self, action: SetGoal) -> None:
        self._goal = None
        if action.text is not None:
            self._goal = self._item("goal", action.text, action.sources)

    def _set_tasks(self, action: SetTasks) -> str | None:
        before = {item.id: item for item in self._lists["tasks"]}
        taken = dict.fromkeys([*before, *[task.id for task in action.tasks if task.id]])
        after = [self._task(task, before, taken) for task in action.tasks]
        there = {item.id: None for item in after}
        wanted = action.active_task_id
        if wanted is not None and wanted not in there:
            return UNKNOWN_ITEM
        if wanted is not None or self._active_id not in there:
            self._active_id = wanted
        self._lists["tasks"] = after
        self._list_revision += 1
        return None

    def _set_active(self, task: str | None) -> str | None:
        if task is not None and _place_of(self._lists["tasks"], task) is None:
            return UNKNOWN_ITEM
        self._active_id = task
        return None

    def _task(
        self, task: TaskInput, before: Mapping[str, Item], taken: dict[str, None]
    ) -> Item:
        """Return the task as an item; one that is as it was keeps its revision."""
        name = task.id or self._free_id("tasks", taken)
        item = self._item(name, task.title, task.sources)
        item = msgspec.structs.replace(item, status=task.status)
        old = before.get(name)
        return old if old is not None and _says_the_same(old, item) else item

    def _item(self, name: str, text: str, sources: Sources) -> Item:
        return Item(
            id=name,
            text=text,
            writer=self._writer,
            revision=self._revision,
            changed_at=self._now,
            sources=sources,
        )

    def _free_id(self, name: ListName, taken: dict[str, None]) -> str:
        index = 0
        # A snapshot or a host may hold ids of this form that were not made here.
        while (made := f"{name}-{self._revision}-{index}") in taken | self._made:
            index += 1
        self._made[made] = None
        return made

    def _is_own(self, item: Item) -> bool:
        return self._writer in ("host", item.writer)

    def _may_remove(self, name: ListName, item: Item) -> bool:
        is_ruled = name in _RULED_LISTS and item.status not in _UNRULED
        return self._writer == "host" or (self._is_own(item) and not is_ruled)


def _place_of(items: list[Item], name: str) -> int | None:
    return next((place for place, it in enumerate(items) if it.id == name), None)


def _says_the_same(old: Item, new: Item) -> bool:
    return (old.text, old.status, old.sources) == (new.text, new.status, new.sources)
