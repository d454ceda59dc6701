"""Records that stand in the config: always the same, offered at every refresh.

Rules:
- Mandatory records are offered beyond any limit; others by score, then by id.
- Candidates are made once: the same record has the same bytes for the process's life.
"""

import hashlib
from collections.abc import Sequence

from deuz_compiler import Candidate
from deuz_proxy.config.context import StaticRecord, StaticSource
from deuz_proxy.ports import Query


class StaticRecords:
    """A source over the records of the config."""

    def __init__(self, config: StaticSource) -> None:
        self.id = config.id
        self.kind: str = config.kind
        self.is_required = config.required
        offered = [_candidate(config, record) for record in config.records]
        offered.sort(key=lambda record: (-record.score, record.record_id))
        self._mandatory = tuple(each for each in offered if each.is_mandatory)
        self._optional = tuple(each for each in offered if not each.is_mandatory)
        self.gives_mandatory = bool(self._mandatory)

    async def find(self, query: Query) -> Sequence[Candidate]:
        """Return every mandatory record, then others up to the limit."""
        return self.find_here(query)

    def find_here(self, query: Query) -> Sequence[Candidate]:
        """Do as `find`."""
        room = max(0, query.limit - len(self._mandatory))
        return (*self._mandatory, *self._optional[:room])

    async def close(self) -> None:
        """Nothing is held."""


def text_digest(text: str) -> str:
    """Return `sha256:` and the hex digest of the text in UTF-8."""
    return f"sha256:{hashlib.sha256(text.encode()).hexdigest()}"


def _candidate(source: StaticSource, record: StaticRecord) -> Candidate:
    digest = text_digest(record.text)
    return Candidate(
        source=source.id,
        kind=source.kind,
        record_id=record.id,
        text=record.text,
        # Twelve digits tell versions of one record apart; nobody attacks them here.
        revision=record.revision or digest.removeprefix("sha256:")[:12],
        digest=digest,
        score=float(record.score),
        requirement="mandatory" if record.mandatory else "discretionary",
        priority=record.priority,
        origin=record.origin,
        source_kinds=record.source_kinds,
    )
