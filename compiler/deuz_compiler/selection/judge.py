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

from collections.abc import Callable, Mapping, Sequence

import msgspec

from deuz_compiler.records import reasons
from deuz_compiler.records.candidate import Requirement
from deuz_compiler.records.policy import Policy
from deuz_compiler.records.trace import Block
from deuz_compiler.selection.needs import is_open
from deuz_compiler.selection.pool import Pool
from deuz_compiler.selection.tally import Tally

Rank = tuple[float, ...]


class Unit(msgspec.Struct, gc=False):
    """What enters together; the last three fields are what its last judgement found.

    `place` is that of the first member's source in the policy's list. `saved` is what
    the first member's projection would save, in tokens; `projected` is its price, where
    it takes the record's place.
    """

    members: tuple[int, ...]
    kind: str
    place: int
    score: float
    priority: int
    keys: tuple[str, ...]
    saved: int
    nodes: Sequence[int] = ()
    cost: int = 0
    projected: int | None = None


def unit_of(pool: Pool, members: tuple[int, ...], places: Mapping[str, int]) -> Unit:
    """Return the unit of these members, not judged yet; a strange source is last."""
    node = members[0]
    first, smaller = pool.candidates[node], pool.projections[node]
    saved = 0 if smaller is None else max(0, pool.costs[node] - smaller)
    score, priority, keys = first.score, first.priority, first.coverage_keys
    if members[1:]:
        records = [pool.candidates[node] for node in members]
        score = max([record.score for record in records])
        priority = max([record.priority for record in records])
        keys = tuple([key for record in records for key in record.coverage_keys])
    place = places.get(first.source, len(places))
    return Unit(members, first.kind, place, score, priority, keys, saved)


class Judge:
    """Judges the units of one class against one tally."""

    __slots__ = (
        "_needs_full_cost",
        "_places",
        "_policy",
        "_ranking",
        "_threshold",
        "requirement",
        "tally",
    )

    def __init__(self, tally: Tally, policy: Policy, requirement: Requirement) -> None:
        self.tally = tally
        self.requirement = requirement
        self._needs_full_cost = not policy.is_ranking_fixed
        self._threshold = policy.threshold
        self._ranking = policy.ranking
        self._policy = policy
        self._places = {source: place for place, source in enumerate(policy.sources)}

    def units(self) -> list[Unit]:
        """Return the units of the class that are still open, by first member."""
        pool, places = self.tally.pool, self._places
        return [unit_of(pool, pool.members(head), places) for head in self._heads()]

    def turns(self) -> list[int]:
        """Return the first member of each open unit in the order of their ranks.

        For a ranking in which nothing moves: then units are made when they are needed.
        """
        return ranked(self.tally.pool, sorted(self._heads()), self._policy)

    def unit_at_turn(self, head: int) -> Unit | None:
        """Return the unit of a first member, judged; None if closed or turned away."""
        tally, pool = self.tally, self.tally.pool
        if not (pool.groups[head] or pool.missing[head]):
            # Spelt out for one record that is too dear by itself and cannot shrink, as
            # most are in a large pool: that it takes no unit and no walk to tell.
            if head in tally.decisions or pool.identities[head] in tally.identities:
                return None
            cost = tally.prices[head]
            if pool.projections[head] is None and not tally.fits(cost):
                stage = self.requirement
                tally.reject(head, reasons.OVER_BUDGET, cost=cost, stage=stage)
                return None
            if not pool.edges[head] and pool.candidates[head].score >= self._threshold:
                # And for one that needs nothing, and fits.
                unit = unit_of(pool, (head,), self._places)
                if pool.gates[head] is None and tally.fits(cost):
                    unit.nodes, unit.cost = [head], cost
                    return unit
        unit = unit_of(pool, pool.members(head), self._places)
        return unit if self.may_enter(unit) else None

    def may_enter(self, unit: Unit) -> bool:
        """Judge a unit; turn it away if there is an objection."""
        if not self.is_open(unit):
            return False
        objection = self.objection(unit)
        if objection is not None:
            self.drop(unit, objection)
        return objection is None

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
        tally, unit.projected = self.tally, None
        limit = None if self._needs_full_cost else tally.remaining + unit.saved
        unit.nodes, unit.cost = tally.priced(unit.members, limit_tokens=limit)
        is_affordable = tally.fits(unit.cost) or (unit.saved and self._shrinks(unit))
        # Also of a unit that is too dear, as far as the walk got.
        if block := tally.block(unit.nodes):
            return _blocked(block)
        if not is_affordable:
            return reasons.OVER_BUDGET
        if unit.score < self._threshold and not self.new_keys(unit):
            return reasons.BELOW_THRESHOLD
        return None

    def drop(self, unit: Unit, reason: str) -> None:
        """Turn the open members of an open unit away, for good."""
        is_alone = len(unit.members) == 1
        for node in unit.members:
            if is_alone or is_open(self.tally, node):
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
        terms = [_TERMS[term](self, unit) for term in self._ranking]
        return (*terms, unit.members[0])

    def new_keys(self, unit: Unit) -> int:
        """Count the keys a unit would be the first to cover."""
        covered = self.tally.covered
        return len({key: None for key in unit.keys if key not in covered})

    def _heads(self) -> list[int]:
        """Return the first member of each open unit, by the first that is open."""
        tally, pool = self.tally, self.tally.pool
        contents, groups, decisions = tally.identities, pool.groups, tally.decisions
        heads = []
        for node, requirement in enumerate(pool.requirements):
            # Spelt out, like `is_open`: a call for each record of the pool adds up.
            if requirement != self.requirement or node in decisions:
                continue
            if pool.identities[node] not in contents:
                heads.append(groups[node][0] if groups[node] else node)
        return list(dict.fromkeys(heads))

    def _shrinks(self, unit: Unit) -> bool:
        """Put the projection in the place of a unit that is too dear, if that fits."""
        tally, saved = self.tally, unit.saved
        if not tally.fits(unit.cost - saved) or _is_needed_within(tally.pool, unit):
            return False
        unit.cost -= saved
        unit.projected = tally.pool.costs[unit.members[0]] - saved
        return True


def ranked(pool: Pool, heads: list[int], policy: Policy) -> list[int]:
    """Return first members of units in the order of their ranks, given that by id.

    For a ranking in which nothing moves.
    """
    # One sort for each term, the least first, by what C can look up, costs a third
    # of what making ranks does.
    if not heads[1:]:
        return heads
    for term in reversed(policy.ranking):
        if term == "source":
            places = {source: place for place, source in enumerate(policy.sources)}
            if places:
                last = len(places)
                place = [places.get(c.source, last) for c in pool.candidates]
                heads.sort(key=place.__getitem__)
        else:
            heads.sort(key=_best(pool, term).__getitem__, reverse=True)
    return heads


def _best(pool: Pool, term: str) -> list[float]:
    """Return, by node, the score or the priority; of a group, the best of its members.

    Only what stands at the first member of a group is meant to be read.
    """
    column: list[float] = (
        [candidate.score for candidate in pool.candidates]
        if term == "score"
        else [candidate.priority for candidate in pool.candidates]
    )
    for group in dict.fromkeys(pool.groups):
        if group:
            column[group[0]] = max([column[node] for node in group])
    return column


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
    "source": lambda _, unit: unit.place,
}
