"""The SQLite file: opened, checked, and brought to this version's schema.

Rules:
- What stands in it is for its owner alone: 0600, and 0700 for a folder made for it.
- A file of a newer version, of another program, or that cannot be written is refused
  before anything is changed. Tables of an older version are removed: nobody reads
  them, and nothing would be forgotten in them.
- Several processes may open it at once: each change is one transaction.
"""

import sqlite3
import time
from pathlib import Path

from deuz_proxy.errors import StoreUnusable
from deuz_proxy.private_files import make_private

SCHEMA = 2
APPLICATION_ID = 0x6465757A  # "deuz"
# Another process may be writing; what takes longer is late, and told as such.
BUSY_SECONDS = 0.2
_OPENING_BUSY_SECONDS = 5.0
_BUSY_PAUSE_SECONDS = 0.02
# Pages come straight from the system's cache: no call for each, no second copy.
_MAPPED_BYTES = 268_435_456
_WAL_BYTES = 16_777_216

_TABLES = """
create table entries (
  key blob primary key, used real not null, size integer not null, sealed blob not null
);
create index entries_used on entries (used);
create table totals (entries integer not null, bytes integer not null);
insert into totals values (0, 0);
create trigger entry_comes after insert on entries begin
  update totals set entries = entries + 1, bytes = bytes + new.size;
end;
create trigger entry_goes after delete on entries begin
  update totals set entries = entries - 1, bytes = bytes - old.size;
end;
create trigger entry_changes after update of size on entries begin
  update totals set bytes = bytes + new.size - old.size;
end;
create table conversations (
  name text primary key, stamp integer not null, used real not null,
  heads blob not null, sealed blob not null
);
create index conversations_used on conversations (used);
create table places (key blob primary key, name text not null) without rowid;
create index places_name on places (name);
create table sessions (session blob primary key, name text not null) without rowid;
create index sessions_name on sessions (name);
create table texts (digest blob primary key, used real not null, text blob not null);
create trigger conversation_goes after delete on conversations begin
  delete from places where name = old.name;
  delete from sessions where name = old.name;
end;
"""

FAULTS = (sqlite3.Error,)
"""What a connection raises when it fails."""


def open_file(path: Path, *, schema: int = SCHEMA) -> sqlite3.Connection:
    """Return the connection that writes; the file is there and of this schema.

    Raises:
        StoreUnusable: the file cannot be used.
    """
    try:
        make_private(path)
        connection = connect(path)
    except (OSError, sqlite3.Error) as fault:
        raise _unusable(path, _words(fault)) from fault
    try:
        connection.execute(f"pragma busy_timeout = {_OPENING_BUSY_SECONDS * 1000:.0f}")
        _prepare(connection, path, schema)
        connection.execute(f"pragma busy_timeout = {BUSY_SECONDS * 1000:.0f}")
    except sqlite3.Error as fault:
        connection.close()
        raise _unusable(path, _words(fault)) from fault
    except StoreUnusable:
        connection.close()
        raise
    return connection


def connect(path: Path) -> sqlite3.Connection:
    """Return a connection to a file that is there; transactions are begun by hand."""
    connection = sqlite3.connect(
        f"{path.absolute().as_uri()}?mode=rw",
        uri=True,
        timeout=BUSY_SECONDS,
        isolation_level=None,
        check_same_thread=False,
        cached_statements=256,
    )
    try:
        connection.execute(f"pragma mmap_size = {_MAPPED_BYTES}")
        # Synced at checkpoints only: a power cut may cost the newest entries, no more.
        connection.execute("pragma synchronous = normal")
        # What is deleted or forgotten is overwritten, not only left out.
        connection.execute("pragma secure_delete = on")
    except sqlite3.Error:
        connection.close()
        raise
    return connection


def _prepare(connection: sqlite3.Connection, path: Path, schema: int) -> None:
    _check(connection, path, schema)
    mode = _write_ahead(connection)
    if mode != "wal":
        raise _unusable(path, f"its folder does not allow a log beside it: {mode}")
    connection.execute(f"pragma journal_size_limit = {_WAL_BYTES}")
    connection.execute("begin immediate")
    try:
        _check(connection, path, schema)
        _migrate(connection, schema)
    except BaseException:
        connection.execute("rollback")
        raise
    connection.execute("commit")


def _write_ahead(connection: sqlite3.Connection) -> str:
    """Switch to a log that readers do not wait for; return the mode it has now.

    While another process switches, SQLite says so at once instead of waiting.
    """
    end = time.monotonic() + _OPENING_BUSY_SECONDS
    while True:
        try:
            return str(connection.execute("pragma journal_mode = wal").fetchone()[0])
        except sqlite3.OperationalError:
            if time.monotonic() > end:
                raise
        time.sleep(_BUSY_PAUSE_SECONDS)


def _check(connection: sqlite3.Connection, path: Path, schema: int) -> None:
    owner, found = _pragma(connection, "application_id"), _version(connection)
    is_empty = not connection.execute("select 1 from sqlite_master").fetchone()
    if not is_empty and owner != APPLICATION_ID:
        raise _unusable(path, "it belongs to another program")
    if found > schema:
        raise _unusable(
            path, f"its schema is {found}, this version knows up to {schema}"
        )


def _migrate(connection: sqlite3.Connection, schema: int) -> None:
    found = _version(connection)
    _remove_older(connection, is_older=found != schema)
    if found == schema:
        return
    for statement in _statements(_TABLES):
        connection.execute(statement)
    connection.execute(f"pragma application_id = {APPLICATION_ID}")
    connection.execute(f"pragma user_version = {schema}")


def _remove_older(connection: sqlite3.Connection, *, is_older: bool) -> None:
    """Remove what older versions left; they set the tables of even older ones aside."""
    tables = connection.execute(
        "select name from sqlite_master"
        " where type = 'table' and name not like 'sqlite%'"
    ).fetchall()
    # With its table goes what belongs to it.
    for name in [name for (name,) in tables if is_older or name[-1].isdigit()]:
        connection.execute(f'drop table "{name}"')


def _statements(script: str) -> list[str]:
    """Split a script: `executescript` would end the transaction."""
    found, pending = [], ""
    for line in script.splitlines(keepends=True):
        pending += line
        if sqlite3.complete_statement(pending):
            found.append(pending)
            pending = ""
    return found


def _version(connection: sqlite3.Connection) -> int:
    return _pragma(connection, "user_version")


def _pragma(connection: sqlite3.Connection, name: str) -> int:
    return int(connection.execute(f"pragma {name}").fetchone()[0])


def _unusable(path: Path, reason: str) -> StoreUnusable:
    return StoreUnusable(store=f"ledger {path}", reason=reason)


def _words(fault: OSError | sqlite3.Error) -> str:
    if isinstance(fault, FileNotFoundError):
        return "its folder does not exist (an absolute path has four slashes)"
    if isinstance(fault, OSError):
        return (fault.strerror or type(fault).__name__).lower()
    return str(fault)
