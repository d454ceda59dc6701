"""The SQLite file at the start: whose it is, of which schema, and who may read it."""

import os
import shutil
import sqlite3
import stat
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from deuz_proxy.errors import StoreUnusable
from deuz_proxy.stores.sqlite_file import SCHEMA, connect, open_file

AS_NOBODY = ("setpriv", "--reuid=65534", "--clear-groups")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "ledger.db"


def refusal(path: Path, **options: int) -> str:
    with pytest.raises(StoreUnusable) as caught:
        open_file(path, **options)
    return str(caught.value)


def tables(connection: sqlite3.Connection) -> set[str]:
    rows = connection.execute("select name from sqlite_master where type = 'table'")
    return {name for (name,) in rows}


def put(connection: sqlite3.Connection, key: bytes) -> None:
    connection.execute(
        "insert into entries (key, used, size, sealed) values (?, 1, 10, x'00')", (key,)
    )


def test_a_new_file_has_the_tables_and_the_log_that_readers_do_not_wait_for(
    path: Path,
) -> None:
    connection = open_file(path)

    assert {"entries", "totals"} <= tables(connection)
    assert connection.execute("pragma journal_mode").fetchone() == ("wal",)
    assert connection.execute("pragma user_version").fetchone() == (SCHEMA,)
    connection.close()


def test_a_folder_made_for_it_is_its_owners_too(tmp_path: Path) -> None:
    path = tmp_path / "made" / "ledger.db"

    open_file(path).close()

    assert stat.S_IMODE(os.stat(path).st_mode) == 0o600
    assert stat.S_IMODE(os.stat(path.parent).st_mode) == 0o700


def test_a_file_that_others_could_read_is_closed_to_them(path: Path) -> None:
    path.touch(0o666)
    path.chmod(0o666)

    open_file(path).close()

    assert stat.S_IMODE(os.stat(path).st_mode) == 0o600


def test_opening_again_keeps_what_is_there(path: Path) -> None:
    first = open_file(path)
    put(first, b"k")
    first.close()

    second = open_file(path)

    assert second.execute("select key from entries").fetchall() == [(b"k",)]
    assert second.execute("select entries, bytes from totals").fetchone() == (1, 10)
    second.close()


def test_a_newer_schema_is_refused_and_left_as_it_was(path: Path) -> None:
    newer = open_file(path, schema=SCHEMA + 1)
    put(newer, b"k")
    newer.close()
    before = path.read_bytes()

    words = refusal(path)

    assert f"its schema is {SCHEMA + 1}, this version knows up to {SCHEMA}" in words
    assert str(path) in words
    assert path.read_bytes() == before


def test_of_an_older_schema_nothing_is_left(path: Path) -> None:
    older = open_file(path)
    put(older, b"canary")
    # As versions before did with what was older still.
    older.execute("create table entries_1 (sealed blob)")
    older.execute("insert into entries_1 values ('parrot')")
    older.close()

    newer = open_file(path, schema=SCHEMA + 1)
    put(newer, b"new")

    assert newer.execute("select key from entries").fetchall() == [(b"new",)]
    assert newer.execute("select entries from totals").fetchone() == (1,)
    newer.close()
    assert b"canary" not in path.read_bytes()
    assert b"parrot" not in path.read_bytes()


def test_what_a_version_before_set_aside_goes_when_it_is_opened(path: Path) -> None:
    file = open_file(path)
    put(file, b"kept")
    file.execute("create table entries_1 (sealed blob)")
    file.execute("insert into entries_1 values ('parrot')")
    file.close()

    again = open_file(path)

    assert again.execute("select key from entries").fetchall() == [(b"kept",)]
    again.close()
    assert b"parrot" not in path.read_bytes()


def test_a_database_of_another_program_is_refused_and_left_as_it_was(
    path: Path,
) -> None:
    other = sqlite3.connect(path)
    other.execute("create table theirs (a)")
    other.close()
    before = path.read_bytes()

    assert "it belongs to another program" in refusal(path)
    assert path.read_bytes() == before


def test_what_is_no_database_is_refused_and_left_as_it_was(path: Path) -> None:
    path.write_bytes(b"no database, but long enough to have a head " * 50)
    before = path.read_bytes()

    assert "file is not a database" in refusal(path)
    assert path.read_bytes() == before


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("folder", "it is no file"),
        ("folder/no/thing/x.db", "four slashes"),
        ("file/x.db", "file exists"),
    ],
)
def test_a_place_where_no_file_can_be_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, words: str
) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "file").touch()
    monkeypatch.chdir(tmp_path)

    assert words in refusal(Path(name))


def as_nobody(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*AS_NOBODY, sys.executable, *arguments],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )


@pytest.mark.skipif(shutil.which("setpriv") is None, reason="needs setpriv")
@pytest.mark.skipif(os.getuid() != 0, reason="only root can become another user")
@pytest.mark.parametrize(
    ("kind", "words"),
    [("file", "unable to open database file"), ("folder", "permission denied")],
)
def test_a_file_that_cannot_be_written_is_refused(
    tmp_path: Path, kind: str, words: str
) -> None:
    if as_nobody("-c", "import deuz_proxy").returncode:
        pytest.skip("this checkout is in a folder that is root's alone")
    folder = tmp_path / "theirs"
    folder.mkdir()
    path = folder / "ledger.db"
    if kind == "file":
        open_file(path).close()
    program = (
        "import sys, pathlib\n"
        "from deuz_proxy.errors import StoreUnusable\n"
        "from deuz_proxy.stores.sqlite_file import open_file\n"
        "try:\n    open_file(pathlib.Path(sys.argv[1]))\n"
        "except StoreUnusable as fault:\n    print(fault)\n"
    )
    for each in (folder, *folder.parents):
        if each.stat().st_uid == 0 and each != Path("/"):
            each.chmod(each.stat().st_mode | 0o055)

    run = as_nobody("-c", program, str(path))

    assert run.stdout == f"store ledger {path} cannot be used: {words}\n"


def test_two_processes_may_make_the_same_file_at_once(path: Path) -> None:
    program = (
        "import sys, pathlib\n"
        "from deuz_proxy.stores.sqlite_file import open_file\n"
        "open_file(pathlib.Path(sys.argv[1])).close()\n"
    )

    runs = [
        subprocess.Popen([sys.executable, "-c", program, str(path)]) for _ in range(4)
    ]

    assert [run.wait(60) for run in runs] == [0] * 4
    with closing(connect(path)) as connection:
        assert {"entries", "totals"} <= tables(connection)
