"""Records of which each stands for itself, each at its turn: what most questions get.

Rules:
- What is decided, and what is noted of it, is what `turns` and `judge` would.
- Only for a pool in which nothing is required, tied, twice, shortened or turned away,
  and a policy by which no record is too poor, a price is the whole price, and nothing
  costs nothing.
"""

from deuz_compiler.records import reasons
from deuz_compiler.records.candidate import Requirement
from deuz_compiler.records.policy import Policy
from deuz_compiler.records.trace import Decision
from deuz_compiler.selection.judge import ranked
from deuz_compiler.selection.shares import Shares
from deuz_compiler.selection.tally import Tally

CLASS: Requirement = "discretionary"
"""The class of all records of such a pool."""


def is_played_plain(policy: Policy) -> bool:
    """Tell whether the policy asks nothing that would need units to be judged."""
    return (
        policy.threshold <= 0
        and policy.search == "greedy"
        and policy.pricing == "rendered"
        and policy.empty_block == "omitted"
        and policy.is_ranking_fixed
    )


def play_plain(tally: Tally, policy: Policy) -> None:
    """Give each record of a plain pool its turn; all of them are decided then."""
    pool, shares = tally.pool, Shares(policy.shares, tally.remaining)
    waiting: list[int] = []
    for node in ranked(pool, [*range(len(pool))], policy):
        cost = pool.costs[node]
        if not tally.fits(cost):
            _turn_away(tally, node)
        elif shares.admits(kind := pool.candidates[node].kind, cost):
            _let_in(tally, node, shares, reasons.RANKED)
        else:
            tally.note_shortage(shares.shortage(kind, cost))
            waiting.append(node)
    for node in waiting:
        if tally.fits(pool.costs[node]):
            _let_in(tally, node, shares, reasons.REALLOCATED)
        else:
            _turn_away(tally, node)


def _let_in(tally: Tally, node: int, shares: Shares, reason: str) -> None:
    pool, before = tally.pool, tally.remaining
    cost = pool.costs[node]
    shares.spend(pool.candidates[node].kind, cost)
    tally.remaining = after = before - cost
    tally.used += cost
    tally.kept.append(node)
    key = pool.keys[node]
    # By position, as in `Tally`.
    tally.decisions[node] = Decision(
        key,
        True,  # noqa: FBT003
        reason,
        CLASS,
        CLASS,
        "",
        cost,
        before,
        after,
    )


def _turn_away(tally: Tally, node: int) -> None:
    pool, left = tally.pool, tally.remaining
    tally.decisions[node] = Decision(
        pool.keys[node],
        False,  # noqa: FBT003
        reasons.OVER_BUDGET,
        CLASS,
        CLASS,
        "",
        pool.costs[node],
        left,
        left,
    )
