"""The ledger over any shelf: uses, damage and faults, with a shelf in the process."""

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence

import pytest

from deuz_compiler import Bare
from deuz_proxy.errors import StoreFailed
from deuz_proxy.stores.aside import Aside
from deuz_proxy.stores.bounds import Bounds
from deuz_proxy.stores.gate import Gate
from deuz_proxy.stores.ledger_stored import StoredLedger
from deuz_proxy.stores.shelf import Committed, Found, Put, Reseal, Totals
from deuz_testing.ledger_suite import ManualClock, Told, append, key

BLOCK = (append("block"),)


class ListShelf:
    """A shelf that keeps what it was told; `fails` makes it raise."""

    def __init__(self) -> None:
        self.rows: dict[bytes, tuple[float, bytes]] = {}
        self.touches: list[Mapping[bytes, float]] = []
        self.fails = False
        self.may_read = False
        self.hangs_at_drop = False

    async def read(self, keys: Sequence[bytes]) -> tuple[Found, Totals]:
        if not self.may_read:
            self._check()
        found = {each: self.rows[each] for each in keys if each in self.rows}
        return found, (len(self.rows), 0)

    async def commit(
        self,
        puts: Sequence[Put],
        touched: Mapping[bytes, float],
        bounds: Bounds,
        now: float,
    ) -> Committed:
        self._check()
        self.touches.append(touched)
        for each, at in touched.items():
            self.rows[each] = (at, self.rows[each][1])
        self.rows |= {put.key: (now, put.sealed) for put in puts}
        return Committed(0, 0, (len(self.rows), 0))

    async def drop(self, damaged: Sequence[tuple[bytes, bytes]]) -> None:
        if self.hangs_at_drop:
            await asyncio.Event().wait()
        for each, _ in damaged:
            del self.rows[each]

    async def rewrite(self, reseal: Reseal) -> tuple[int, Totals]:
        self._check()
        changed = 0
        for each, (used, sealed) in self.rows.items():
            other = reseal(each, sealed)
            if other is not None:
                self.rows[each] = (used, other[0])
                changed += other[1]
        return changed, (len(self.rows), 0)

    def _check(self) -> None:
        if self.fails:
            raise OSError("canary")


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def told() -> Told:
    return Told()


@pytest.fixture
def shelf() -> ListShelf:
    return ListShelf()


@pytest.fixture
async def aside() -> AsyncIterator[Aside]:
    made = await Aside().open()
    yield made
    await made.close(grace_seconds=5)


@pytest.fixture
def ledger(
    shelf: ListShelf, aside: Aside, clock: ManualClock, told: Told
) -> StoredLedger:
    def gate(op: str) -> Gate:
        return Gate(
            "sqlite",
            op,
            faults=(OSError,),
            deadline_seconds=5.0,
            clock=clock,
            tell=told,
        )

    return StoredLedger(
        shelf,
        Bounds(10, 10_000, 600),
        reads=gate("read"),
        commits=gate("commit"),
        aside=aside,
        clock=clock,
    )


async def test_a_use_is_written_down_when_the_last_known_one_is_a_minute_ago(
    ledger: StoredLedger, shelf: ListShelf, aside: Aside, clock: ManualClock
) -> None:
    await ledger.commit({key(1): BLOCK})
    clock.move(59)
    await ledger.read([key(1)])
    await aside.settle()
    early = shelf.rows[key(1)][0]
    clock.move(1)
    await ledger.read([key(1)])
    await aside.settle()

    assert early == clock.now - 60
    assert shelf.rows[key(1)][0] == clock.now


async def test_a_commit_takes_the_uses_along(
    ledger: StoredLedger, shelf: ListShelf, aside: Aside, clock: ManualClock
) -> None:
    await ledger.commit({key(1): BLOCK})
    clock.move(100)
    await ledger.read([key(1)])

    await ledger.commit({key(2): BLOCK})
    await aside.settle()

    assert shelf.touches == [{}, {key(1): clock.now}]


async def test_uses_of_a_long_outage_are_written_in_commits_that_end_in_time(
    ledger: StoredLedger, shelf: ListShelf, aside: Aside, clock: ManualClock
) -> None:
    keys = [key(number) for number in range(2_500)]
    ledger._bounds = Bounds(2_400, 1_000_000, 600)
    await ledger.commit(dict.fromkeys(keys, BLOCK))
    clock.move(100)
    shelf.fails = True
    shelf.may_read = True
    await ledger.read(keys)
    await aside.settle()
    shelf.fails = False
    shelf.touches.clear()

    await ledger.commit({key(2_500): BLOCK})
    await ledger.read(keys[:1])
    await ledger.read(keys[-1:])
    await aside.settle()

    # No more are kept than the ledger may hold.
    assert [len(touched) for touched in shelf.touches] == [1_000, 1_000, 401]
    assert shelf.rows[keys[0]][0] == clock.now


async def test_removing_what_is_damaged_has_its_deadline(
    ledger: StoredLedger, shelf: ListShelf, aside: Aside, clock: ManualClock
) -> None:
    await ledger.commit({key(1): BLOCK, key(2): BLOCK})
    shelf.rows[key(1)] = (shelf.rows[key(1)][0], b"noise")
    shelf.hangs_at_drop = True
    ledger._commits._deadline_seconds = 0.01

    await ledger.read([key(1)])
    clock.move(100)
    await ledger.read([key(2)])
    async with asyncio.timeout(5):
        await aside.settle()

    assert shelf.rows[key(2)][0] == clock.now


async def test_uses_that_could_not_be_written_are_kept_for_the_next_time(
    ledger: StoredLedger, shelf: ListShelf, aside: Aside, clock: ManualClock
) -> None:
    await ledger.commit({key(1): BLOCK})
    clock.move(500)
    await ledger.read([key(1)])
    shelf.fails = True
    await aside.settle()
    shelf.fails = False
    clock.move(500)

    assert list(await ledger.read([key(1)])) == [BLOCK]
    await aside.settle()
    assert shelf.rows[key(1)][0] == clock.now


async def test_a_shelf_that_fails_is_a_store_that_failed(
    ledger: StoredLedger, shelf: ListShelf, told: Told
) -> None:
    shelf.fails = True

    for work in (
        lambda: ledger.read([key(1)]),
        lambda: ledger.commit({key(1): BLOCK}),
        lambda: ledger.rewrite(lambda held: held),
    ):
        with pytest.raises(StoreFailed):
            await work()

    assert [(event.op, event.status) for event in told.events] == [
        ("read", "failed"),
        ("commit", "failed"),
        ("rewrite", "failed"),
    ]


async def test_damage_is_a_miss_of_its_own_and_is_removed(
    ledger: StoredLedger, shelf: ListShelf, aside: Aside, told: Told
) -> None:
    await ledger.commit({key(1): BLOCK, key(2): (Bare(),)})
    shelf.rows[key(1)] = (shelf.rows[key(1)][0], b"noise")

    found = await ledger.read([key(1), key(2)])
    await aside.settle()

    assert list(found) == [(), (Bare(),)]
    assert told.count("read", "damaged") == 1
    assert list(shelf.rows) == [key(2)]
