"""The manifest of a selection: every candidate once, every source summed up.

Rules:
- Selected ones come first, in placement order; then the others, by source and key; then
  those that never reached the engine, as they were offered.
- After a refusal nothing is selected: what was decided against keeps its reason, all
  else is `refused`.
- A name that is no text, of what never reached the engine, is written with U+FFFD.
- A source that failed, or else came late, is a fallback where none is given.
"""

from collections.abc import Sequence

import msgspec

from deuz_compiler.canonical import digest_text
from deuz_compiler.records import reasons
from deuz_compiler.records.candidate import Candidate
from deuz_compiler.records.facts import FAILURES, CompileFacts, SourceReport
from deuz_compiler.records.loading import encodable
from deuz_compiler.records.manifest import (
    BudgetSummary,
    Manifest,
    ManifestEntry,
    SourceSummary,
)
from deuz_compiler.records.policy import Policy
from deuz_compiler.records.refusal import Refusal
from deuz_compiler.records.trace import Decision
from deuz_compiler.selection.engine import Selection, ceiling_tokens
from deuz_compiler.selection.faults import Sifted
from deuz_compiler.selection.pool import Pool


def account(
    selection: Selection,
    pool: Pool,
    sifted: Sifted,
    *,
    policy: Policy,
    facts: CompileFacts,
) -> Manifest:
    """Return the manifest of a selection."""
    entries = _entries(selection, pool, sifted, sources=policy.sources)
    return Manifest(
        policy_version=policy.version,
        budget=BudgetSummary(
            context_tokens=policy.budget_tokens,
            ceiling_tokens=ceiling_tokens(policy),
            selected_tokens=selection.tokens,
        ),
        estimator=facts.estimator,
        refresh_reason=facts.refresh_reason,
        pass_number=facts.pass_number,
        query_digest=facts.query_digest,
        fallback=facts.fallback or _fallback(facts.sources),
        is_prefix_changed=facts.is_prefix_changed,
        is_redacted=facts.is_redacted,
        sources=_summaries(entries, facts.sources),
        entries=entries,
        refusal=_phased(selection.refusal, facts),
        search=selection.search,
    )


def _entries(
    selection: Selection, pool: Pool, sifted: Sifted, *, sources: Sequence[str]
) -> tuple[ManifestEntry, ...]:
    candidates, digests, decisions = pool.candidates, pool.digests, selection.decisions
    entries = []
    for node in selection.nodes:
        decision = decisions[node]
        tokens, candidate = decision.cost_tokens, candidates[node]
        entries.append(
            _entry(candidate, digests[node], decision.reason, tokens, decision)
        )
    is_refused = selection.refusal is not None
    for node in _left_out(selection, pool, sources):
        found, reason = decisions.get(node), reasons.REFUSED
        # After a refusal, what had been let in is refused like the rest.
        if found is not None and not (is_refused and found.is_selected):
            reason = found.reason
        entries.append(
            _entry(candidates[node], digests[node], reason, pool.costs[node])
        )
    for candidate, reason in sifted.excluded:
        shown = _encodable(candidate)
        entries.append(_entry(shown, shown.digest, reason, 0))
    return tuple(entries)


def _left_out(selection: Selection, pool: Pool, sources: Sequence[str]) -> list[int]:
    inside = frozenset(selection.nodes)
    outside = [node for node in range(len(pool)) if node not in inside]
    if not sources:
        return outside
    place = {source: order for order, source in enumerate(sources)}
    # Nodes stand in the order of their keys, and the sort keeps it.
    return sorted(
        outside, key=lambda n: place.get(pool.candidates[n].source, len(place))
    )


def _encodable(candidate: Candidate) -> Candidate:
    """Return a faulty candidate with names that JSON can hold."""
    return msgspec.structs.replace(
        candidate,
        source=encodable(candidate.source),
        kind=encodable(candidate.kind),
        record_id=encodable(candidate.record_id),
        revision=encodable(candidate.revision),
        digest=encodable(candidate.digest or digest_text(candidate.text)),
        depends_on=tuple([encodable(key) for key in candidate.depends_on]),
    )


def _entry(
    candidate: Candidate,
    digest: str,
    reason: str,
    tokens: int,
    selected: Decision | None = None,
) -> ManifestEntry:
    # By position, as decisions are: there is one of these for each record.
    return ManifestEntry(
        candidate.source,
        candidate.kind,
        candidate.record_id,
        candidate.revision,
        digest,
        tokens,
        selected is not None,
        reason,
        candidate.requirement,
        selected is not None and selected.is_projected,
        candidate.depends_on,
    )


def _fallback(reports: Sequence[SourceReport]) -> str | None:
    statuses = [report.status for report in reports]
    found = [f"source-{failure}" for failure in FAILURES if failure in statuses]
    return found[0] if found else None


def _phased(refusal: Refusal | None, facts: CompileFacts) -> Refusal | None:
    return refusal and msgspec.structs.replace(refusal, phase=facts.phase)


def _summaries(
    entries: Sequence[ManifestEntry], reports: Sequence[SourceReport]
) -> tuple[SourceSummary, ...]:
    """Sum up each reported source, then any that offered without a report."""
    offered: dict[str, list[ManifestEntry]] = {}
    for entry in entries:
        offered.setdefault(entry.source, []).append(entry)
    told = {report.source: report for report in reports}
    for source in sorted(offered):
        told.setdefault(source, SourceReport(source, offered[source][0].kind))
    return tuple([_summary(r, offered.get(r.source, [])) for r in told.values()])


def _summary(report: SourceReport, entries: Sequence[ManifestEntry]) -> SourceSummary:
    tokens = [entry.tokens for entry in entries if entry.is_selected]
    return SourceSummary(
        source=report.source,
        kind=report.kind,
        status=report.status,
        selected=len(tokens),
        excluded=len(entries) - len(tokens),
        tokens=sum(tokens),
        error=report.error,
    )
