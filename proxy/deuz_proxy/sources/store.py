"""The memory store as a source: records of the caller's scope that fit the question.

Rules:
- Mandatory records are offered beyond any limit; others by score, then by id.
- Only the very scope of the request is asked: a tenant's records are not its users'.
- A candidate says whose record it is, so that forgetting finds where it was placed.
"""

import asyncio
from collections.abc import Callable, Sequence

from deuz_compiler import Candidate
from deuz_proxy.config.memory import StoreSource
from deuz_proxy.memory.records import MEMORY_SCOPE, Record, Records
from deuz_proxy.ports import Query


class StoredRecords:
    """A `ports.Source` over the memory store. `clock` is Unix time."""

    def __init__(
        self, config: StoreSource, records: Records, *, clock: Callable[[], float]
    ) -> None:
        self.id = config.id
        self.kind: str = config.kind
        self.is_required = config.required
        self.gives_mandatory = True
        self._min_score = float(config.min_score)
        self._records = records
        self._clock = clock

    async def find(self, query: Query) -> Sequence[Candidate]:
        """Return every mandatory record of the scope, then others up to the limit.

        Raises:
            StoreFailed: the store did not answer.
        """
        now, scope = self._clock(), query.scope
        pinned, hits = await asyncio.gather(
            self._records.mandatory(scope, now=now),
            self._records.search(scope, query.text, limit=query.limit, now=now),
        )
        offered = [self._candidate(scope, record, 1.0) for record in pinned]
        room = max(0, query.limit - len(offered))
        fitting = [
            self._candidate(scope, hit.record, hit.score)
            for hit in hits
            if hit.score >= self._min_score and not hit.record.draft.mandatory
        ]
        return (*offered, *fitting[:room])

    async def close(self) -> None:
        """Nothing is held: the store is closed by who opened it."""

    def _candidate(self, scope: str, record: Record, score: float) -> Candidate:
        draft = record.draft
        return Candidate(
            source=self.id,
            kind=self.kind,
            record_id=draft.id,
            text=draft.text,
            revision=str(record.revision),
            digest=record.digest,
            score=score,
            requirement="mandatory" if draft.mandatory else "discretionary",
            expires_at=draft.expires_at,
            origin=draft.origin,
            source_kinds=draft.source_kinds,
            provenance=((MEMORY_SCOPE, scope),),
        )
