"""In which order working memory fills the room it has.

Rules:
- First what is critical, always all of it: goal, constraints, the active task.
- Then tasks, decisions, questions, attempts, hypotheses, observations; in each by
  status, then the newest revision, then the id, its numbers taken as numbers.
- Dropped questions are not shown.
"""

import re

import msgspec

from deuz_compiler.working_memory.snapshot import STATUSES, Item, ListName, Snapshot

FILLING: tuple[ListName, ...] = (
    "tasks",
    "decisions",
    "questions",
    "attempts",
    "hypotheses",
    "observations",
)

_NUMBER = re.compile(r"[0-9]+")
_DIGITS = 128


class Entry(msgspec.Struct, frozen=True, gc=False):
    """One item under the section it is shown in: a list, `goal` or `active_task`."""

    section: str
    item: Item


def critical_entries(snapshot: Snapshot) -> tuple[Entry, ...]:
    """Return what is always shown, in its order."""
    entries = [Entry("constraints", item) for item in snapshot.constraints]
    if snapshot.goal is not None:
        entries.insert(0, Entry("goal", snapshot.goal))
    if (active := snapshot.tasks.active) is not None:
        entries.append(Entry("active_task", active))
    return tuple(entries)


def filling_entries(snapshot: Snapshot) -> tuple[Entry, ...]:
    """Return what is shown as far as there is room, the most needed first."""
    return tuple(
        [Entry(name, item) for name in FILLING for item in _ranked(snapshot, name)]
    )


def _ranked(snapshot: Snapshot, name: ListName) -> list[Item]:
    words = STATUSES[name]
    items = [item for item in snapshot.items(name) if _is_shown(snapshot, item)]
    return sorted(items, key=lambda item: _rank(item, words))


def _is_shown(snapshot: Snapshot, item: Item) -> bool:
    return item.status != "dropped" and item is not snapshot.tasks.active


def _rank(item: Item, words: tuple[str, ...]) -> tuple[int, int, str, str]:
    numbered = _NUMBER.sub(lambda found: found[0].zfill(_DIGITS), item.id)
    return words.index(item.status), -item.revision, numbered, item.id
