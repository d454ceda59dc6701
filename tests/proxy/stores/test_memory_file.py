"""What a memory's file holds, and no longer holds."""

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from deuz_proxy.errors import StoreFailed, StoreUnusable
from deuz_proxy.memory.records import Draft
from deuz_proxy.sources.words import words_of
from deuz_proxy.stores import memory_file
from deuz_proxy.stores.memory_file import VERSION
from deuz_proxy.stores.memory_sqlite import SqliteMemory
from deuz_testing.memory_suite import NOW, found

CANARY = "Zanzibarische Kanarienvögel 語学校の鳥 getCanarySecret"


async def opened(path: Path) -> SqliteMemory:
    return await SqliteMemory(str(path), words_of=words_of).open()


def bytes_in(folder: Path) -> bytes:
    return b"".join(path.read_bytes() for path in folder.iterdir())


def pieces_of(text: str) -> list[bytes]:
    """Return the text's words as they may stand in a file, index included."""
    words = [word.encode() for word in words_of(text)]
    return [text.encode(), *[word for word in words if len(word) > 4]]


@pytest.mark.parametrize("others", [0, 3, 120])
async def test_nothing_of_a_dropped_record_is_left_in_the_files(
    tmp_path: Path, others: int
) -> None:
    memory = await opened(tmp_path / "m.db")
    for number in range(others):
        await memory.put("acme", Draft(f"o{number}", f"other {number}" * 9), now=NOW)
    for text in (CANARY, f"{CANARY} again", CANARY * 200):
        await memory.put("acme", Draft("r", text), now=NOW)
    before = bytes_in(tmp_path)

    await memory.drop("acme", ["r"], now=NOW)

    after = bytes_in(tmp_path)
    assert CANARY.encode() in before
    # The index stores what two neighbouring words share only once: the first is whole.
    assert [piece for piece in pieces_of(CANARY) if piece in after] == []
    assert await found(memory, CANARY) == []
    await memory.close()
    assert [piece for piece in pieces_of(CANARY) if piece in bytes_in(tmp_path)] == []


async def test_notes_that_were_replaced_are_gone_from_the_file(tmp_path: Path) -> None:
    memory = await opened(tmp_path / "m.db")
    await memory.swap("acme", "k", old=None, new=CANARY.encode() * 300)

    await memory.swap("acme", "k", old=CANARY.encode() * 300, new=b"short")

    assert CANARY.encode() not in bytes_in(tmp_path)
    await memory.close()


async def test_what_expired_leaves_the_file_at_the_next_write(tmp_path: Path) -> None:
    memory = await opened(tmp_path / "m.db")
    await memory.put("acme", Draft("r", CANARY, expires_at=NOW), now=1.0)

    await memory.put("other", Draft("s", "green"), now=NOW)

    assert CANARY.encode() not in bytes_in(tmp_path)
    await memory.close()


async def test_a_newer_schema_is_refused_and_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "m.db"
    with sqlite3.connect(path) as connection:
        connection.execute(f"PRAGMA user_version = {VERSION + 1}")
    connection.close()
    before = path.read_bytes()

    with pytest.raises(StoreUnusable, match=f"version {VERSION + 1}"):
        await opened(path)

    assert path.read_bytes() == before


async def test_a_file_that_is_no_database_is_refused(tmp_path: Path) -> None:
    (tmp_path / "m.db").write_text("no database at all, and long enough to tell" * 9)

    with pytest.raises(StoreUnusable, match="not a database"):
        await opened(tmp_path / "m.db")


async def test_the_index_of_an_older_version_is_made_anew(tmp_path: Path) -> None:
    path = tmp_path / "m.db"
    memory = await opened(path)
    await memory.put("acme", Draft("r", "A green door."), now=1.0)
    await memory.put("other", Draft("s", "A green tree."), now=1.0)
    await memory.close()
    with sqlite3.connect(path) as connection:
        # As version 1 had it: the terms as they are, beside their scope.
        for name in ("vocabulary", "words"):
            connection.execute(f"DROP TABLE {name}")
        connection.execute(
            "CREATE VIRTUAL TABLE words USING fts5(scope, body, content='',"
            " tokenize=\"ascii tokenchars '_'\")"
        )
        connection.execute(
            "CREATE VIRTUAL TABLE vocabulary USING fts5vocab(words, col)"
        )
        connection.execute(
            "INSERT INTO words (rowid, scope, body) SELECT row, 's' || scope, terms"
            " FROM records"
        )
        connection.execute("PRAGMA user_version = 1")
    connection.close()

    memory = await opened(path)

    assert [h.record.id for h in await memory.search("acme", "green", limit=9, now=2.0)]
    assert await memory.drop("acme", ["r"], now=3.0) == 1
    assert not await memory.search("acme", "green", limit=9, now=4.0)
    hits = await memory.search("other", "green tree", limit=9, now=4.0)
    assert [h.record.id for h in hits] == ["s"]
    assert hits[0].score > 0.99
    await memory.close()


@pytest.mark.parametrize("ids", [["r"], []])
async def test_forgetting_what_had_expired_leaves_none_of_its_words_in_the_file(
    tmp_path: Path, ids: list[str]
) -> None:
    memory = await opened(tmp_path / "m.db")
    await memory.put("acme", Draft("r", CANARY, expires_at=NOW), now=1.0)
    await memory.put("acme", Draft("s", "green"), now=NOW)

    await memory.drop("acme", ids, now=NOW)

    after = bytes_in(tmp_path)
    assert [piece for piece in pieces_of(CANARY) if piece in after] == []
    await memory.close()


async def test_a_change_that_a_reader_held_up_is_undone_and_the_next_one_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(memory_file, "_BUSY_SECONDS", 0.01)
    memory = await opened(tmp_path / "m.db")
    await memory.put("acme", Draft("a", "green"), now=NOW)
    with closing(sqlite3.connect(tmp_path / "m.db", isolation_level=None)) as other:
        other.execute("BEGIN")
        other.execute("SELECT count(*) FROM records").fetchall()
        with pytest.raises(StoreFailed):
            await memory.put("acme", Draft("b", "yellow"), now=NOW)

    await memory.put("acme", Draft("c", "red"), now=NOW)

    page = await memory.page("acme", after="", limit=9, now=NOW)
    assert [record.id for record in page] == ["a", "c"]
    await memory.close()
