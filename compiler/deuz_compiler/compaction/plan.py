"""Plan how a conversation becomes smaller: which layers, on which turns.

Rules:
- Layers run in the order of the policy and stop as soon as the estimate is under the
  target; without a target each runs once.
- The history is never changed: a plan says what to replace. The same history gives the
  same plan, and the plan of a planned history is empty.
- What no layer can make fit is known before anything is tried.
- All counts are estimates on one scale; a caller that knows better scales the target
  and the window, not the turns.
"""

from collections.abc import Sequence

import msgspec

from deuz_compiler.compaction.fold import Folded, FoldRun, choose_fold
from deuz_compiler.compaction.history import History
from deuz_compiler.compaction.protect import first_user, protected_turns
from deuz_compiler.compaction.prune import Pruned, prune_reasoning, prune_results
from deuz_compiler.tokens.estimate import estimate_text

PRUNE_TOOL_RESULTS = "prune-tool-results"
PRUNE_REASONING = "prune-reasoning"
SUMMARIZE = "summarize"
LAYERS = (PRUNE_TOOL_RESULTS, PRUNE_REASONING, SUMMARIZE)
# What a summary is expected to cost before it is written.
_SUMMARY_TOKENS = 1024
_PRUNERS = {PRUNE_TOOL_RESULTS: prune_results, PRUNE_REASONING: prune_reasoning}


class CompactionPolicy(msgspec.Struct, frozen=True):
    """How far to go. `fixed_tokens` is what stands beside the turns: system and tools.

    Without `target_tokens` every layer runs; without `window_tokens` all may fit.
    """

    layers: tuple[str, ...] = LAYERS
    keep_recent_steps: int = 4
    target_tokens: int | None = None
    window_tokens: int | None = None
    fixed_tokens: int = 0
    must_alternate: bool = False


class LayerEffect(msgspec.Struct, frozen=True):
    """One layer that changes something; `tokens_after` is an estimate."""

    layer: str
    tokens_before: int
    tokens_after: int


class Plan(msgspec.Struct, frozen=True):
    """What to replace; with `cannot_fit`, nothing: trying would be pointless."""

    prunes: tuple[Pruned, ...] = ()
    fold: FoldRun | None = None
    effects: tuple[LayerEffect, ...] = ()
    cannot_fit: bool = False

    @property
    def is_empty(self) -> bool:
        """Tell whether nothing would change."""
        return not self.prunes and self.fold is None


def plan_recovery(
    history: History, policy: CompactionPolicy, *, known: Folded | None = None
) -> Plan:
    """Return what makes the history smaller; `known` is a fold already in force."""
    if _cannot_fit(history, policy):
        return Plan(cannot_fit=True)
    protected = protected_turns(history, policy.keep_recent_steps)
    is_kept = [kept or _is_within(known, at) for at, kept in enumerate(protected)]
    tokens = policy.fixed_tokens + _surface_tokens(history, known)
    prunes: tuple[Pruned, ...] = ()
    fold: FoldRun | None = None
    effects: list[LayerEffect] = []
    for layer in policy.layers:
        if policy.target_tokens is not None and tokens <= policy.target_tokens:
            break
        if layer == SUMMARIZE:
            fold = _chosen_fold(history, prunes, policy, known)
            saved = _fold_saving(fold)
        else:
            found = _PRUNERS[layer](history, is_kept)
            prunes += found
            saved = sum(pruned.saved_tokens for pruned in found)
        if saved:
            effects.append(LayerEffect(layer, tokens, tokens - saved))
            tokens -= saved
    return Plan(prunes, fold, tuple(effects))


def _cannot_fit(history: History, policy: CompactionPolicy) -> bool:
    """Tell whether what no layer touches is larger than the window by itself."""
    if policy.window_tokens is None:
        return False
    kept = {first_user(history), len(history) - 1}
    floor = policy.fixed_tokens + sum(
        view.turn.tokens
        for index, view in enumerate(history)
        if index in kept or view.turn.role == "system"
    )
    return floor > policy.window_tokens


def _is_within(known: Folded | None, at: int) -> bool:
    return known is not None and known.first <= at <= known.last


def _surface_tokens(history: History, known: Folded | None) -> int:
    seen = sum(
        view.turn.tokens
        for index, view in enumerate(history)
        if not _is_within(known, index)
    )
    return seen + (estimate_text(known.summary) if known else 0)


def _chosen_fold(
    history: History,
    prunes: Sequence[Pruned],
    policy: CompactionPolicy,
    known: Folded | None,
) -> FoldRun | None:
    """Return the fold, priced as what the pruned turns still cost."""
    fold = choose_fold(
        history,
        protected_turns(history, policy.keep_recent_steps),
        known=known,
        must_alternate=policy.must_alternate,
    )
    if fold is None:
        return None
    saved = sum(p.saved_tokens for p in prunes if fold.first <= p.turn <= fold.last)
    return msgspec.structs.replace(
        fold, replaced_tokens=max(0, fold.replaced_tokens - saved)
    )


def _fold_saving(fold: FoldRun | None) -> int:
    replaced = fold.replaced_tokens if fold else 0
    return replaced - min(_SUMMARY_TOKENS, replaced // 4)
