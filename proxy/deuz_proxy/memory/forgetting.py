"""Memory as its owner uses it: remember, and forget wherever a record was placed.

Rules:
- Forgetting takes a record out of the store, then out of the blocks of live
  conversations, with the summaries that may repeat it; doing it twice is doing it once.
- A request that was under way may still hold the text: what it commits afterwards is
  compared with what was forgotten since it began. Commit first, then look: whichever of
  the two is late sees the other.
"""

import asyncio
import math
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import chain
from typing import Protocol

from deuz_compiler import Operation, records_of, redact_operations
from deuz_proxy.errors import StoreFailed
from deuz_proxy.memory.records import Draft, Record, Records
from deuz_proxy.ports import Ledger

_PAGE = 500

Commits = Mapping[bytes, tuple[Operation, ...]]


@dataclass(frozen=True, slots=True)
class Forgotten:
    """How many records were there, and how many blocks and summaries lost one."""

    forgotten: int
    placements_redacted: int


class Forgettable(Protocol):
    """Another store of records: what forgetting asks of it, as of `Records`."""

    async def page(
        self, scope: str, *, after: str, limit: int, now: float
    ) -> Sequence[Record]:
        """Return records by id, those behind `after` first."""

    async def drop(self, scope: str, ids: Sequence[str], *, now: float) -> int:
        """Remove records so that nothing of them is left."""

    async def dropped(
        self, scope: str, ids: Sequence[str], *, since: float
    ) -> Sequence[str]:
        """Return which of the ids were dropped at that time or later."""


class _Any:
    """All ids."""

    def __contains__(self, _: object) -> bool:
        return True


class Memory:
    """Records of all scopes and where they were placed. `clock` is Unix time.

    `others` gives further stores that are forgotten from: what was said before.
    """

    def __init__(
        self,
        records: Records,
        ledger: Ledger,
        *,
        clock: Callable[[], float],
        others: Callable[[], Iterable[Forgettable]] = tuple,
    ) -> None:
        self.records = records
        self._others = others
        self._ledger = ledger
        self.clock = clock

    async def remember(self, scope: str, draft: Draft) -> Record:
        """Keep a record; what was placed of an older text stays as it was placed.

        Raises:
            StoreFailed: the store did not answer.
        """
        return await self.records.put(scope, draft, now=self.clock())

    async def forget(self, scope: str, ids: Sequence[str]) -> Forgotten:
        """Remove records everywhere at once.

        Raises:
            StoreFailed: a store did not answer; what is left is gone at the next try.
        """
        forgotten = 0
        for store in (self.records, *self._others()):
            forgotten += await self._drop(store, scope, ids)
        return Forgotten(forgotten, await self._redact(scope, frozenset(ids)))

    async def forget_scope(self, scope: str) -> Forgotten:
        """Remove all records of a scope everywhere, expired ones too.

        Raises:
            StoreFailed: a store did not answer; what is left is gone at the next try.
        """
        forgotten = 0
        for store in (self.records, *self._others()):
            ids: Sequence[str] | None = None
            # Once more than there are pages: what expired may have left something.
            while ids is None or ids:
                page = await store.page(scope, after="", limit=_PAGE, now=-math.inf)
                ids = [record.id for record in page]
                forgotten += await self._drop(store, scope, ids)
        return Forgotten(forgotten, await self._redact(scope, _Any()))

    async def _drop(self, store: Forgettable, scope: str, ids: Sequence[str]) -> int:
        """Remove records, and note that by a time at which they were gone."""
        dropped = await store.drop(scope, ids, now=self.clock())
        # Who began while they were being removed may have found them, too.
        return dropped + await store.drop(scope, ids, now=self.clock())

    async def _redact(self, scope: str, ids: Container[str]) -> int:
        return await self._ledger.rewrite(
            lambda held: redact_operations(held, scope, ids)
        )

    async def look_after(self, committed: Commits, *, since: float) -> None:
        """Take out of what was just committed what was forgotten since `since`.

        Raises:
            StoreFailed: a store did not answer.
        """
        try:
            await self._look(committed, since)
        except asyncio.CancelledError:
            # A client that leaves now must not bring back what was forgotten.
            with suppress(StoreFailed):
                await self._look(committed, since)
            raise

    async def _look(self, committed: Commits, since: float) -> None:
        while late := await self._late(committed, since):
            # That is a commit, too: what was forgotten meanwhile would come back by it.
            await self._ledger.commit(late)
            committed = late

    async def _late(self, committed: Commits, since: float) -> Commits:
        """Return what of the commits is to be replaced, without what was forgotten."""
        left = dict(committed)
        for scope, ids in _placed(committed.values()).items():
            gone: list[str] = []
            for store in (self.records, *self._others()):
                gone += await store.dropped(scope, ids, since=since)
            for key, held in left.items():
                left[key] = redact_operations(held, scope, gone)
        return {key: held for key, held in left.items() if held is not committed[key]}


def _placed(
    committed: Iterable[tuple[Operation, ...]],
) -> dict[str, tuple[str, ...]]:
    """Return the ids of the store's records in the operations, by scope."""
    found: dict[str, tuple[str, ...]] = {}
    for record in records_of(chain.from_iterable(committed)):
        found[record.scope] = (*found.get(record.scope, ()), record.record_id)
    return found
