"""What is done to the ledger's tables, each as one transaction on one connection.

Rules:
- Nothing here knows operations: keys and sealed bytes come and go.
- Totals are kept by triggers, so that they hold whoever writes.
- What expired leaves before anything is put, what is too much after it.
"""

import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import NamedTuple

from deuz_proxy.stores.bounds import Bounds
from deuz_proxy.stores.shelf import Committed, Found, Put, Reseal, Totals

# What an entry costs in the file beside its bytes: key, time, size, two indexes
# (measured over 100 000 entries with keys of 24 bytes).
ENTRY_BYTES = 150
# SQLite takes 32 766 values in a statement; one of so many is compiled once and kept.
_KEYS_AT_ONCE = 1000
_ROWS_AT_ONCE = 500
_EVICTED_AT_ONCE = 64


class Rewritten(NamedTuple):
    """How many operations changed, and the row to go on behind; None at the end."""

    changed: int
    last: int | None
    totals: Totals


def read_entries(
    file: sqlite3.Connection, keys: Sequence[bytes]
) -> tuple[Found, Totals]:
    """Return time of last use and sealed bytes of the keys that are there."""
    found: dict[bytes, tuple[float, bytes]] = {}
    for at in range(0, len(keys), _KEYS_AT_ONCE):
        some = keys[at : at + _KEYS_AT_ONCE]
        marks = ",".join("?" * len(some))
        query = f"select key, used, sealed from entries where key in ({marks})"  # noqa: S608  # Marks only.
        for key, used, sealed in file.execute(query, some):
            found[key] = (used, sealed)
    return found, _totals(file)


def commit_entries(
    file: sqlite3.Connection,
    puts: Sequence[Put],
    touched: Mapping[bytes, float],
    *,
    bounds: Bounds,
    now: float,
) -> Committed:
    """Note uses, put or remove each key, within the bounds."""
    with transaction(file):
        file.executemany(
            "update entries set used = max(used, ?) where key = ?",
            [(at, key) for key, at in touched.items()],
        )
        evicted = file.execute(
            "delete from entries where used <= ?", (now - bounds.ttl_seconds,)
        ).rowcount
        refused = sum(not _put(file, put, bounds, now) for put in puts)
        evicted += _squeeze(file, bounds)
        return Committed(refused, evicted, _totals(file))


def drop_entries(
    file: sqlite3.Connection, damaged: Sequence[tuple[bytes, bytes]]
) -> None:
    """Remove keys that still hold just these bytes."""
    with transaction(file):
        file.executemany("delete from entries where key = ? and sealed = ?", damaged)


def rewrite_entries(file: sqlite3.Connection, reseal: Reseal, behind: int) -> Rewritten:
    """Change the next few hundred entries; places and times of last use stay."""
    with transaction(file):
        rows = file.execute(
            "select rowid, key, sealed from entries where rowid > ?"
            " order by rowid limit ?",
            (behind, _ROWS_AT_ONCE),
        ).fetchall()
        changed = 0
        for row, key, sealed in rows:
            other = reseal(key, sealed)
            if other is not None:
                changed += other[1]
                file.execute(
                    "update entries set sealed = ?, size = ? where rowid = ?",
                    (other[0], len(other[0]) + ENTRY_BYTES, row),
                )
        last = rows[-1][0] if len(rows) == _ROWS_AT_ONCE else None
        return Rewritten(changed, last, _totals(file))


def empty_log(file: sqlite3.Connection) -> None:
    """Move everything from the log into the file, so that no old bytes stay there.

    Raises:
        sqlite3.OperationalError: somebody reads what stands in it.
    """
    is_busy, *_ = file.execute("pragma wal_checkpoint(truncate)").fetchone()
    if is_busy:
        raise sqlite3.OperationalError("the log is being read")


@contextmanager
def transaction(file: sqlite3.Connection) -> Iterator[None]:
    """Do all of it or, when anything raises, none."""
    file.execute("begin immediate")
    try:
        yield
        file.execute("commit")
    except BaseException:
        # After some faults, a full disk for one, SQLite has rolled back already.
        if file.in_transaction:
            file.execute("rollback")
        raise


def _put(file: sqlite3.Connection, put: Put, bounds: Bounds, now: float) -> bool:
    key, sealed, is_modest = put
    size = len(sealed) + ENTRY_BYTES
    if not sealed or size > bounds.max_bytes:
        file.execute("delete from entries where key = ?", (key,))
        return not sealed
    conflict = (
        "do nothing"
        if is_modest
        else "do update set used = max(used, excluded.used), size = excluded.size,"
        " sealed = excluded.sealed"
    )
    file.execute(
        f"insert into entries (key, used, size, sealed) values (?, ?, ?, ?)"  # noqa: S608  # Two constants.
        f" on conflict (key) {conflict}",
        (key, now, size, sealed),
    )
    return True


def _squeeze(file: sqlite3.Connection, bounds: Bounds) -> int:
    evicted = 0
    while _is_over(_totals(file), bounds):
        oldest = file.execute(
            "select rowid from entries order by used, rowid limit ?",
            (_EVICTED_AT_ONCE,),
        ).fetchall()
        for row in oldest:
            if not _is_over(_totals(file), bounds):
                break
            file.execute("delete from entries where rowid = ?", row)
            evicted += 1
    return evicted


def _is_over(totals: Totals, bounds: Bounds) -> bool:
    return totals[0] > bounds.max_entries or totals[1] > bounds.max_bytes


def _totals(file: sqlite3.Connection) -> Totals:
    entries, held_bytes = file.execute("select entries, bytes from totals").fetchone()
    return entries, held_bytes
