"""What a compile must know beside its candidates and its policy.

Rules:
- Time, reasons and counts are arguments: the compiler asks nobody.
- The query is the user's text and stays out; its digest stands for it.
- `error` of a source is a stable code, never a message.
"""

from typing import Literal

import msgspec

SourceStatus = Literal["ok", "empty", "late", "failed", "skipped"]

FAILURES: tuple[SourceStatus, ...] = ("failed", "late")
ANSWERS: tuple[SourceStatus, ...] = ("ok", "empty")


class PlacedRecord(msgspec.Struct, frozen=True, gc=False, forbid_unknown_fields=True):
    """A record that is on the surface already; `digest` is of its full text.

    `scope` is whose record of the memory store it is; other records have none.
    """

    source: str
    record_id: str
    revision: str = ""
    digest: str = ""
    scope: str = ""

    @property
    def key(self) -> str:
        """The name the record would have as a candidate."""
        return f"{self.source}/{self.record_id}" if self.source else self.record_id


class SourceReport(msgspec.Struct, frozen=True, gc=False, forbid_unknown_fields=True):
    """How one source answered."""

    source: str
    kind: str
    status: SourceStatus = "ok"
    error: str | None = None
    is_required: bool = False


class CompileFacts(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """The situation of one compile.

    `now` is in Unix seconds; without it nothing expires. `phase` goes into a refusal.
    """

    placed: tuple[PlacedRecord, ...] = ()
    sources: tuple[SourceReport, ...] = ()
    refresh_reason: str = "initial"
    fallback: str | None = None
    pass_number: int = 1
    query_digest: str = ""
    estimator: str = "heuristic"
    now: float | None = None
    is_prefix_changed: bool = False
    is_redacted: bool = False
    phase: Literal["compile", "overflow-retry"] = "compile"
