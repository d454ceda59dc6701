"""Memory in one SQLite file, or in this process: records with full-text search, notes.

Rules:
- One thread owns the connection; other processes may use the same file.
- SQLite's own faults become `StoreFailed` here.
"""

import asyncio
import sqlite3
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from deuz_proxy.errors import StoreFailed, StoreUnusable
from deuz_proxy.memory.records import Draft, Hit, Record
from deuz_proxy.stores.memory_file import MemoryFile
from deuz_proxy.stores.memory_terms import Words

STORE = "memory"

_Answer = TypeVar("_Answer")


class SqliteMemory:
    """A `memory.records.Records` and `Notes`; `location` is a path or `:memory:`."""

    def __init__(self, location: str, *, words_of: Words) -> None:
        self._location = location
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="memory")
        self._file: MemoryFile
        self._words_of = words_of
        self._is_closed = False

    async def open(self) -> "SqliteMemory":
        """Open the file, and make it what this version reads.

        Raises:
            StoreUnusable: it cannot be opened, or is no memory of this version.
        """
        loop = asyncio.get_running_loop()
        try:
            self._file = await loop.run_in_executor(
                self._thread, MemoryFile, self._location, self._words_of
            )
        except (sqlite3.Error, OSError) as error:
            self._thread.shutdown()
            # An `OSError` tells its number and the path, too.
            reason = (getattr(error, "strerror", None) or str(error)).lower()
            raise StoreUnusable(store=self._location, reason=reason) from error
        return self

    async def put(self, scope: str, draft: Draft, *, now: float) -> Record:
        """Keep the record; an equal text keeps its revision."""
        return await self._run("put", lambda: self._file.put(scope, draft, now))

    async def get(self, scope: str, record_id: str, *, now: float) -> Record | None:
        """Return the record, if it is there."""
        found = await self._list("AND id = :id", scope, now, id=record_id)
        return found[0] if found else None

    async def page(
        self, scope: str, *, after: str, limit: int, now: float
    ) -> Sequence[Record]:
        """Return records by id, those behind `after` first."""
        rest = "AND id > :after ORDER BY id LIMIT :limit"
        return await self._list(rest, scope, now, after=after, limit=limit)

    async def mandatory(self, scope: str, *, now: float) -> Sequence[Record]:
        """Return the records that must always be placed, by id."""
        return await self._list("AND mandatory ORDER BY id", scope, now)

    async def search(
        self, scope: str, text: str, *, limit: int, now: float
    ) -> Sequence[Hit]:
        """Return what shares words with the text, the best first."""
        work = self._file.search
        return await self._run("search", lambda: work(scope, text, limit, now))

    async def drop(self, scope: str, ids: Sequence[str], *, now: float) -> int:
        """Remove records so that nothing of them is left in the file."""
        return await self._run("drop", lambda: self._file.drop(scope, ids, now))

    async def trim(self, scope: str, *, most_in_scope: int, most: int) -> int:
        """Remove the oldest records over the bounds; return how many."""
        work = self._file.trim
        return await self._run("trim", lambda: work(scope, most_in_scope, most))

    async def dropped(
        self, scope: str, ids: Sequence[str], *, since: float
    ) -> Sequence[str]:
        """Return which of the ids were dropped at that time or later."""
        return await self._run("read", lambda: self._file.dropped(scope, ids, since))

    async def load(self, scope: str, key: str) -> bytes | None:
        """Return the notes under a key."""
        return await self._run("load", lambda: self._file.load(scope, key))

    async def has_any(self) -> bool:
        """Tell whether there are any notes."""
        return await self._run("load", self._file.has_any)

    async def swap(
        self, scope: str, key: str, *, old: bytes | None, new: bytes | None
    ) -> bool:
        """Put notes in the place of others; False: they are other ones by now."""
        return await self._run("swap", lambda: self._file.swap(scope, key, old, new))

    async def close(self) -> None:
        """Close the file. May be called twice."""
        if not self._is_closed:
            self._is_closed = True
            self._thread.submit(self._file.close)
            await asyncio.to_thread(self._thread.shutdown, wait=True)

    async def _list(
        self, rest: str, scope: str, now: float, **values: object
    ) -> Sequence[Record]:
        named = {"scope": scope, "now": now, **values}
        return await self._run("read", lambda: self._file.list(rest, named))

    async def _run(self, operation: str, work: Callable[[], _Answer]) -> _Answer:
        if self._is_closed:
            raise StoreFailed(store=STORE, operation=operation)
        loop = asyncio.get_running_loop()
        try:
            return await loop.run_in_executor(self._thread, work)
        except sqlite3.Error as error:
            raise StoreFailed(store=STORE, operation=operation) from error
