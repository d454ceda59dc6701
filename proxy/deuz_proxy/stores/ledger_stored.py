"""The ledger over a store: a file that workers share, or a server that replicas share.

Rules:
- Reading is using, but only now and then written down: when the last use that the store
  knows of is a minute ago, or a tenth of the age.
- What is damaged is a miss, counted and removed; the request goes on.
- Every wait has its deadline, but for rewriting, which must be whole.
- A commit takes along as many uses as never make it late: else what could not be
  written for a while could never be written again.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import islice

from deuz_compiler import Operation, Reading
from deuz_proxy.stores.aside import Aside
from deuz_proxy.stores.bounds import Bounds
from deuz_proxy.stores.entries import (
    BARE,
    Change,
    open_entry,
    reseal_entry,
    seal_entry,
)
from deuz_proxy.stores.gate import Gate
from deuz_proxy.stores.shelf import Found, Put, Shelf, Totals

_LONGEST_TOUCH_SECONDS = 60.0
# 1,000 take a file or a server 5 to 10 ms.
_USES_AT_ONCE = 1_000


class StoredLedger:
    """A `ports.Ledger` on a shelf. One event loop uses it; other processes may, too.

    Shelf and `aside` are their owner's: `close` leaves them.
    """

    def __init__(
        self,
        shelf: Shelf,
        bounds: Bounds,
        *,
        reads: Gate,
        commits: Gate,
        aside: Aside,
        clock: Callable[[], float],
    ) -> None:
        self._shelf = shelf
        self._bounds = bounds
        self._reads = reads
        self._commits = commits
        self._aside = aside
        self._clock = clock
        self._touch_seconds = min(_LONGEST_TOUCH_SECONDS, bounds.ttl_seconds / 10)
        # Uses that the store does not know of yet.
        self._touched: dict[bytes, float] = {}

    def read_here(self, keys: Sequence[bytes], known: Reading | None = None) -> None:
        """Return None: a store is waited for."""

    def held_here(self, keys: Sequence[bytes]) -> None:
        """Return None, too."""

    async def read(self, keys: Sequence[bytes]) -> Sequence[tuple[Operation, ...]]:
        """Return one tuple for each key, empty where nothing is stored."""
        if not keys:
            return []
        # As of now: what is on its way to the store may have arrived when it is read.
        touched = dict(self._touched)
        rows, totals = await self._reads.ask(partial(self._shelf.read, keys))
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
            Put(key, seal_entry(key, held) if held else b"", held == BARE)
            for key, held in operations.items()
        ]
        await self._commit(puts)

    async def rewrite(self, change: Change) -> int:
        """Change what each key holds; places and times of last use stay.

        Raises:
            StoreFailed: it failed; some entries may have been changed.
        """
        reseal = partial(reseal_entry, change=change)
        changed, totals = await self._commits.ask_for_long(
            partial(self._shelf.rewrite, reseal), op="rewrite"
        )
        self._commits.say("rewrite", changed, totals)
        return changed

    async def close(self) -> None:
        """Forget nothing. May be called twice."""

    async def _note_uses(self) -> None:
        while self._touched:
            await self._commit(())

    async def _commit(self, puts: Sequence[Put]) -> None:
        # The oldest first: those are the next to be put out.
        touched = dict(islice(self._touched.items(), _USES_AT_ONCE))
        now = self._clock()
        done = await self._commits.ask(
            partial(self._shelf.commit, puts, touched, self._bounds, now)
        )
        for key, at in touched.items():
            if self._touched.get(key) == at:
                del self._touched[key]
        if puts:
            self._commits.say("commit", len(puts) - done.refused, done.totals)
        if done.refused:
            self._commits.say("commit", done.refused, done.totals, status="full")
        if done.evicted:
            self._commits.say("evict", done.evicted, done.totals)

    def _opened(
        self, rows: Found, touched: Mapping[bytes, float], totals: Totals
    ) -> dict[bytes, tuple[Operation, ...]]:
        now = self._clock()
        is_stale = False
        oldest, stale = now - self._bounds.ttl_seconds, now - self._touch_seconds
        found: dict[bytes, tuple[Operation, ...]] = {}
        damaged: list[tuple[bytes, bytes]] = []
        for key, (used_at, sealed) in rows.items():
            last = max(used_at, touched.get(key, used_at))
            if last <= oldest:
                continue
            operations = open_entry(key, sealed)
            if operations is None:
                damaged.append((key, sealed))
                continue
            found[key] = operations
            if last <= stale:
                is_stale = True
                if len(self._touched) < self._bounds.max_entries:
                    self._touched[key] = now
        if damaged:
            self._reads.say("read", len(damaged), totals, status="damaged")
            drop = partial(self._shelf.drop, damaged)
            self._aside.add(partial(self._commits.ask, drop))
        if is_stale:
            self._aside.add(self._note_uses)
        return found
