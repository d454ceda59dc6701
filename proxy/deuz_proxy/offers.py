"""From what the sources offered to a block: budget, selection, rendering, account.

Rules:
- An unknown window is not guessed: only the configured ceiling bounds what is added.
- Past the pass limit only mandatory records are offered.
- What is worked out of a config or of a record's names alone is kept: the same records
  are offered turn after turn.
- A block's form is fixed for its conversation: a new config must not change old bytes.
"""

from decimal import Decimal
from fractions import Fraction
from functools import cache, lru_cache, partial

import msgspec

from deuz_compiler import (
    AddedBudget,
    Append,
    BlockRecord,
    Candidate,
    Compilation,
    CompileFacts,
    Estimator,
    Manifest,
    Overhead,
    PlacedRecord,
    Policy,
    Share,
    SourceReport,
    Surface,
    TailCopy,
    added_budget,
    compile_context,
    escape_json_string,
    estimator_for,
    exact_ratio,
    plain_prefix,
    render_block,
    render_pieces,
    tokens_with,
    weigh_shares,
)
from deuz_compiler import BudgetWindow as Window
from deuz_proxy.calls import Call, Gathered, Known
from deuz_proxy.config.model import Config
from deuz_proxy.memory.records import MEMORY_SCOPE
from deuz_proxy.observe.events import Compile, RecordDecision, SourceOutcome
from deuz_proxy.overflows import free_tokens_of
from deuz_proxy.runtime import Runtime

# Of some hundred bytes each.
_MOST_LABELS = 4_096


def compile_gathered(
    call: Call,
    known: Known,
    surface: Surface,
    runtime: Runtime,
    *,
    free_tokens: int | None = None,
) -> Compilation:
    """Select among what the sources offered beside what is on the surface.

    `free_tokens` replaces what the window leaves.
    """
    gathered = known.gathered
    if gathered is None:
        raise ValueError("nothing was gathered")
    budget = _budget(call, known, surface, runtime, free_tokens)
    estimator = estimator_for(model_of(call))
    context = runtime.config.context
    policy = Policy(
        budget_tokens=budget.context_tokens,
        ceiling_tokens=budget.ceiling_tokens,
        shares=_weighed(tuple(context.budget.shares.items())),
        overhead=Overhead(block_tokens=_frame_tokens(estimator)),
        sources=tuple([source.id for source in context.sources]),
    )
    facts = CompileFacts(
        placed=surface.placed,
        sources=_reports(gathered, runtime.config),
        refresh_reason=gathered.refresh_reason,
        fallback=_fallback(gathered, known, context.refresh.max_passes),
        pass_number=len(surface.blocks) + 1,
        query_digest=gathered.query_digest,
        estimator=estimator.name,
        now=call.at,
    )
    offered = _within_limits(gathered, known, context.refresh.max_passes)
    return compile_context(
        [_labelled(candidate, estimator) for candidate in offered],
        policy,
        facts=facts,
        estimate=partial(runtime.estimates.count_text, estimator),
    )


@lru_cache(maxsize=16)
def _weighed(shares: tuple[tuple[str, Decimal], ...]) -> tuple[Share, ...]:
    return weigh_shares({kind: float(share) for kind, share in shares})


@lru_cache(maxsize=16)
def _exact(ratio: Decimal) -> Fraction:
    return exact_ratio(str(ratio))


@cache
def _frame_tokens(estimator: Estimator) -> int:
    return estimator.count_text(render_block(()))


def _labelled(candidate: Candidate, estimator: Estimator) -> Candidate:
    """Price what the block writes around the record: a budget means the block."""
    names = (
        candidate.source,
        candidate.kind,
        candidate.record_id,
        candidate.revision,
        candidate.origin,
    )
    tokens = _label_tokens(estimator, names)
    return msgspec.structs.replace(candidate, label_tokens=tokens)


@lru_cache(maxsize=_MOST_LABELS)
def _label_tokens(estimator: Estimator, names: tuple[str, str, str, str, str]) -> int:
    whole = estimator.count_text(render_block((BlockRecord(*names, ""),)))
    return max(0, whole - _frame_tokens(estimator))


def make_block(
    call: Call, known: Known, compilation: Compilation, runtime: Runtime
) -> Append | None:
    """Return the block of the selected records; None when nothing was selected."""
    if not compilation.selected:
        return None
    pieces = render_pieces([_block_record(c) for c in compilation.selected])
    estimator = estimator_for(model_of(call))
    return Append(
        text=escape_json_string("".join(pieces)),
        records=tuple([_placed(c) for c in compilation.selected]),
        tokens=runtime.estimates.count_pieces(estimator, pieces),
        form=form_of(call, known),
    )


def form_of(call: Call, known: Known) -> str:
    """Return the form of what is added; a change of config must not change it."""
    forms = [
        operation.form
        for operations in known.operations.values()
        for operation in operations
        if isinstance(operation, Append | TailCopy)
    ]
    return forms[0] if forms else call.target.placement


def model_of(call: Call) -> str:
    """Return the model that was asked for; "" where the body is not understood."""
    return call.envelope.model if call.envelope else ""


def describe_compile(
    manifest: Manifest,
    gathered: Gathered,
    *,
    started_at: float,
    duration_seconds: float,
) -> Compile:
    """Return the manifest as an event: ids, counts and reasons only."""
    seconds = {a.source: a.duration_seconds for a in gathered.answers}
    selected = [entry for entry in manifest.entries if entry.is_selected]
    return Compile(
        started_at=started_at,
        duration_seconds=duration_seconds,
        refresh_reason=manifest.refresh_reason,
        fallback=manifest.refusal.reason if manifest.refusal else manifest.fallback,
        selected=len(selected),
        excluded=len(manifest.entries) - len(selected),
        tokens=manifest.budget.selected_tokens,
        budget_tokens=manifest.budget.context_tokens,
        estimator=manifest.estimator,
        is_prefix_changed=manifest.is_prefix_changed,
        manifest_digest=manifest.digest(),
        sources=tuple(
            SourceOutcome(
                s.source,
                s.kind,
                s.status,
                seconds.get(s.source, 0.0),
                s.selected,
                s.excluded,
                s.tokens,
                s.error,
            )
            for s in manifest.sources
        ),
        records=tuple(
            RecordDecision(
                e.source,
                e.kind,
                e.record_id,
                e.revision,
                e.digest,
                e.tokens,
                e.is_selected,
                e.reason,
            )
            for e in manifest.entries
        ),
    )


def _budget(
    call: Call, known: Known, surface: Surface, runtime: Runtime, free: int | None
) -> AddedBudget:
    """Return the room for records: what working memory takes is not there twice."""
    budget = runtime.config.context.budget
    if call.envelope is None:
        raise ValueError("a request that is not understood has no budget")
    taken = known.tail.tokens if known.tail else 0
    most = max(0, budget.max_tokens - taken)
    if free is None:
        plain = plain_prefix(call.envelope, call.shared)
        used_tokens = tokens_with(plain, call.envelope, surface)
        free = free_tokens_of(call, used_tokens, runtime)
    if free is None:
        # No guess about an unknown window: only the configured ceiling bounds.
        return AddedBudget(most, most)
    return added_budget(
        Window(max(0, free - taken), 0),
        used_tokens=0,
        ratio=_exact(budget.ratio),
        max_tokens=most,
    )


def _within_limits(
    gathered: Gathered, known: Known, max_passes: int
) -> tuple[Candidate, ...]:
    if _passes(known) < max_passes:
        return gathered.candidates
    return tuple(c for c in gathered.candidates if c.is_mandatory)


def _passes(known: Known) -> int:
    return len(
        [
            operation
            for operations in known.operations.values()
            for operation in operations
            if isinstance(operation, Append)
        ]
    )


def _fallback(gathered: Gathered, known: Known, max_passes: int) -> str | None:
    if _passes(known) >= max_passes:
        return "pass-limit"
    statuses = [answer.status for answer in gathered.answers]
    if "failed" in statuses:
        return "source-failed"
    return "source-late" if "late" in statuses else None


def _reports(gathered: Gathered, config: Config) -> tuple[SourceReport, ...]:
    required = {source.id: source.required for source in config.context.sources}
    return tuple(
        [
            SourceReport(
                answer.source,
                answer.kind,
                answer.status,
                answer.error,
                required.get(answer.source, False),
            )
            for answer in gathered.answers
        ]
    )


def _block_record(candidate: Candidate) -> BlockRecord:
    return BlockRecord(
        candidate.source,
        candidate.kind,
        candidate.record_id,
        candidate.revision,
        candidate.origin,
        candidate.text,
    )


def _placed(candidate: Candidate) -> PlacedRecord:
    return PlacedRecord(
        candidate.source,
        candidate.record_id,
        candidate.revision,
        candidate.digest,
        dict(candidate.provenance).get(MEMORY_SCOPE, ""),
    )
