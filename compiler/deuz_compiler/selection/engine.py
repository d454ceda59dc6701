"""One selection from first gate to last check.

Rules, in order:
1. A key that this call requires and nobody offers refuses at once.
2. What is placed counts as in, at no cost; gates turn the ineligible away, for good.
3. Mandatory, then required content enters, up to the ceiling; with exact search, the
   cheapest legal set of both.
4. Preferred, then discretionary content contends for what the budget has left.
5. What is still undecided is another form of something that is in.
6. The order is made, the rendered cost counted, an overrun repaired, all checked.
"""

from collections.abc import Mapping, Sequence

import msgspec

from deuz_compiler.records import reasons
from deuz_compiler.records.candidate import Requirement
from deuz_compiler.records.policy import Policy
from deuz_compiler.records.refusal import (
    INSUFFICIENT_BUDGET,
    REQUIRED_ABSENT,
    SEARCH_EXHAUSTED,
    Refusal,
)
from deuz_compiler.records.trace import Decision, SearchOutcome, SearchReport
from deuz_compiler.selection.check import problems_of, refusal_of
from deuz_compiler.selection.judge import Judge
from deuz_compiler.selection.needs import admit_needs
from deuz_compiler.selection.order import ordered
from deuz_compiler.selection.plain import is_played_plain, play_plain
from deuz_compiler.selection.pool import Pool
from deuz_compiler.selection.repair import rendered_tokens, repair
from deuz_compiler.selection.rounds import play_rounds
from deuz_compiler.selection.search import Found, find_cheapest
from deuz_compiler.selection.shares import Shares
from deuz_compiler.selection.tally import Tally
from deuz_compiler.selection.turns import play_turns


class Selection(msgspec.Struct, frozen=True, gc=False):
    """What came out: nodes in placement order, or a refusal and no nodes.

    `decisions` holds every node on success, on refusal those that were reached.
    `shortage_tokens` is the least raise of the budget that could change the outcome;
    None if no raise could.
    """

    nodes: tuple[int, ...]
    tokens: int
    decisions: Mapping[int, Decision]
    refusal: Refusal | None
    search: SearchReport | None
    shortage_tokens: int | None


_OPTIONAL: tuple[Requirement, ...] = ("preferred", "discretionary")


def select(pool: Pool, policy: Policy) -> Selection:
    """Select from a pool by a policy. Same input, same answer."""
    if pool.absent:
        detail = f"explicitly required candidates absent: {', '.join(pool.absent)}"
        absent = Refusal(reason=REQUIRED_ABSENT, blocking=pool.absent, detail=detail)
        return _refused(_empty(pool, policy), policy, absent)
    if pool.is_plain and is_played_plain(policy):
        return _select_plain(pool, policy)
    tally, report, refusal = _admit_needs(pool, policy)
    if policy.ceiling_tokens is not None:
        # What was short of the ceiling is not helped by a larger budget.
        tally.shortage = None
    if refusal is not None:
        return _refused(tally, policy, refusal, report)
    needs_tokens = rendered_tokens(tally, tally.kept, policy)
    _close(tally, "mandatory")
    _admit_optional(tally, policy)
    _close(tally)
    # Written out here and below: of a few records, `min` and `max` are a part one sees.
    limit, ceiling = policy.budget_tokens, ceiling_tokens(policy)
    limit = needs_tokens if needs_tokens > limit else limit
    limit = ceiling if ceiling < limit else limit
    return _released(tally, policy, report=report, limit_tokens=limit)


def _select_plain(pool: Pool, policy: Policy) -> Selection:
    tally = Tally(pool, _room_tokens(policy))
    play_plain(tally, policy)
    # Prices are whole, so that nothing can be over its limit.
    return _placed(tally, ordered(pool, tally.kept, policy), policy, report=None)


def ceiling_tokens(policy: Policy) -> int:
    """Return what mandatory and required content may take."""
    if policy.ceiling_tokens is None:
        return policy.budget_tokens
    return policy.ceiling_tokens


def _entry_tokens(policy: Policy) -> int:
    """Return what a block costs before its first record, as prices are counted."""
    if policy.pricing == "declared":
        return 0
    return policy.overhead.block_tokens - policy.overhead.between_tokens


def _empty(pool: Pool, policy: Policy) -> Tally:
    return Tally(pool, ceiling_tokens(policy) - _entry_tokens(policy))


def opened(pool: Pool, policy: Policy) -> Tally:
    """Return a tally with what is placed counted in and the ineligible turned away."""
    tally = _empty(pool, policy)
    tally.settle([node for node, placed in enumerate(pool.is_placed) if placed])
    for node, gate in enumerate(pool.gates):
        if pool.is_placed[node]:
            tally.reject(node, reasons.ALREADY_PLACED)
        elif gate is not None:
            tally.reject(node, gate.code)
    return tally


def _admit_needs(
    pool: Pool, policy: Policy
) -> tuple[Tally, SearchReport | None, Refusal | None]:
    tally = opened(pool, policy)
    refusal = admit_needs(tally)
    if policy.search == "greedy":
        return tally, None, refusal
    return _searched(tally, policy, refusal)


def _searched(
    greedy: Tally, policy: Policy, refusal: Refusal | None
) -> tuple[Tally, SearchReport | None, Refusal | None]:
    """Replace the greedy answer where the exact search has a better one."""
    scratch = opened(greedy.pool, policy)
    best = greedy.used if refusal is None else None
    found = find_cheapest(scratch, limit_nodes=policy.search_nodes, best=best)
    tally = greedy
    if found.units is not None:
        tally, refusal = opened(greedy.pool, policy), None
        for stage, members in found.units:
            nodes = tally.added(members)
            tally.commit(nodes, members, stage=stage, reason=stage)
    for other in (greedy, scratch):
        if other.shortage is not None:
            tally.note_shortage(other.shortage)
    if refusal is not None and not found.is_complete:
        refusal = msgspec.structs.replace(refusal, reason=SEARCH_EXHAUSTED)
    # Of needs that cost nothing, the block alone may still be too dear.
    tokens = rendered_tokens(tally, tally.kept, policy)
    is_legal = refusal is None and tokens <= ceiling_tokens(policy)
    return tally, _report(found, policy, is_legal=is_legal), refusal


def _report(found: Found, policy: Policy, *, is_legal: bool) -> SearchReport:
    if found.units is not None:
        outcome: SearchOutcome = "found"
    elif not found.is_complete:
        outcome = "limit"
    else:
        outcome = "confirmed" if is_legal else "none"
    return SearchReport(outcome, found.nodes, policy.search_nodes, found.is_complete)


def _admit_optional(tally: Tally, policy: Policy) -> None:
    """Let the lower classes contend; from here on the budget is the bound."""
    tally.remaining = _room_tokens(policy) - tally.used
    shares = Shares(policy.shares, tally.remaining)
    play = play_turns if policy.is_ranking_fixed else play_rounds
    requirements = tally.pool.requirements
    for requirement in _OPTIONAL:
        if requirement in requirements:
            play(Judge(tally, policy, requirement), shares)


def _room_tokens(policy: Policy) -> int:
    room, ceiling = policy.budget_tokens, ceiling_tokens(policy)
    return (ceiling if ceiling < room else room) - _entry_tokens(policy)


def _close(tally: Tally, requirement: str | None = None) -> None:
    """Decide the undecided, of one class or all: the content of each is in already."""
    decisions, requirements = tally.decisions, tally.pool.requirements
    is_of_none = requirement is not None and requirement not in requirements
    if is_of_none or len(decisions) == len(requirements):
        return
    for node, own in enumerate(requirements):
        if requirement in {None, own} and node not in decisions:
            tally.reject(node, reasons.DUPLICATE_CONTENT)


def _released(
    tally: Tally, policy: Policy, *, report: SearchReport | None, limit_tokens: int
) -> Selection:
    order = ordered(tally.pool, tally.kept, policy)
    nodes = repair(tally, order, policy, limit_tokens=limit_tokens)
    cost = rendered_tokens(tally, nodes, policy)
    refusal = None
    if cost > limit_tokens:
        refusal = _overrun(tally, nodes, policy, limits=(cost, limit_tokens))
    if refusal is not None:
        return _refused(tally, policy, refusal, report)
    return _placed(tally, nodes, policy, report=report)


def _placed(
    tally: Tally, nodes: Sequence[int], policy: Policy, *, report: SearchReport | None
) -> Selection:
    """Return the selection of these nodes, once they were looked at again."""
    cost = rendered_tokens(tally, nodes, policy)
    refusal = refusal_of(problems_of(tally.pool, nodes))
    if refusal is not None:
        return _refused(tally, policy, refusal, report)
    for position, node in enumerate(nodes):
        tally.decisions[node] = msgspec.structs.replace(
            tally.decisions[node], position=position
        )
    return Selection(tuple(nodes), cost, tally.decisions, None, report, tally.shortage)


def _overrun(
    tally: Tally, nodes: Sequence[int], policy: Policy, *, limits: tuple[int, int]
) -> Refusal:
    cost, limit_tokens = limits
    return Refusal(
        reason=INSUFFICIENT_BUDGET,
        blocking=tuple(sorted([tally.pool.keys[node] for node in nodes])),
        detail=f"rendered {cost} exceeds budget {limit_tokens} with no legal repair",
        required_tokens=cost - _entry_tokens(policy),
    )


def _refused(
    tally: Tally,
    policy: Policy,
    refusal: Refusal,
    report: SearchReport | None = None,
) -> Selection:
    """Stamp a refusal with the totals; what was decided until then stays."""
    total = ceiling_tokens(policy)
    needed = refusal.required_tokens
    stamped = msgspec.structs.replace(
        refusal,
        used_tokens=tally.used,
        total_tokens=total,
        required_tokens=None if needed is None else needed + _entry_tokens(policy),
        available_tokens=None if needed is None else total,
    )
    return Selection((), 0, tally.decisions, stamped, report, tally.shortage)
