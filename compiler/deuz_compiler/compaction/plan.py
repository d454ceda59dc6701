"""Plan how a conversation becomes smaller: which layers, on which turns.

Rules:
- Layers run in the order of the policy and stop as soon as the estimate is under the
  target; without a target each runs once.
- The history is never changed: a plan says what to replace. The same history gives the
  same plan, and the plan of a planned history is empty.
- What no layer can make fit is known before anything is tried.
- A model that binds thinking to all before it gets one summary of everything, or
  nothing: no layer edits the middle of its history. A layer left out is reported.
- All counts are estimates on one scale; a caller that knows better scales the target
  and the window, not the turns.
"""

from collections.abc import Sequence

import msgspec

from deuz_compiler.compaction.fold import Folded, FoldRun, choose_fold
from deuz_compiler.compaction.history import History
from deuz_compiler.compaction.protect import first_user, protected_turns
from deuz_compiler.compaction.prune import Pruned, prune_reasoning, prune_results
from deuz_compiler.compaction.shorten import HeadTail
from deuz_compiler.compaction.whole import choose_whole
from deuz_compiler.tokens.estimate import estimate_text

PRUNE_TOOL_RESULTS = "prune-tool-results"
PRUNE_REASONING = "prune-reasoning"
SUMMARIZE = "summarize"
LAYERS = (PRUNE_TOOL_RESULTS, PRUNE_REASONING, SUMMARIZE)
BINDS_THINKING = "binds_thinking"
# For whoever wants results to stay readable: 8192 characters are about 2000 tokens, a
# long file or log, whose start says what it is and whose end how it came out.
READABLE_RESULTS = HeadTail()
# What a summary is expected to cost before it is written.
_SUMMARY_TOKENS = 1024


class CompactionPolicy(msgspec.Struct, frozen=True, gc=False):
    """How far to go. `fixed_tokens` is what stands beside the turns: system and tools.

    Without `target_tokens` every layer runs; without `window_tokens` all may fit.
    With `results` long tool results keep head and tail, without they become stubs.
    `binds_thinking` is the model's: it refuses thinking behind a changed prefix.
    """

    layers: tuple[str, ...] = LAYERS
    keep_recent_steps: int = 4
    target_tokens: int | None = None
    window_tokens: int | None = None
    fixed_tokens: int = 0
    must_alternate: bool = False
    results: HeadTail | None = None
    binds_thinking: bool = False


class LayerEffect(msgspec.Struct, frozen=True, gc=False):
    """One layer that changes something; `tokens_after` is an estimate."""

    layer: str
    tokens_before: int
    tokens_after: int


class SkippedLayer(msgspec.Struct, frozen=True, gc=False):
    """A layer of the policy that must not run, and why."""

    layer: str
    reason: str


class Plan(msgspec.Struct, frozen=True, gc=False):
    """What to replace; with `cannot_fit`, nothing: trying would be pointless."""

    prunes: tuple[Pruned, ...] = ()
    fold: FoldRun | None = None
    effects: tuple[LayerEffect, ...] = ()
    cannot_fit: bool = False
    skipped: tuple[SkippedLayer, ...] = ()

    @property
    def is_empty(self) -> bool:
        """Tell whether nothing would change."""
        return not self.prunes and self.fold is None


def plan_recovery(
    history: History, policy: CompactionPolicy, *, known: Folded | None = None
) -> Plan:
    """Return what makes the history smaller; `known` is a fold already in force."""
    if policy.binds_thinking:
        return _plan_whole(history, policy, known)
    if _cannot_fit(history, policy, _untouched(history)):
        return Plan(cannot_fit=True)
    return _plan_layers(history, policy, known)


def _plan_layers(
    history: History, policy: CompactionPolicy, known: Folded | None
) -> Plan:
    tokens = policy.fixed_tokens + _surface_tokens(history, known)
    prunes: tuple[Pruned, ...] = ()
    fold: FoldRun | None = None
    effects: list[LayerEffect] = []
    for layer in policy.layers:
        if _is_met(policy, tokens):
            break
        if layer == SUMMARIZE:
            fold = _chosen_fold(history, prunes, policy, known)
            saved = _fold_saving(fold)
        else:
            found = _pruned(layer, history, policy, known)
            prunes += found
            saved = sum(pruned.saved_tokens for pruned in found)
        if saved:
            effects.append(LayerEffect(layer, tokens, tokens - saved))
            tokens -= saved
    return Plan(prunes, fold, tuple(effects))


def _plan_whole(
    history: History, policy: CompactionPolicy, known: Folded | None
) -> Plan:
    """Plan the one pass of such a model; other layers fold into the summary."""
    if SUMMARIZE not in policy.layers:
        skipped = (SkippedLayer(layer, BINDS_THINKING) for layer in policy.layers)
        return Plan(skipped=tuple(skipped))
    fold = choose_whole(history, known=known, must_alternate=policy.must_alternate)
    stays = [at for at in range(len(history)) if fold is None or fold.leaves(at)]
    if _cannot_fit(history, policy, stays):
        return Plan(cannot_fit=True)
    tokens = policy.fixed_tokens + _surface_tokens(history, known)
    if fold is None or _is_met(policy, tokens):
        return Plan()
    saved = _fold_saving(fold)
    effects = (LayerEffect(SUMMARIZE, tokens, tokens - saved),) if saved else ()
    return Plan(fold=fold, effects=effects)


def _is_met(policy: CompactionPolicy, tokens: int) -> bool:
    return policy.target_tokens is not None and tokens <= policy.target_tokens


def _untouched(history: History) -> list[int]:
    """Return the turns that no layer touches, whatever the policy keeps beside them."""
    kept = {first_user(history), len(history) - 1}
    return [
        index
        for index, view in enumerate(history)
        if index in kept or view.turn.role == "system"
    ]


def _cannot_fit(
    history: History, policy: CompactionPolicy, stays: Sequence[int]
) -> bool:
    """Tell whether what stays is larger than the window by itself."""
    if policy.window_tokens is None:
        return False
    floor = policy.fixed_tokens + sum(history[at].turn.tokens for at in stays)
    return floor > policy.window_tokens


def _surface_tokens(history: History, known: Folded | None) -> int:
    seen = sum(
        view.turn.tokens
        for index, view in enumerate(history)
        if known is None or not known.hides(index)
    )
    return seen + (estimate_text(known.summary) if known else 0)


def _pruned(
    layer: str, history: History, policy: CompactionPolicy, known: Folded | None
) -> tuple[Pruned, ...]:
    protected = protected_turns(history, policy.keep_recent_steps)
    kept = [
        is_kept or (known is not None and known.first <= at <= known.last)
        for at, is_kept in enumerate(protected)
    ]
    if layer == PRUNE_REASONING:
        return prune_reasoning(history, kept)
    return prune_results(history, kept, limits=policy.results)


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
