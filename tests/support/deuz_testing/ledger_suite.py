"""What every ledger promises, as tests that each store runs against itself.

Rules:
- A store's test file subclasses `LedgerSuite` and gives the fixture `open_ledger`.
- The suite speaks through the port only; what is special to a store stands beside it.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable

import pytest_asyncio

from deuz_compiler import Append, Bare, Fold, Operation, PlacedRecord, Prune
from deuz_proxy.observe.events import Event, LedgerUsed
from deuz_proxy.ports import Ledger


class ManualClock:
    """A clock that stands still until it is moved."""

    def __init__(self) -> None:
        self.now = 1_000.0

    def __call__(self) -> float:
        return self.now

    def move(self, seconds: float) -> None:
        """Let time pass."""
        self.now += seconds


class Told:
    """A listener that keeps what a ledger told."""

    def __init__(self) -> None:
        self.events: list[LedgerUsed] = []

    def __call__(self, event: Event) -> None:
        assert isinstance(event, LedgerUsed)
        self.events.append(event)

    def count(self, op: str, status: str = "ok") -> int:
        """Return how many keys were told for the operation."""
        return sum(
            event.count
            for event in self.events
            if (event.op, event.status) == (op, status)
        )

    @property
    def last(self) -> LedgerUsed:
        return self.events[-1]


TOUCH_SECONDS = 100.0
"""A pause after which every store takes a use for a newer one."""

OpenLedger = Callable[..., Awaitable[Ledger]]
"""`open_ledger(max_entries=…, max_bytes=…, ttl_seconds=…)`, all wide by default."""


def append(text: str, *records: str) -> Append:
    """Return an append operation that can be told from others by its text."""
    placed = tuple(PlacedRecord("docs", record, "1", "sha256:0") for record in records)
    return Append(text.encode(), placed, tokens=len(text))


def key(number: int) -> bytes:
    """Return a key as lineage makes them: 16 bytes."""
    return number.to_bytes(16, "big")


class LedgerSuite:
    """The contract of `ports.Ledger`."""

    @pytest_asyncio.fixture
    async def ledger(self, open_ledger: OpenLedger) -> AsyncIterator[Ledger]:
        """A ledger with wide bounds."""
        made = await open_ledger()
        yield made
        await made.close()

    async def test_an_unknown_key_holds_nothing(self, ledger: Ledger) -> None:
        assert list(await ledger.read([key(1), key(2)])) == [(), ()]

    async def test_no_keys_have_no_answer(self, ledger: Ledger) -> None:
        assert list(await ledger.read([])) == []

    async def test_what_was_committed_is_read_back_equal(self, ledger: Ledger) -> None:
        operations: tuple[Operation, ...] = (
            append("one", "r1", "r2"),
            append('\\"two\\" \\u00e9'),
            Append(b"three", (), 0, form="part", is_redacted=True),
            Fold(turns=3, text=b"\xc3\xa9 summary", tokens=7, form="part"),
            Prune(stubs=((0, b'"cut"'), (4, b"[]"))),
            Bare(),
        )

        await ledger.commit({key(1): operations})

        assert list(await ledger.read([key(1)])) == [operations]

    async def test_answers_stand_in_the_order_of_the_keys(self, ledger: Ledger) -> None:
        await ledger.commit({key(1): (append("a"),), key(3): (append("c"),)})

        found = await ledger.read([key(3), key(2), key(1), key(3)])

        assert list(found) == [(append("c"),), (), (append("a"),), (append("c"),)]

    async def test_what_is_here_is_what_is_read(self, ledger: Ledger) -> None:
        keys = [key(3), key(2), key(1), key(3)]
        await ledger.commit({key(1): (append("a"),), key(3): (append("c"),)})

        here = ledger.read_here(keys)

        read = enumerate(await ledger.read(keys))
        held = here and {at: entry.operations for at, entry in here.held.items()}
        assert held in (None, {place: held for place, held in read if held})

    async def test_what_is_held_here_is_what_is_read_but_is_not_told(
        self, ledger: Ledger, told: Told
    ) -> None:
        keys = [key(3), key(2), key(1)]
        await ledger.commit({key(1): (append("a"),), key(3): (append("c"),)})
        read, count = await ledger.read(keys), len(told.events)

        here = ledger.held_here(keys)

        held = here and {at: entry.operations for at, entry in here.held.items()}
        assert held in (None, {at: each for at, each in enumerate(read) if each})
        assert len(told.events) == count

    async def test_a_commit_replaces_what_the_key_held(self, ledger: Ledger) -> None:
        await ledger.commit({key(1): (append("old"),)})
        await ledger.commit({key(1): (append("new"),)})

        assert list(await ledger.read([key(1)])) == [(append("new"),)]

    async def test_a_commit_of_nothing_removes_the_key(self, ledger: Ledger) -> None:
        await ledger.commit({key(1): (append("old"),), key(2): (append("kept"),)})
        await ledger.commit({key(1): ()})

        assert list(await ledger.read([key(1), key(2)])) == [(), (append("kept"),)]

    async def test_an_empty_commit_changes_nothing(self, ledger: Ledger) -> None:
        await ledger.commit({key(1): (append("kept"),)})
        await ledger.commit({})

        assert list(await ledger.read([key(1)])) == [(append("kept"),)]

    async def test_keys_that_differ_in_one_bit_are_apart(self, ledger: Ledger) -> None:
        await ledger.commit({key(2): (append("two"),)})

        assert list(await ledger.read([key(3)])) == [()]

    async def test_the_least_recently_used_entry_leaves_first(
        self, open_ledger: OpenLedger, clock: ManualClock, told: Told
    ) -> None:
        ledger = await open_ledger(max_entries=2)
        await ledger.commit({key(1): (append("a"),)})
        clock.move(TOUCH_SECONDS)
        await ledger.commit({key(2): (append("b"),)})
        clock.move(TOUCH_SECONDS)
        await ledger.read([key(1)])
        clock.move(TOUCH_SECONDS)

        await ledger.commit({key(3): (append("c"),)})

        found = await ledger.read([key(1), key(2), key(3)])
        assert [bool(each) for each in found] == [True, False, True]
        assert told.count("evict") == 1
        await ledger.close()

    async def test_bytes_are_bounded_as_well_as_entries(
        self, open_ledger: OpenLedger, clock: ManualClock, told: Told
    ) -> None:
        ledger = await open_ledger(max_bytes=20_000)

        for number in range(10):
            clock.move(TOUCH_SECONDS)
            await ledger.commit({key(number): (append("x" * 6_000),)})

        found = await ledger.read([key(number) for number in range(10)])
        assert [bool(each) for each in found] == [False] * 7 + [True] * 3
        assert told.count("evict") == 7
        assert told.last.bytes <= 20_000
        await ledger.close()

    async def test_an_entry_larger_than_the_ledger_is_refused_and_the_rest_stays(
        self, open_ledger: OpenLedger, told: Told
    ) -> None:
        ledger = await open_ledger(max_bytes=10_000)
        await ledger.commit({key(1): (append("kept"),)})

        await ledger.commit({key(2): (append("x" * 20_000),)})

        found = await ledger.read([key(1), key(2)])
        assert list(found) == [(append("kept"),), ()]
        assert told.count("commit", "full") == 1
        assert told.count("evict") == 0
        await ledger.close()

    async def test_an_entry_that_grew_too_large_is_not_left_in_its_old_form(
        self, open_ledger: OpenLedger
    ) -> None:
        ledger = await open_ledger(max_bytes=10_000)
        await ledger.commit({key(1): (append("old"),)})

        await ledger.commit({key(1): (append("x" * 20_000),)})

        assert list(await ledger.read([key(1)])) == [()]
        await ledger.close()

    async def test_an_entry_expires_when_it_is_not_used(
        self, open_ledger: OpenLedger, clock: ManualClock, told: Told
    ) -> None:
        ledger = await open_ledger(ttl_seconds=60)
        await ledger.commit({key(1): (append("a"),)})

        clock.move(59)
        before = await ledger.read([key(1)])
        clock.move(61)
        after = await ledger.read([key(1)])
        await ledger.commit({key(2): (append("b"),)})

        assert [bool(each) for each in (*before, *after)] == [True, False]
        assert told.count("evict") == 1
        await ledger.close()

    async def test_reading_keeps_an_entry_alive(
        self, open_ledger: OpenLedger, clock: ManualClock
    ) -> None:
        ledger = await open_ledger(ttl_seconds=60)
        await ledger.commit({key(1): (append("a"),)})

        for _ in range(10):
            clock.move(40)
            (found,) = await ledger.read([key(1)])

            assert found == (append("a"),)
        await ledger.close()

    async def test_reads_and_commits_are_told_with_the_size_after(
        self, ledger: Ledger, told: Told
    ) -> None:
        await ledger.commit({key(1): (append("a"),), key(2): (append("b"),)})
        committed = told.last
        await ledger.read([key(1), key(2), key(3)])

        assert (committed.op, committed.status, committed.count) == ("commit", "ok", 2)
        assert (told.last.op, told.last.status, told.last.count) == ("read", "ok", 2)
        assert told.last.entries == 2
        assert told.last.bytes > 0

    async def test_what_is_rewritten_stands_where_it_stood(
        self, ledger: Ledger, told: Told
    ) -> None:
        kept, gone = append("kept"), append("gone", "r1")
        await ledger.commit({key(1): (kept, gone), key(2): (kept,)})

        changed = await ledger.rewrite(
            lambda held: (kept, Bare()) if gone in held else held
        )

        assert changed == 1
        assert list(await ledger.read([key(1), key(2)])) == [(kept, Bare()), (kept,)]
        assert told.count("rewrite") == 1

    async def test_rewriting_is_no_use_and_keeps_count_of_bytes(
        self, open_ledger: OpenLedger, clock: ManualClock, told: Told
    ) -> None:
        ledger = await open_ledger(ttl_seconds=60)
        await ledger.commit({key(1): (append("x" * 5_000),)})
        before = told.last.bytes
        clock.move(59)

        await ledger.rewrite(lambda held: (append("x"),))

        assert before - told.last.bytes >= 4_000
        clock.move(2)
        assert list(await ledger.read([key(1)])) == [()]
        await ledger.close()

    async def test_many_entries_are_rewritten_and_damaged_none(
        self, ledger: Ledger
    ) -> None:
        count = 1_200
        operations: tuple[Operation, ...] = (append("old"), Bare())
        await ledger.commit({key(n): operations for n in range(count)})

        changed = await ledger.rewrite(lambda held: (append("new"), held[1]))

        assert changed == count
        found = await ledger.read([key(n) for n in range(count)])
        assert set(found) == {(append("new"), Bare())}

    async def test_that_a_turn_stays_bare_is_kept_only_where_nothing_is(
        self, ledger: Ledger
    ) -> None:
        await ledger.commit({key(1): (append("block"),)})

        await ledger.commit({key(1): (Bare(),), key(2): (Bare(),)})

        assert list(await ledger.read([key(1), key(2)])) == [
            (append("block"),),
            (Bare(),),
        ]

    async def test_a_commit_that_is_repeated_changes_nothing(
        self, ledger: Ledger, told: Told
    ) -> None:
        operations: dict[bytes, tuple[Operation, ...]] = {
            key(1): (append("a"),),
            key(2): (Bare(),),
        }
        await ledger.commit(operations)
        once = told.last

        await ledger.commit(operations)

        assert told.last == once
        assert list(await ledger.read([key(1), key(2)])) == [*operations.values()]

    async def test_histories_of_any_length_are_read_at_once(
        self, ledger: Ledger, told: Told
    ) -> None:
        keys = [key(number) for number in range(5_000)]
        held = (0, 999, 1_000, 4_999)
        await ledger.commit({keys[n]: (append(str(n)),) for n in held})
        told.events.clear()

        found = await ledger.read(keys)

        assert tuple(n for n, each in enumerate(found) if each) == held
        assert [(event.op, event.count) for event in told.events] == [("read", 4)]

    async def test_many_conversations_at_once_find_what_is_theirs(
        self, ledger: Ledger
    ) -> None:
        async def talk(number: int) -> None:
            keys = [key(number * 100 + turn) for turn in range(10)]
            for turn, each in enumerate(keys):
                await ledger.commit({each: (append(f"{number}-{turn}"),)})
                found = await ledger.read(keys[: turn + 1])
                texts = [f"{number}-{t}" for t in range(turn + 1)]
                assert list(found) == [(append(text),) for text in texts]

        await asyncio.gather(*(talk(number) for number in range(50)))

    async def test_closing_twice_is_closing_once(self, ledger: Ledger) -> None:
        await ledger.close()
        await ledger.close()
