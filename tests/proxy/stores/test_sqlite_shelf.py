"""The SQLite ledger: what every ledger promises, and what is special to a file."""

import asyncio
import os
import sqlite3
import stat
import threading
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, closing
from pathlib import Path

import pytest

from deuz_compiler import Bare
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

BLOCK = (append("block", "r1"),)


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def told() -> Told:
    return Told()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "ledger.db"


@pytest.fixture
async def open_ledger(
    path: Path, clock: ManualClock, told: Told
) -> AsyncIterator[OpenLedger]:
    async with AsyncExitStack() as stack:

        async def opened(**settings: object) -> Ledger:
            # Other work on the machine must not look like a dead disk.
            config = LedgerConfig.model_validate(
                {"url": f"sqlite:///{path}", "deadline_ms": 10_000} | settings
            )
            stores = await open_stores(
                config, stack, new_id=new_id, tell=told, clock=clock
            )
            return stores.ledger

        yield opened


class TestSqliteLedger(LedgerSuite):
    """The ledger in a file keeps what every ledger promises."""


async def test_what_was_committed_is_there_after_a_restart(
    open_ledger: OpenLedger,
) -> None:
    before = await open_ledger()
    await before.commit({key(1): BLOCK})

    after = await open_ledger()

    assert list(await after.read([key(1)])) == [BLOCK]


async def test_workers_share_the_file_and_its_bounds(
    open_ledger: OpenLedger, clock: ManualClock, told: Told
) -> None:
    one, two = await open_ledger(max_entries=10), await open_ledger(max_entries=10)

    async def fill(ledger: Ledger, first: int) -> None:
        for number in range(first, first + 50):
            clock.move(1)
            await ledger.commit({key(number): BLOCK, key(7): BLOCK})

    await asyncio.gather(fill(one, 100), fill(two, 200))

    assert list(await one.read([key(7)])) == list(await two.read([key(7)])) == [BLOCK]
    assert told.last.entries == 10
    assert told.count("evict") == 101 - 10


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
    open_ledger: OpenLedger, path: Path, told: Told, damage: bytes | None
) -> None:
    ledger = await open_ledger()
    await ledger.commit({key(1): BLOCK, key(2): BLOCK})
    with sqlite3.connect(path) as file:
        if damage is None:
            query = "select sealed from entries where key = ?"
            damage = file.execute(query, (key(2),)).fetchone()[0]
        file.execute("update entries set sealed = ? where key = ?", (damage, key(1)))
    file.close()

    found = await ledger.read([key(1), key(2)])
    await ledger._aside.settle()  # type: ignore[attr-defined]  # What is done behind.
    await ledger.commit({key(3): BLOCK})

    assert list(found) == [(), BLOCK]
    assert told.count("read", "damaged") == 1
    assert told.last.entries == 2


async def test_a_file_that_another_holds_costs_the_deadline_and_no_more(
    open_ledger: OpenLedger, path: Path, told: Told
) -> None:
    ledger = await open_ledger(deadline_ms=50)
    await ledger.commit({key(1): BLOCK})
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("begin immediate")

    for _ in range(PATIENCE):
        with pytest.raises(StoreFailed):
            await ledger.commit({key(2): BLOCK})
    with pytest.raises(StoreFailed):
        await ledger.commit({key(2): BLOCK})

    # Reading goes on, whoever writes.
    assert list(await ledger.read([key(1)])) == [BLOCK]
    assert told.events[-2].status == "open"
    assert not told.events[-2].is_available
    assert told.last.is_available
    other.close()


async def test_a_full_disk_keeps_nothing_new_and_loses_nothing_old(
    open_ledger: OpenLedger, path: Path, told: Told
) -> None:
    ledger = await open_ledger()
    await ledger.commit({key(1): BLOCK})
    await _on_writer(ledger, "pragma max_page_count = 1")

    with pytest.raises(StoreFailed, match="store sqlite failed at commit"):
        await ledger.commit({key(2): (append("x" * 100_000),)})
    found = await ledger.read([key(1), key(2)])
    await _on_writer(ledger, "pragma max_page_count = 1000000")
    await ledger.commit({key(3): BLOCK})

    assert list(found) == [BLOCK, ()]
    assert [e.status for e in told.events if e.op == "commit"] == ["ok", "failed", "ok"]


async def test_a_file_that_became_read_only_can_still_be_read(
    open_ledger: OpenLedger, told: Told
) -> None:
    ledger = await open_ledger()
    await ledger.commit({key(1): BLOCK})
    await _on_writer(ledger, "pragma query_only = on")

    with pytest.raises(StoreFailed):
        await ledger.commit({key(2): BLOCK})

    assert list(await ledger.read([key(1)])) == [BLOCK]


async def test_a_disk_that_hangs_makes_nobody_wait_longer_than_the_deadline(
    open_ledger: OpenLedger, told: Told
) -> None:
    ledger = await open_ledger(deadline_ms=30)
    release = threading.Event()
    hanging = ledger._shelf._reader.submit(lambda _: release.wait(20))  # type: ignore[attr-defined]  # The store's own thread.

    for _ in range(PATIENCE + 1):
        with pytest.raises(StoreFailed):
            await ledger.read([key(1)])

    statuses = [event.status for event in told.events]
    assert statuses == ["late"] * PATIENCE + ["open"]
    release.set()
    await hanging


async def test_the_file_is_for_its_owner_alone(
    open_ledger: OpenLedger, tmp_path: Path
) -> None:
    ledger = await open_ledger()
    await ledger.commit({key(1): BLOCK})

    names = os.listdir(tmp_path)
    modes = {name: stat.S_IMODE(os.stat(tmp_path / name).st_mode) for name in names}

    assert sorted(modes) == ["ledger.db", "ledger.db-shm", "ledger.db-wal"]
    assert set(modes.values()) == {0o600}


async def test_what_was_rewritten_is_not_left_in_any_of_the_files(
    open_ledger: OpenLedger, tmp_path: Path
) -> None:
    ledger = await open_ledger()
    await ledger.commit({key(n): (append("canary " * 300),) for n in range(50)})

    await ledger.rewrite(lambda _: (Bare(),))

    assert _files_with(b"canary", tmp_path) == []


async def test_a_log_that_somebody_reads_is_told_and_emptied_at_the_next_try(
    open_ledger: OpenLedger, path: Path, tmp_path: Path
) -> None:
    ledger = await open_ledger()
    await ledger.commit({key(n): (append("canary " * 300),) for n in range(50)})
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("begin")
        other.execute("select count(*) from entries").fetchall()
        with pytest.raises(StoreFailed):
            await ledger.rewrite(lambda _: (Bare(),))

    await ledger.rewrite(lambda held: held)

    assert _files_with(b"canary", tmp_path) == []


def _files_with(word: bytes, folder: Path) -> list[str]:
    return [path.name for path in folder.iterdir() if word in path.read_bytes()]


async def _on_writer(ledger: Ledger, pragma: str) -> None:
    await ledger._shelf._writer.submit(lambda file: file.execute(pragma).fetchall())  # type: ignore[attr-defined]  # The store's own connection.
