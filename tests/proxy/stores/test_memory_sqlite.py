import sqlite3
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from deuz_proxy.errors import StoreFailed, StoreUnusable
from deuz_proxy.memory.records import Draft
from deuz_proxy.sources.words import words_of
from deuz_proxy.stores.memory_sqlite import SqliteMemory
from deuz_testing.memory_suite import NOW, MemorySuite, found


async def opened(path: Path | str) -> SqliteMemory:
    return await SqliteMemory(str(path), words_of=words_of).open()


@pytest_asyncio.fixture(params=["memory", "file"])
async def memory(
    request: pytest.FixtureRequest, tmp_path: Path
) -> AsyncIterator[SqliteMemory]:
    is_file = request.param == "file"
    made = await opened(tmp_path / "memory.db" if is_file else ":memory:")
    yield made
    await made.close()


class TestSqliteMemory(MemorySuite):
    """SQLite keeps what every memory promises, in a file and in the process."""


async def test_what_was_remembered_is_there_after_a_restart(tmp_path: Path) -> None:
    first = await opened(tmp_path / "m.db")
    await first.put("acme", Draft("r", "green"), now=NOW)
    await first.swap("acme", "k", old=None, new=b"note")
    await first.close()

    second = await opened(tmp_path / "m.db")

    assert await found(second, "green") == ["r"]
    assert (await second.put("acme", Draft("r", "blue"), now=NOW)).revision == 2
    assert await second.load("acme", "k") == b"note"
    await second.close()


async def test_two_processes_share_a_file(tmp_path: Path) -> None:
    one, two = await opened(tmp_path / "m.db"), await opened(tmp_path / "m.db")
    await one.put("acme", Draft("r", "green"), now=NOW)

    assert await found(two, "green") == ["r"]
    assert await two.drop("acme", ["r"], now=NOW) == 1
    assert await found(one, "green") == []
    await one.close()
    await two.close()


async def test_a_folder_that_is_not_there_is_told(tmp_path: Path) -> None:
    with pytest.raises(StoreUnusable, match="no such file or directory"):
        await opened(tmp_path / "missing" / "too" / "m.db")


async def test_one_folder_that_is_not_there_is_made_for_its_owner(
    tmp_path: Path,
) -> None:
    await (await opened(tmp_path / "new" / "m.db")).close()

    assert (tmp_path / "new").stat().st_mode & 0o777 == 0o700


async def test_a_failed_change_changes_nothing_and_is_told(tmp_path: Path) -> None:
    memory = await opened(tmp_path / "m.db")
    await memory.put("acme", Draft("r", "green"), now=NOW)
    with sqlite3.connect(tmp_path / "m.db") as connection:
        connection.execute(
            "CREATE TRIGGER full BEFORE INSERT ON records"
            " BEGIN SELECT raise(ABORT, 'disk is full'); END"
        )
    connection.close()

    with pytest.raises(StoreFailed, match="memory failed at put"):
        await memory.put("acme", Draft("r", "blue"), now=NOW)

    assert await found(memory, "green") == ["r"]
    await memory.close()


async def test_a_closed_store_fails_and_closes_again(tmp_path: Path) -> None:
    memory = await opened(tmp_path / "m.db")
    await memory.close()
    await memory.close()

    with pytest.raises(StoreFailed):
        await memory.get("acme", "r", now=NOW)
