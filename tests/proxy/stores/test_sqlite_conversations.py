"""Conversations in a SQLite file: who leaves, and what goes along."""

import sqlite3
from dataclasses import replace
from pathlib import Path

import pytest

from deuz_proxy.stores.conversations import MOST_CONVERSATIONS, Ask, Save
from deuz_proxy.stores.sqlite_conversations import SqliteConversations
from deuz_proxy.stores.sqlite_file import connect, open_file
from deuz_proxy.stores.sqlite_thread import SqliteThread


def new(number: int, session: bytes | None = None) -> Save:
    return Save(
        name=f"c{number}",
        stamp=0,
        sealed=b"x",
        heads=(b"h",),
        places=[b"k%d" % number],
        gone=[],
        session=session,
        texts=[(b"h%d" % number, b"text")],
    )


def count(path: Path, table: str) -> int:
    file = sqlite3.connect(path)
    found: int = file.execute(f"select count(*) from {table}").fetchone()[0]
    file.close()
    return found


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "ledger.db"


async def kept_in(path: Path) -> SqliteConversations:
    writer = SqliteThread(open_file(path), "writer")
    return SqliteConversations(SqliteThread(connect(path), "reader"), writer)


async def close(kept: SqliteConversations) -> None:
    await kept._writer.close(grace_seconds=5)
    await kept._reader.close(grace_seconds=5)


async def test_what_expired_leaves_with_its_places_session_and_text(
    path: Path,
) -> None:
    kept = await kept_in(path)
    await kept.save(new(1, b"s1"), now=100.0, ttl_seconds=50.0)

    await kept.save(new(2, b"s2"), now=151.0, ttl_seconds=50.0)

    tables = ("conversations", "places", "sessions", "texts")
    assert [count(path, table) for table in tables] == [1, 1, 1, 1]
    await close(kept)


async def test_of_too_many_the_one_used_longest_ago_leaves(path: Path) -> None:
    kept = await kept_in(path)
    await kept.save(new(0), now=1.0, ttl_seconds=50.0)
    rows = [(f"d{n}", 1, 2.0, b"", b"x") for n in range(MOST_CONVERSATIONS - 1)]
    insert = "insert into conversations values (?, ?, ?, ?, ?)"
    await kept._writer.submit(lambda file: file.executemany(insert, rows))

    await kept.save(new(1), now=3.0, ttl_seconds=50.0)

    assert count(path, "conversations") == MOST_CONVERSATIONS
    assert count(path, "places") == 1
    await close(kept)


async def test_a_client_that_names_another_session_each_time_does_not_fill_the_file(
    path: Path,
) -> None:
    kept = await kept_in(path)
    for stamp in range(20):
        save = replace(new(1, b"s%d" % stamp), stamp=stamp)
        assert await kept.save(save, now=1.0, ttl_seconds=50.0)

    found = await kept.find(Ask((), b"s19", None, -1, ()), oldest=0.0)

    assert found is not None
    assert count(path, "sessions") == 4
    await close(kept)
