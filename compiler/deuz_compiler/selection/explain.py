"""Why one candidate is in or out, and the smallest budget at which it enters.

Rules:
- The outcome changes only where a comparison with the budget turns around, and the
  engine tells the least raise that could turn one. So the sweep from below skips
  nothing, and the first budget that has the candidate in is the smallest.
- A choice is made anew at each budget: a candidate may leave again at a larger one.
- The sweep is bounded; `is_complete` says whether it came to an end by itself.
- Where it is not a matter of tokens, `detail` says what stands in the way: the score
  below the threshold, the form that is in instead, the refusal, or a verdict's reason.
"""

import msgspec

from deuz_compiler.records import reasons
from deuz_compiler.records.policy import Policy
from deuz_compiler.records.trace import Block, Decision
from deuz_compiler.selection.engine import (
    Selection,
    opened,
    select,
)
from deuz_compiler.selection.pool import Pool

# A sweep of a thousand budgets over a thousand candidates takes some seconds.
DEFAULT_STEPS = 1_000


class Explanation(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """One candidate's case.

    `needs` are the keys that would enter with it, itself first, and `needs_tokens` what
    they cost when nothing else is in. `block` is an obstacle that no budget removes.
    `smallest_budget_tokens` is None where no budget lets it in, or none was found.
    """

    key: str
    is_selected: bool
    reason: str
    detail: str
    needs: tuple[str, ...]
    needs_tokens: int
    block: Block | None
    smallest_budget_tokens: int | None
    is_complete: bool


class Sweep(msgspec.Struct, frozen=True, gc=False):
    """The smallest budget found, and whether all budgets below were accounted for."""

    budget_tokens: int | None
    is_complete: bool


def sweep(pool: Pool, policy: Policy, node: int, *, max_steps: int) -> Sweep:
    """Raise the budget from nothing, change by change, until the node is in."""
    budget = 0
    for _ in range(max_steps):
        selection = select(pool, msgspec.structs.replace(policy, budget_tokens=budget))
        if node in selection.nodes:
            return Sweep(budget, is_complete=True)
        shortage = selection.shortage_tokens
        is_capped = policy.ceiling_tokens is not None and (
            budget >= policy.ceiling_tokens
        )
        if shortage is None or is_capped:
            return Sweep(None, is_complete=True)
        budget += shortage
    return Sweep(None, is_complete=False)


def explain_node(
    pool: Pool,
    policy: Policy,
    node: int,
    *,
    max_steps: int = DEFAULT_STEPS,
    failed: Selection | None = None,
) -> Explanation:
    """Explain one candidate of a pool.

    `failed` is the refusal that came before any selection, where there was one: no
    budget lifts that.
    """
    selection = failed or select(pool, policy)
    decision = selection.decisions.get(node)
    if selection.refusal is not None and decision and decision.is_selected:
        # Admitted before the refusal came: that admission is void.
        decision = None
    alone = opened(pool, policy)
    needs = alone.added(pool.members(node))
    found = Sweep(None, is_complete=True)
    if failed is None:
        found = sweep(pool, policy, node, max_steps=max_steps)
    return Explanation(
        key=pool.keys[node],
        is_selected=node in selection.nodes,
        reason=reasons.REFUSED if decision is None else decision.reason,
        detail=_detail(pool, policy, selection, decision),
        needs=tuple([pool.keys[other] for other in needs]),
        needs_tokens=alone.cost(needs),
        block=alone.block(needs),
        smallest_budget_tokens=found.budget_tokens,
        is_complete=found.is_complete,
    )


def _detail(
    pool: Pool, policy: Policy, selection: Selection, decision: Decision | None
) -> str:
    if decision is None:
        return str(selection.refusal)
    node = pool.keys.index(decision.key)
    if decision.reason == reasons.BELOW_THRESHOLD:
        score = max([pool.candidates[other].score for other in pool.members(node)])
        return f"score {score} is below {policy.threshold}, and no key is new"
    if decision.reason == reasons.DUPLICATE_CONTENT:
        twins = pool.twins[pool.identities[node]]
        inside = [n for n in twins if n in selection.nodes or pool.is_placed[n]]
        # Repair may have dropped that form again.
        return f"content is in by {pool.keys[inside[0]]}" if inside else ""
    return decision.detail
