"""What was offered, selected and left out, and why: ids, digests and counts only.

Rules:
- Every candidate offered is in `entries` exactly once, with one of `REASONS`.
- Never content: no record text, no query, no free-text reason of a verdict.
- Entries: selected ones in placement order, then the others by source and id.
"""

import msgspec

from deuz_compiler.canonical import canonical_json, digest_bytes
from deuz_compiler.records.candidate import Requirement
from deuz_compiler.records.refusal import Refusal
from deuz_compiler.records.trace import SearchReport

MANIFEST_VERSION = 1


class ManifestEntry(msgspec.Struct, frozen=True, gc=False):
    """One candidate: `tokens` is what it costs in the block, selected or not."""

    source: str
    kind: str
    record_id: str
    revision: str
    digest: str
    tokens: int
    is_selected: bool
    reason: str
    requirement: Requirement
    is_projected: bool = False
    depends_on: tuple[str, ...] = ()


class SourceSummary(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """One source: `status` is `ok`, `empty`, `late`, `failed` or `skipped`."""

    source: str
    kind: str
    status: str
    selected: int
    excluded: int
    tokens: int
    error: str | None = None


class BudgetSummary(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """The budget of added context, and what of it was used."""

    context_tokens: int
    ceiling_tokens: int
    selected_tokens: int


class Manifest(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """The account of one compile."""

    version: int = MANIFEST_VERSION
    policy_version: str
    budget: BudgetSummary
    estimator: str
    refresh_reason: str
    pass_number: int
    query_digest: str
    fallback: str | None = None
    is_prefix_changed: bool = False
    is_redacted: bool = False
    sources: tuple[SourceSummary, ...] = ()
    entries: tuple[ManifestEntry, ...] = ()
    refusal: Refusal | None = None
    search: SearchReport | None = None

    def digest(self) -> str:
        """Return `sha256:` and hex over the canonical JSON of the whole manifest."""
        return digest_bytes(canonical_json(self))


class ContextWarning(msgspec.Struct, frozen=True, gc=False):
    """Something a manifest implies that an operator may want to hear."""

    code: str
    source: str
    error: str | None


def context_warnings(manifest: Manifest) -> tuple[ContextWarning, ...]:
    """Return the warnings a manifest implies: sources that failed or came late."""
    return tuple(
        ContextWarning(f"context-source-{source.status}", source.source, source.error)
        for source in manifest.sources
        if source.status in {"failed", "late"}
    )
