"""The ledger in Redis: what every ledger promises, and what is special to a server."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack

import pytest
import redis

from deuz_compiler import Append, Bare
from deuz_proxy.config.ledger import LedgerConfig
from deuz_proxy.errors import StoreFailed
from deuz_proxy.ports import Ledger
from deuz_proxy.serving import new_id
from deuz_proxy.stores.breaker import PATIENCE
from deuz_proxy.stores.build import open_stores
from deuz_testing.ledger_suite import (
    LedgerSuite,
    ManualClock,
    OpenLedger,
    Told,
    append,
    key,
)
from deuz_testing.redis_process import KINDS, RedisProcess, running_redis
from deuz_testing.waiting import WAIT_SECONDS, until

BLOCK = (append("block", "r1"),)


@pytest.fixture(scope="module", params=KINDS)
def process(request: pytest.FixtureRequest) -> Iterator[RedisProcess]:
    with running_redis(kind=request.param) as server:
        yield server


@pytest.fixture
def client(process: RedisProcess) -> Iterator[redis.Redis]:
    with process.client() as made:
        made.flushall()
        yield made


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def told() -> Told:
    return Told()


@pytest.fixture
async def open_ledger(
    process: RedisProcess,
    client: redis.Redis,
    clock: ManualClock,
    told: Told,
) -> AsyncIterator[OpenLedger]:
    async with AsyncExitStack() as stack:

        async def opened(**settings: object) -> Ledger:
            # Other work on the machine must not look like a dead server.
            config = LedgerConfig.model_validate(
                {"url": process.url, "ca_file": process.ca_file, "deadline_ms": 10_000}
                | settings
            )
            stores = await open_stores(
                config, stack, new_id=new_id, tell=told, clock=clock
            )
            return stores.ledger

        yield opened


class TestRedisLedger(LedgerSuite):
    """The ledger in a server keeps what every ledger promises."""


async def test_replicas_share_the_server_and_its_bounds(
    open_ledger: OpenLedger, clock: ManualClock, told: Told
) -> None:
    one, two = await open_ledger(max_entries=10), await open_ledger(max_entries=10)

    for number in range(50):
        clock.move(1)
        await one.commit({key(100 + number): BLOCK, key(7): BLOCK})
        await two.commit({key(200 + number): BLOCK, key(7): BLOCK})

    assert list(await one.read([key(7)])) == list(await two.read([key(7)])) == [BLOCK]
    assert told.last.entries == 10
    assert told.count("evict") == 101 - 10


async def test_a_use_that_is_written_late_hides_no_later_one(
    open_ledger: OpenLedger, client: redis.Redis, clock: ManualClock
) -> None:
    one, two = await open_ledger(), await open_ledger()
    await one.commit({key(1): BLOCK})
    clock.move(100)
    await two.read([key(1)])
    # The other's use is on its way for long.
    clock.move(-100)
    await one._shelf.commit((), {key(1): clock.now + 500}, one._bounds, clock.now)  # type: ignore[attr-defined]  # The store's own.

    await two.commit({key(2): BLOCK})

    assert client.zscore("deuz:1:used", key(1)) == clock.now + 500


async def test_two_that_commit_the_same_place_agree_on_one(
    open_ledger: OpenLedger,
) -> None:
    one, two = await open_ledger(), await open_ledger()

    for number in range(20):
        mine, yours = (append(f"mine {number}"),), (append(f"yours {number}"),)
        await asyncio.gather(
            one.commit({key(number): mine}),
            two.commit({key(number): yours}),
            one.commit({key(number): (Bare(),)}),
        )
        found = list(await one.read([key(number)]))
        assert found == list(await two.read([key(number)]))
        assert found[0] in (mine, yours)


@pytest.mark.parametrize(
    "damage",
    [b"", b"\x01", b"\xff" * 40, None],
    ids=["empty", "cut off", "noise", "moved from another key"],
)
async def test_a_damaged_entry_is_a_counted_miss_and_is_removed(
    open_ledger: OpenLedger,
    client: redis.Redis,
    told: Told,
    damage: bytes | None,
) -> None:
    ledger = await open_ledger()
    await ledger.commit({key(1): BLOCK, key(2): BLOCK})
    moved = client.get(b"deuz:1:e:" + key(2))
    client.set(b"deuz:1:e:" + key(1), moved or b"" if damage is None else damage)

    found = await ledger.read([key(1), key(2)])
    await until(lambda: not client.exists(b"deuz:1:e:" + key(1)))
    await ledger.commit({key(3): BLOCK})

    assert list(found) == [(), BLOCK]
    assert told.count("read", "damaged") == 1
    assert told.last.entries == 2


async def test_entries_that_the_server_dropped_are_misses_and_sums_recover(
    open_ledger: OpenLedger,
    client: redis.Redis,
    clock: ManualClock,
    told: Told,
) -> None:
    ledger = await open_ledger(ttl_seconds=60)
    await ledger.commit({key(1): BLOCK, key(2): BLOCK})
    client.delete(b"deuz:1:e:" + key(1))

    found = await ledger.read([key(1), key(2)])
    clock.move(61)
    await ledger.commit({key(3): BLOCK})
    await ledger.commit({key(3): ()})

    assert list(found) == [(), BLOCK]
    assert (told.last.entries, told.last.bytes) == (0, 0)


async def test_entries_expire_by_themselves_if_nobody_comes_back(
    open_ledger: OpenLedger, client: redis.Redis
) -> None:
    ledger = await open_ledger(ttl_seconds=60)

    await ledger.commit({key(1): BLOCK})

    assert 60 < client.ttl(b"deuz:1:e:" + key(1)) <= 3_660


async def test_a_server_without_room_keeps_nothing_new_and_loses_nothing_old(
    open_ledger: OpenLedger, client: redis.Redis, told: Told
) -> None:
    ledger = await open_ledger()
    await ledger.commit({key(1): BLOCK})
    client.config_set("maxmemory", 1)

    with pytest.raises(StoreFailed, match="store redis failed at commit"):
        await ledger.commit({key(2): BLOCK})
    found = await ledger.read([key(1), key(2)])
    client.config_set("maxmemory", 0)
    await ledger.commit({key(3): BLOCK})

    assert list(found) == [BLOCK, ()]
    assert [e.status for e in told.events if e.op == "commit"] == ["ok", "failed", "ok"]


async def test_keys_of_different_lengths_are_no_read(open_ledger: OpenLedger) -> None:
    ledger = await open_ledger()

    with pytest.raises(ValueError, match="one length"):
        await ledger.read([b"one", b"three"])


async def test_rewriting_waits_for_what_is_put_meanwhile(
    open_ledger: OpenLedger, client: redis.Redis
) -> None:
    ledger = await open_ledger()
    await ledger.commit({key(1): (append("first"),)})
    seen: list[bytes] = []

    def change(held: tuple[object, ...]) -> tuple[Bare]:
        (each,) = held
        assert isinstance(each, Append)
        seen.append(each.text)
        if len(seen) == 1:
            _overwrite(client)
        return (Bare(),)

    def _overwrite(client: redis.Redis) -> None:
        from deuz_proxy.stores.entries import seal_entry

        sealed = seal_entry(key(1), (append("second"),))
        client.set(b"deuz:1:e:" + key(1), sealed)

    assert await ledger.rewrite(change) == 1

    assert seen == [b"first", b"second"]
    assert list(await ledger.read([key(1)])) == [(Bare(),)]


@pytest.mark.parametrize("trouble", ["killed", "frozen"])
@pytest.mark.parametrize("kind", KINDS)
async def test_a_server_in_trouble_costs_the_deadline_and_is_found_again(
    told: Told, trouble: str, kind: str
) -> None:
    with running_redis(kind=kind) as process:
        async with AsyncExitStack() as stack:
            config = LedgerConfig(
                url=process.url, ca_file=process.ca_file, deadline_ms=100
            )
            ledger = (await open_stores(config, stack, new_id=new_id, tell=told)).ledger
            await ledger.commit({key(1): BLOCK})
            process.kill() if trouble == "killed" else process.freeze()

            async with asyncio.timeout(WAIT_SECONDS):
                for _ in range(PATIENCE + 50):
                    with pytest.raises(StoreFailed):
                        await ledger.read([key(1)])
            statuses = [event.status for event in told.events]
            was_available = told.last.is_available
            process.start() if trouble == "killed" else process.thaw()
            await _until_it_answers(ledger)

            assert "open" in statuses
            assert not was_available
            assert told.last.is_available
            held = BLOCK if trouble == "frozen" else ()
            assert list(await ledger.read([key(1)])) == [held]


async def _until_it_answers(ledger: Ledger) -> None:
    async with asyncio.timeout(WAIT_SECONDS):
        while True:
            try:
                await ledger.read([key(2)])
            except StoreFailed:
                await asyncio.sleep(0.05)
            else:
                return
