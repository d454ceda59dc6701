"""Units of optional content, and whether one may enter as things stand.

Rules:
- A unit is one record or one required group; it enters with all it needs, or not.
- Blocked comes before budget, budget before worth. A unit earns its place by score, or
  by a key not covered.
- A record that does not fit may enter as its projection: alone, with its dependencies
  in full, and never as something another record depends on.
- An objection stands: what enters meanwhile takes at least as much from the budget as
  from any unit's cost, takes contents, and covers keys. So units may be judged once, at
  their turn, or again in every round: the same enter.
- Where the cost plays no part in the ranking, the walk through what a unit needs ends
  as soon as it is too dear: a hopeless unit costs no more than the budget that is left.
"""

from collections.abc import Callable, Mapping
from functools import partial

from deuz_compiler.records import reasons
from deuz_compiler.records.candidate import Requirement
from deuz_compiler.records.policy import Policy
from deuz_compiler.records.trace import Block
from deuz_compiler.selection.needs import is_open
from deuz_compiler.selection.pool import Pool
from deuz_compiler.selection.tally import Tally

Rank = tuple[float, ...]


class Unit:
    """What enters together. Mutable: it holds what the last judgement found."""

    __slots__ = (
        "cost",
        "keys",
        "kind",
        "members",
        "nodes",
        "priority",
        "projected",
        "saved",
        "score",
        "source",
    )

    def __init__(self, pool: Pool, members: tuple[int, ...]) -> None:
        first = pool.candidates[members[0]]
        self.members = members
        self.kind = first.kind
        self.source = first.source
        self.score = first.score
        self.priority = first.priority
        self.keys = first.coverage_keys
        if members[1:]:
            records = [pool.candidates[node] for node in members]
            self.score = max([record.score for record in records])
            self.priority = max([record.priority for record in records])
            self.keys = tuple([key for r in records for key in r.coverage_keys])
        smaller = pool.projections[members[0]]
        self.saved = 0
        """Tokens that the first member's projection saves."""
        if smaller is not None:
            self.saved = max(0, pool.costs[members[0]] - smaller)
        self.nodes: list[int] = []
        self.cost = 0
        self.projected: int | None = None


class Judge:
    """Judges the units of one class against one tally."""

    __slots__ = (
        "_needs_full_cost",
        "_sources",
        "_terms",
        "_threshold",
        "requirement",
        "tally",
    )

    def __init__(self, tally: Tally, policy: Policy, requirement: Requirement) -> None:
        self.tally = tally
        self.requirement = requirement
        self._needs_full_cost = not policy.is_ranking_fixed
        self._threshold = policy.threshold
        self._terms = tuple([_TERMS[term] for term in policy.ranking])
        self._sources = {source: place for place, source in enumerate(policy.sources)}

    def units(self) -> list[Unit]:
        """Return the units of the class that are still open, by first member."""
        pool, decisions = self.tally.pool, self.tally.decisions
        contents = self.tally.identities
        listed: dict[tuple[int, ...], None] = {}
        for node, requirement in enumerate(pool.requirements):
            # Spelt out, like `is_open`: a call for each record of the pool adds up.
            if requirement != self.requirement or node in decisions:
                continue
            if pool.identities[node] not in contents:
                listed[pool.groups[node] or (node,)] = None
        return [Unit(pool, members) for members in listed]

    def is_open(self, unit: Unit) -> bool:
        """Whether any member is undecided and its content is not in."""
        decisions, contents = self.tally.decisions, self.tally.identities
        identities = self.tally.pool.identities
        # Spelt out: for the one member that most units have, calls cost twice that.
        for node in unit.members:
            if node not in decisions and identities[node] not in contents:
                return True
        return False

    def objection(self, unit: Unit) -> str | None:
        """Return why a unit must stay out, or None; note in it what it would add."""
        is_affordable = self._affords(unit)
        # Also of a unit that is too dear, as far as the walk got.
        if block := self.tally.block(unit.nodes):
            return _blocked(block)
        if not is_affordable:
            return reasons.OVER_BUDGET
        if unit.score < self._threshold and not self.new_keys(unit):
            return reasons.BELOW_THRESHOLD
        return None

    def drop(self, unit: Unit, reason: str) -> None:
        """Turn the open members of a unit away, for good."""
        for node in unit.members:
            if is_open(self.tally, node):
                self.tally.reject(node, reason, cost=unit.cost, stage=self.requirement)

    def admit(self, unit: Unit, reason: str) -> None:
        """Let a unit in, as it was last judged."""
        if unit.projected is not None:
            self.tally.project(unit.members[0], unit.projected)
        self.tally.commit(
            unit.nodes, unit.members, stage=self.requirement, reason=reason
        )

    def rank(self, unit: Unit) -> Rank:
        """Return the unit's place: the smaller, the better; ties end at the id."""
        return (*[term(self, unit) for term in self._terms], unit.members[0])

    def ranked(self, units: list[Unit]) -> list[Unit]:
        """Return units in the order of their ranks, where nothing in them moves."""
        # One sort for each term, the least first, costs half of what making ranks does.
        units = sorted(units, key=_first_member)
        for term in reversed(self._terms):
            units.sort(key=partial(term, self))
        return units

    def new_keys(self, unit: Unit) -> int:
        """Count the keys a unit would be the first to cover."""
        covered = self.tally.covered
        return len({key: None for key in unit.keys if key not in covered})

    def source(self, unit: Unit) -> int:
        """Return the place of the first member's source; unknown ones come last."""
        return self._sources.get(unit.source, len(self._sources))

    def _affords(self, unit: Unit) -> bool:
        """Set the unit's cost, in full or as its projection, if one of them fits."""
        tally, saved = self.tally, unit.saved
        unit.projected = None
        limit = None if self._needs_full_cost else tally.remaining + saved
        unit.nodes, unit.cost = tally.priced(unit.members, limit_tokens=limit)
        if tally.fits(unit.cost):
            return True
        if saved <= 0 or not tally.fits(unit.cost - saved):
            return False
        if _is_needed_within(tally.pool, unit):
            return False
        unit.cost -= saved
        unit.projected = tally.pool.costs[unit.members[0]] - saved
        return True


def _first_member(unit: Unit) -> int:
    return unit.members[0]


def _blocked(block: Block) -> str:
    if block.kind == "missing":
        return reasons.MISSING_DEPENDENCY
    return reasons.DEPENDENCY_BLOCKED


def _is_needed_within(pool: Pool, unit: Unit) -> bool:
    """Whether another node of the unit, in a cycle or a group, needs the full text."""
    return any(unit.members[0] in pool.edges[other] for other in unit.nodes)


_TERMS: Mapping[str, Callable[[Judge, Unit], float]] = {
    "priority": lambda judge, unit: -unit.priority,
    "score": lambda judge, unit: -unit.score,
    "coverage": lambda judge, unit: -judge.new_keys(unit),
    "cost": lambda judge, unit: unit.cost,
    "source": Judge.source,
}
