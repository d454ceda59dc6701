"""What a checked operation does to working memory: six actions, plain values.

Rules:
- An action holds checked values only; whether it is allowed is decided elsewhere.
- `sources` are what the writer cites for it.
"""

from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from deuz_compiler.working_memory.snapshot import (
    MAX_ITEMS,
    Id,
    ListName,
    Sources,
    Text,
)

TaskStatus = Literal["open", "blocked", "done"]


class Add(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """Put a new item at the end of a list; `is_ruling`: with a status of the host's."""

    list_name: ListName
    text: str
    status: str = ""
    detail: str = ""
    sources: Sources = ()
    is_ruling: bool = False


class Change(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """Give an item another status; empty `detail` and `sources` leave what is there."""

    list_name: ListName
    id: str
    status: str
    detail: str = ""
    sources: Sources = ()


class Remove(msgspec.Struct, frozen=True, gc=False):
    """Take an item out of whichever of the lists has it."""

    lists: tuple[ListName, ...]
    id: str
    sources: Sources = ()


class SetGoal(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """Replace the goal; None clears it."""

    text: Text | None
    sources: Sources = ()


class TaskInput(
    msgspec.Struct, frozen=True, gc=False, kw_only=True, forbid_unknown_fields=True
):
    """One task as the host gives it; without an id it gets one."""

    id: Id | None = None
    title: Text
    status: TaskStatus = "open"
    sources: Sources = ()


Tasks = Annotated[tuple[TaskInput, ...], Meta(max_length=MAX_ITEMS["tasks"])]


class SetTasks(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """Replace the whole list; the active task stays, where the new list has it."""

    tasks: Tasks
    active_task_id: Id | None = None
    sources: Sources = ()

    def repeated_ids(self) -> tuple[str, ...]:
        """Return the ids that are given to more than one task."""
        ids = [task.id for task in self.tasks if task.id is not None]
        return tuple(dict.fromkeys(i for i in ids if ids.count(i) > 1))


class SetActiveTask(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """Name the task that is worked on; None clears it."""

    id: Id | None
    sources: Sources = ()


Action = Add | Change | Remove | SetGoal | SetTasks | SetActiveTask
