"""The ledger in a SQLite file: it outlives the process, and workers share it.

Rules:
- Reads and writes have a thread and a connection each: in WAL mode neither waits for
  the other.
- Reading is using, but only now and then written down: when the last use that the file
  knows of is a minute ago, or a tenth of the age.
- What is damaged is a miss, counted and removed; the request goes on.
"""

import asyncio
import sqlite3
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from deuz_compiler import Operation
from deuz_proxy.errors import StoreFailed
from deuz_proxy.stores.bounds import Bounds
from deuz_proxy.stores.entries import (
    BARE,
    Change,
    open_entry,
    reseal_entry,
    seal_entry,
)
from deuz_proxy.stores.gate import Gate
from deuz_proxy.stores.sqlite_entries import (
    Committed,
    Rewritten,
    Totals,
    commit_entries,
    drop_entries,
    empty_log,
    read_entries,
    rewrite_entries,
    touch_entries,
)
from deuz_proxy.stores.sqlite_thread import SqliteThread

STORE = "sqlite"
_LONGEST_TOUCH_SECONDS = 60.0


class SqliteLedger:
    """A `ports.Ledger` in a file. One event loop uses it; other processes may, too.

    The threads are its owner's: `close` leaves them.
    """

    def __init__(
        self,
        reader: SqliteThread,
        writer: SqliteThread,
        bounds: Bounds,
        *,
        reads: Gate,
        commits: Gate,
        clock: Callable[[], float],
    ) -> None:
        self._reader = reader
        self._writer = writer
        self._bounds = bounds
        self._reads = reads
        self._commits = commits
        self._clock = clock
        self._touch_seconds = min(_LONGEST_TOUCH_SECONDS, bounds.ttl_seconds / 10)
        # Uses on their way to the file; bounded by the jobs that may wait.
        self._touched: dict[bytes, float] = {}

    async def read(self, keys: Sequence[bytes]) -> Sequence[tuple[Operation, ...]]:
        """Return one tuple for each key, empty where nothing is stored."""
        if not keys:
            return []
        # As of now: what is on its way to the file may be there or not when it is read.
        touched = dict(self._touched)
        rows, totals = await self._reads.ask(
            lambda: self._reader.submit(partial(read_entries, keys=keys))
        )
        found = self._opened(rows, touched, totals)
        self._reads.say("read", len(found), totals)
        return [found.get(key, ()) for key in keys]

    async def commit(self, operations: Mapping[bytes, tuple[Operation, ...]]) -> None:
        """Replace what each key holds; an empty tuple removes the key.

        An entry larger than the whole ledger is not kept, and told as `full`.
        """
        if not operations:
            return
        puts = [
            (key, seal_entry(key, held) if held else b"", held == BARE)
            for key, held in operations.items()
        ]
        work = partial(
            commit_entries, puts=puts, bounds=self._bounds, now=self._clock()
        )
        done: Committed = await self._commits.ask(lambda: self._writer.submit(work))
        self._commits.say("commit", len(puts) - done.refused, done.totals)
        if done.refused:
            self._commits.say("commit", done.refused, done.totals, status="full")
        if done.evicted:
            self._commits.say("evict", done.evicted, done.totals)

    async def rewrite(self, change: Change) -> int:
        """Change what each key holds; places and times of last use stay.

        In pieces, so that commits need not wait for all of it; has no deadline.
        """
        changed, behind = 0, 0
        reseal = partial(reseal_entry, change=change)
        while True:
            work = partial(rewrite_entries, reseal=reseal, behind=behind)
            step: Rewritten = await self._write("rewrite", work)
            changed += step.changed
            if step.last is None:
                break
            behind = step.last
        await self._write("rewrite", empty_log)
        self._commits.say("rewrite", changed, step.totals)
        return changed

    async def close(self) -> None:
        """Forget nothing. May be called twice."""

    async def _write(self, op: str, work: Callable[[sqlite3.Connection], Any]) -> Any:
        try:
            return await self._writer.submit(work)
        except sqlite3.Error as fault:
            raise StoreFailed(store=STORE, operation=op) from fault

    def _opened(
        self,
        rows: Mapping[bytes, tuple[float, bytes]],
        touched: Mapping[bytes, float],
        totals: Totals,
    ) -> dict[bytes, tuple[Operation, ...]]:
        now = self._clock()
        oldest, stale = now - self._bounds.ttl_seconds, now - self._touch_seconds
        found: dict[bytes, tuple[Operation, ...]] = {}
        used: list[bytes] = []
        damaged: list[tuple[bytes, bytes]] = []
        for key, (used_at, sealed) in rows.items():
            last = max(used_at, touched.get(key, used_at))
            if last <= oldest:
                continue
            operations = open_entry(key, sealed)
            if operations is None:
                damaged.append((key, sealed))
            else:
                found[key] = operations
                if last <= stale:
                    used.append(key)
        if used:
            self._touch(used, now)
        if damaged:
            self._reads.say("read", len(damaged), totals, status="damaged")
            self._aside(partial(drop_entries, damaged=damaged))
        return found

    def _touch(self, used: Sequence[bytes], now: float) -> None:
        self._touched.update(dict.fromkeys(used, now))
        future = self._aside(partial(touch_entries, keys=used, now=now))

        def forget(_: object) -> None:
            for key in used:
                if self._touched.get(key) == now:
                    del self._touched[key]

        if future is None:
            forget(None)
        else:
            future.add_done_callback(forget)

    def _aside(
        self, work: Callable[[sqlite3.Connection], None]
    ) -> asyncio.Future[None] | None:
        """Have it done off the request's way; what fails here costs no request."""
        try:
            future = self._writer.submit(work)
        except sqlite3.Error:
            return None
        future.add_done_callback(_ignore_fault)
        return future


def _ignore_fault(future: asyncio.Future[None]) -> None:
    if not future.cancelled():
        future.exception()
