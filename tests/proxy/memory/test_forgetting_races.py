"""Forgetting while requests are under way: who is late sees the other."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from typing import Any

import pytest

from deuz_compiler import Append, Operation, PlacedRecord
from deuz_proxy.config.memory import StoreSource
from deuz_proxy.errors import StoreFailed
from deuz_proxy.memory.forgetting import Memory
from deuz_proxy.memory.records import Draft
from deuz_proxy.sources.store import StoredRecords
from deuz_proxy.sources.words import words_of
from deuz_proxy.stores.bounds import Bounds
from deuz_proxy.stores.build import weigh
from deuz_proxy.stores.ledger_memory import MemoryLedger
from deuz_proxy.stores.memory_sqlite import SqliteMemory
from deuz_testing.bodies import anthropic_body, user
from deuz_testing.conversation import (
    anthropic_answer,
    client_gets,
    conversation,
    request,
    upstream_gets,
    upstream_says,
)
from deuz_testing.ledger_suite import ManualClock, Told
from deuz_testing.line import Told as LineTold
from deuz_testing.line import make_config, make_runtime

SCOPE, KEY = "default", b"k" * 16


async def _nothing() -> None: ...


class Watched:
    """Records; `before` is awaited ahead of a drop, `behind` after a look at drops."""

    def __init__(self, records: SqliteMemory) -> None:
        self._records = records
        self.before: Callable[[], Awaitable[None]] = _nothing
        self.behind: Callable[[], Awaitable[None]] = _nothing

    def __getattr__(self, name: str) -> Any:
        return getattr(self._records, name)

    async def drop(self, scope: str, ids: Sequence[str], *, now: float) -> int:
        before, self.before = self.before, _nothing
        await before()
        return await self._records.drop(scope, ids, now=now)

    async def dropped(
        self, scope: str, ids: Sequence[str], *, since: float
    ) -> Sequence[str]:
        found = await self._records.dropped(scope, ids, since=since)
        behind, self.behind = self.behind, _nothing
        await behind()
        return found


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
async def records() -> AsyncIterator[Watched]:
    made = await SqliteMemory(":memory:", words_of=words_of).open()
    yield Watched(made)
    await made.close()


@pytest.fixture
def ledger(clock: ManualClock) -> MemoryLedger:
    return MemoryLedger(Bounds(9, 99_999, 600), weigh=weigh, clock=clock, tell=Told())


@pytest.fixture
def memory(records: Watched, ledger: MemoryLedger, clock: ManualClock) -> Memory:
    return Memory(records, ledger, clock=clock)


def placed(*ids: str) -> tuple[Operation, ...]:
    """Return blocks as they stand behind a turn, one with each record."""
    facts = [PlacedRecord("memory", each, scope=SCOPE) for each in ids]
    return tuple([Append(b"It is.", (each,), 3) for each in facts])


async def ids_in(ledger: MemoryLedger) -> list[str]:
    """Return the ids of the records whose text the ledger holds."""
    (held,) = await ledger.read([KEY])
    blocks = [each for each in held if isinstance(each, Append)]
    return [record.record_id for each in blocks for record in each.records]


@pytest.mark.parametrize("is_whole_scope", [False, True])
async def test_who_begins_while_a_record_is_being_removed_does_not_keep_it(
    memory: Memory,
    records: Watched,
    ledger: MemoryLedger,
    clock: ManualClock,
    is_whole_scope: bool,
) -> None:
    await memory.remember(SCOPE, Draft("a", "It is."))
    begun: list[float] = []

    async def begin() -> None:
        # The store is slow: a request comes in and is offered the record.
        clock.move(1)
        begun.append(clock())
        assert await records.get(SCOPE, "a", now=clock()) is not None
        clock.move(1)

    records.before = begin
    if is_whole_scope:
        await memory.forget_scope(SCOPE)
    else:
        await memory.forget(SCOPE, ["a"])

    # Its upstream accepts it after all was forgotten.
    await ledger.commit({KEY: placed("a")})
    await memory.look_after({KEY: placed("a")}, since=begun[0])

    assert await ids_in(ledger) == []


async def test_what_is_forgotten_during_the_look_does_not_come_back_by_it(
    memory: Memory, records: Watched, ledger: MemoryLedger
) -> None:
    for each in ("a", "b", "c"):
        await memory.remember(SCOPE, Draft(each, "It is."))
    await memory.forget(SCOPE, ["a"])
    await ledger.commit({KEY: placed("a", "b", "c")})

    async def forget_another() -> None:
        await memory.forget(SCOPE, ["b"])

    records.behind = forget_another
    await memory.look_after({KEY: placed("a", "b", "c")}, since=0)

    assert await ids_in(ledger) == ["c"]


async def test_a_client_that_leaves_during_the_look_brings_nothing_back(
    memory: Memory, records: Watched, ledger: MemoryLedger
) -> None:
    await memory.remember(SCOPE, Draft("a", "It is."))
    await memory.forget(SCOPE, ["a"])
    await ledger.commit({KEY: placed("a")})

    records.behind = leave
    with pytest.raises(asyncio.CancelledError):
        await memory.look_after({KEY: placed("a")}, since=0)

    assert await ids_in(ledger) == []


async def leave() -> None:
    """Be cancelled, as a request is whose client has gone."""
    raise asyncio.CancelledError


class LateLedger:
    """A ledger whose first commit arrives, though nobody waited for it."""

    def __init__(self, ledger: MemoryLedger) -> None:
        self._ledger = ledger
        self._is_late = True

    def __getattr__(self, name: str) -> Any:
        return getattr(self._ledger, name)

    async def commit(self, operations: Mapping[bytes, tuple[Operation, ...]]) -> None:
        await self._ledger.commit(operations)
        is_late, self._is_late = self._is_late, False
        if is_late:
            raise StoreFailed(store="memory", operation="commit")


async def test_what_arrived_though_the_ledger_was_late_is_forgotten_too(
    records: Watched, ledger: MemoryLedger, clock: ManualClock
) -> None:
    late = LateLedger(ledger)
    memory = Memory(records, late, clock=clock)
    source = StoredRecords(StoreSource(type="store"), records, clock=clock)
    runtime = make_runtime(
        make_config(more="context: {refresh: {deadline_ms: 5000}}"),
        LineTold(),
        sources=[source],
        ledger=late,
        memory=memory,
        clock=clock,
    )
    await memory.remember(SCOPE, Draft("a", "The canary is yellow."))
    exchange = conversation(runtime)
    body = anthropic_body([user("what colour is the canary?")])
    await (
        exchange
        >> request(body)
        << upstream_gets(lambda asked: b"yellow" in asked.body)
    )

    await memory.forget(SCOPE, ["a"])
    await (exchange >> upstream_says(anthropic_answer()) << client_gets(lambda _: True))

    left: list[tuple[Operation, ...]] = []

    def look(held: tuple[Operation, ...]) -> tuple[Operation, ...]:
        left.append(held)
        return held

    await ledger.rewrite(look)
    assert left
    assert not any(isinstance(each, Append) for held in left for each in held)
