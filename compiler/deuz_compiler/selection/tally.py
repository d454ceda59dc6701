"""The state of one selection: what is in, what is left, what was decided.

Rules:
- One owner: the function that runs the stages. Everything else hands it on.
- A unit enters whole: its members and all they need that is not in yet.
- Decisions of a unit are recorded before its cost is taken off, so they show what was
  left when it was admitted.
- Every comparison with the budget goes through `fits`, so the least raise of the budget
  that could change anything is known at the end (`shortage`).
"""

from collections.abc import Sequence

from deuz_compiler.records import reasons
from deuz_compiler.records.trace import Block, Decision
from deuz_compiler.selection.pool import Pool


class Tally:
    """Mutable; belongs to one selection."""

    __slots__ = (
        "covered",
        "decisions",
        "identities",
        "is_in",
        "kept",
        "pool",
        "prices",
        "projected",
        "remaining",
        "shortage",
        "used",
    )

    def __init__(self, pool: Pool, budget_tokens: int) -> None:
        self.pool = pool
        self.remaining = budget_tokens
        self.used = 0
        self.shortage: int | None = None
        self.prices = list(pool.costs)
        self.is_in = bytearray(len(pool))
        self.identities: dict[str, int] = {}
        self.covered: dict[str, None] = {}
        self.kept: list[int] = []
        self.projected: dict[int, None] = {}
        self.decisions: dict[int, Decision] = {}

    def fits(self, cost: int) -> bool:
        """Compare a cost with what is left."""
        short = cost - self.remaining
        if short <= 0:
            return True
        if self.shortage is None or short < self.shortage:
            self.shortage = short
        return False

    def note_shortage(self, tokens: int | None) -> None:
        """Remember the least raise of the budget that would turn a "no" around."""
        if tokens is not None and (self.shortage is None or tokens < self.shortage):
            self.shortage = tokens

    def added(self, members: Sequence[int]) -> list[int]:
        """Return what would enter with the members: closures in order, less what is in.

        The walk is depth-first, each node before what it needs, in listed order.
        """
        return self.priced(members, limit_tokens=None)[0]

    def priced(
        self, members: Sequence[int], *, limit_tokens: int | None
    ) -> tuple[list[int], int]:
        """Return what would enter with the members, and its price.

        With a limit the walk ends at the first node that takes the price over it: then
        both are a part of the truth, and too much already.
        """
        edges, is_in, prices = self.pool.edges, self.is_in, self.prices
        if len(members) == 1 and not is_in[members[0]]:
            node = members[0]
            cost = prices[node]
            # Most records need nothing, or are too dear by themselves.
            if not edges[node] or (limit_tokens is not None and cost > limit_tokens):
                return [node], cost
        found: dict[int, None] = {}
        cost = 0
        stack = [*members[::-1]]
        while stack:
            node = stack.pop()
            if is_in[node] or node in found:
                continue
            found[node] = None
            cost += prices[node]
            if limit_tokens is not None and cost > limit_tokens:
                break
            if edges[node]:
                stack += edges[node][::-1]
        return [*found], cost

    def cost(self, nodes: Sequence[int]) -> int:
        """Return the price of nodes that are not in yet."""
        prices = self.prices
        return sum([prices[node] for node in nodes])

    def block(self, nodes: Sequence[int]) -> Block | None:
        """Return what keeps these nodes from entering together, the first found."""
        pool = self.pool
        met: dict[str, int] = {}
        for node in nodes:
            gate = pool.gates[node]
            if gate is not None:
                return Block("ineligible", pool.keys[node], gate.code)
            if pool.missing[node]:
                return Block("missing", pool.missing[node])
            identity = pool.identities[node]
            # Two forms of one content must not enter in one unit either.
            if identity in self.identities or identity in met:
                return Block("collision", pool.keys[node])
            met[identity] = node
        return None

    def settle(self, nodes: Sequence[int]) -> None:
        """Count nodes as in, at no cost and without a decision."""
        pool = self.pool
        for node in nodes:
            # Nobody may lean on a projection: it stays out of every closure.
            self.is_in[node] = node not in self.projected
            self.identities[pool.identities[node]] = node
            for key in pool.candidates[node].coverage_keys:
                self.covered[key] = None

    def withdraw(self, nodes: Sequence[int]) -> None:
        """Take back what `settle` did to these nodes, covered keys apart."""
        for node in nodes:
            self.is_in[node] = 0
            del self.identities[self.pool.identities[node]]

    def project(self, node: int, cost: int) -> None:
        """Take the node's smaller text, at this price, from now on."""
        self.projected[node] = None
        self.prices[node] = cost

    def commit(
        self, nodes: Sequence[int], members: Sequence[int], *, stage: str, reason: str
    ) -> None:
        """Let a unit in, record its decisions, then take its cost off."""
        pool = self.pool
        left = self.remaining - self.cost(nodes)
        requesters = tuple([pool.keys[node] for node in members])
        for node in sorted(nodes):
            is_asked, requirement = node in members, pool.requirements[node]
            # By position, as in `reject`.
            self.decisions[node] = Decision(
                pool.keys[node],
                True,  # noqa: FBT003
                reason if is_asked else _pulled(requirement),
                requirement,
                stage,
                "",
                self.prices[node],
                self.remaining,
                left,
                node in self.projected,
                () if is_asked else requesters,
            )
        self.settle(nodes)
        self.kept.extend(nodes)
        self.used += self.remaining - left
        self.remaining = left

    def reject(self, node: int, reason: str, *, cost: int = 0, stage: str = "") -> None:
        """Record a "no"; a node admitted later as a dependency overwrites it."""
        pool, left = self.pool, self.remaining
        gate = pool.gates[node]
        detail = "" if gate is None else gate.detail
        # By position: there are as many of these as records, and names cost twice that.
        self.decisions[node] = Decision(
            pool.keys[node],
            False,  # noqa: FBT003
            reason,
            pool.requirements[node],
            stage,
            detail,
            cost,
            left,
            left,
        )


def _pulled(requirement: str) -> str:
    """Content that must be there keeps that reason, whoever pulled it in."""
    if requirement in {reasons.MANDATORY, reasons.REQUIRED}:
        return requirement
    return reasons.DEPENDENCY
