import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio

from deuz_compiler import MalformedInput
from deuz_proxy.errors import StoreFailed
from deuz_proxy.memory.records import Notes
from deuz_proxy.memory.working import WorkingMemory, key_fault
from deuz_proxy.sources.words import words_of
from deuz_proxy.stores.memory_sqlite import SqliteMemory


@pytest_asyncio.fixture
async def store() -> AsyncIterator[SqliteMemory]:
    made = await SqliteMemory(":memory:", words_of=words_of).open()
    yield made
    await made.close()


def working(notes: Notes) -> WorkingMemory:
    return WorkingMemory(notes, clock=lambda: 1_000.0)


def patch(name: str, revision: int, text: str = "seen") -> dict[str, Any]:
    note = {"op": "add-observation", "text": text}
    return {
        "operation_id": name,
        "expected_revision": revision,
        "writer": "model",
        "operations": [note],
    }


async def test_there_is_nothing_until_the_first_patch(store: SqliteMemory) -> None:
    notes = working(store)

    assert await notes.find("acme", "k") is None
    assert (await notes.read("acme", "k")).revision == 0

    await notes.patch("acme", "k", patch("a", 0))

    found = await notes.find("acme", "k")
    assert found is not None
    assert (found.scope, found.revision) == ("acme", 1)
    assert [item.text for item in found.observations] == ["seen"]


async def test_that_there_are_no_notes_is_known_for_a_moment(
    store: SqliteMemory,
) -> None:
    now = 1_000.0
    notes = WorkingMemory(store, clock=lambda: now)
    known = [notes.is_known_empty]
    await notes.is_in_use()
    known.append(notes.is_known_empty)
    now += 1
    known.append(notes.is_known_empty)
    await notes.patch("acme", "k", patch("p1", 0))
    await notes.is_in_use()
    known.append(notes.is_known_empty)

    assert known == [False, True, False, False]


async def test_a_clock_that_is_set_back_hides_no_notes_of_others(
    store: SqliteMemory,
) -> None:
    now = 10_000.0
    notes = WorkingMemory(store, clock=lambda: now)
    assert not await notes.is_in_use()
    await working(store).patch("acme", "k", patch("p1", 0))

    now -= 3_600

    assert not notes.is_known_empty
    assert await notes.is_in_use()


async def test_a_replay_is_a_duplicate_after_a_restart_too(store: SqliteMemory) -> None:
    first = await working(store).patch("acme", "k", patch("a", 0))

    again = await working(store).patch("acme", "k", patch("a", 0))

    assert (first.status, again.status) == ("applied", "duplicate")
    assert first.ids == again.ids


async def test_a_rejected_patch_keeps_nothing(store: SqliteMemory) -> None:
    patched = await working(store).patch("acme", "k", patch("a", 7))

    assert (patched.status, patched.reason) == ("rejected", "revision-mismatch")
    assert await store.load("acme", "k") is None


async def test_a_malformed_patch_lists_every_fault(store: SqliteMemory) -> None:
    with pytest.raises(MalformedInput) as caught:
        await working(store).patch("acme", "k", {"writer": "nobody"})

    assert len(caught.value.faults) > 2


async def test_of_racing_writers_each_is_applied_or_told(store: SqliteMemory) -> None:
    notes = working(store)

    done = await asyncio.gather(
        *[notes.patch("acme", "k", patch(f"p{n}", 0, f"{n}")) for n in range(8)]
    )

    statuses = [each.status for each in done]
    assert sorted(statuses) == ["applied"] + ["rejected"] * 7
    found = await notes.read("acme", "k")
    assert len(found.observations) == found.revision == 1


class Contested:
    """Notes that somebody else always writes first."""

    async def load(self, scope: str, key: str) -> bytes | None:
        return None

    async def has_any(self) -> bool:
        return False

    async def swap(
        self, scope: str, key: str, *, old: bytes | None, new: bytes | None
    ) -> bool:
        return False


async def test_races_that_do_not_end_are_a_failure(store: SqliteMemory) -> None:
    with pytest.raises(StoreFailed):
        await working(Contested()).patch("acme", "k", patch("a", 0))


async def test_notes_are_dropped_once(store: SqliteMemory) -> None:
    notes = working(store)
    await notes.patch("acme", "k", patch("a", 0))

    assert await notes.drop("acme", "k")
    assert not await notes.drop("acme", "k")
    assert await notes.find("acme", "k") is None


@pytest.mark.parametrize("key", ["a", "task/7", "a.b_c@d:e+f-g", "x" * 128])
def test_a_key_is_a_word(key: str) -> None:
    assert key_fault(key) is None


@pytest.mark.parametrize("key", ["", "a b", "x" * 129, "ä", "a\n"])
def test_anything_else_is_no_key(key: str) -> None:
    assert "is not a key" in str(key_fault(key))
