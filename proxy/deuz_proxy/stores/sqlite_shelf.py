"""The ledger's shelf in a SQLite file.

Rules:
- Reads and writes have a thread and a connection each: in WAL mode neither waits for
  the other, and the loop waits for no disk.
"""

import sqlite3
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import partial

from deuz_proxy.stores.bounds import Bounds
from deuz_proxy.stores.shelf import Committed, Found, Put, Reseal, Totals
from deuz_proxy.stores.sqlite_entries import (
    commit_entries,
    drop_entries,
    empty_log,
    read_entries,
    rewrite_entries,
)
from deuz_proxy.stores.sqlite_thread import SqliteThread

STORE = "sqlite"
_MOST_TRIES = 5


class SqliteShelf:
    """A `shelf.Shelf`; the threads are its owner's. Each method may raise `FAULTS`."""

    def __init__(self, reader: SqliteThread, writer: SqliteThread) -> None:
        self._reader = reader
        self._writer = writer

    async def read(self, keys: Sequence[bytes]) -> tuple[Found, Totals]:
        """Return what is there of the keys."""
        return await self._reader.submit(partial(read_entries, keys=keys))

    async def commit(
        self,
        puts: Sequence[Put],
        touched: Mapping[bytes, float],
        bounds: Bounds,
        now: float,
    ) -> Committed:
        """Note uses, put or remove each key, within the bounds: one transaction."""
        work = partial(
            commit_entries, puts=puts, touched=touched, bounds=bounds, now=now
        )
        return await self._writer.submit(work)

    async def drop(self, damaged: Sequence[tuple[bytes, bytes]]) -> None:
        """Remove keys that still hold just these bytes."""
        await self._writer.submit(partial(drop_entries, damaged=damaged))

    async def rewrite(self, reseal: Reseal) -> tuple[int, Totals]:
        """Change every entry, in pieces, so that commits need not wait for all of it.

        No old bytes are left, in the log neither.

        Raises:
            sqlite3.Error: it failed, or a log that others read could not be emptied.
        """
        changed, behind = 0, 0
        while True:
            work = partial(rewrite_entries, reseal=reseal, behind=behind)
            step = await self._writer.submit(work)
            changed += step.changed
            if step.last is None:
                await self._empty_log()
                return changed, step.totals
            behind = step.last

    async def _empty_log(self) -> None:
        # Each try waits a while by itself; commits come in between.
        for _ in range(_MOST_TRIES - 1):
            with suppress(sqlite3.OperationalError):
                await self._writer.submit(empty_log)
                return
        await self._writer.submit(empty_log)
