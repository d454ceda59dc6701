"""Optional content by a ranking that depends on what is in already.

Rules:
- In each round every unit is judged, and an objection is final; the best of the others
  enters, and the next round begins.
- With shares, a unit over its kind's share waits; when no unit fits its share any more,
  those who wait contend for what is left.
- Only units that a round touched are judged anew: a heap by rank finds the best, a heap
  by cost those that no longer fit. So a round costs as much as it changes.
"""

from collections.abc import Iterator, Mapping, Sequence
from heapq import heappop, heappush

from deuz_compiler.records import reasons
from deuz_compiler.selection.judge import Judge, Rank, Unit
from deuz_compiler.selection.shares import Shares


def play_rounds(judge: Judge, shares: Shares) -> None:
    """Play all rounds of the judge's class."""
    _Rounds(judge, shares).play()


class _Rounds:
    """The live units of a class, by rank and by cost. Mutable."""

    def __init__(self, judge: Judge, shares: Shares) -> None:
        self._judge = judge
        self._shares = shares
        self._units = judge.units()
        self._ranks: list[Rank | None] = [None] * len(self._units)
        """The rank at which a unit contends; None for one that does not."""
        self._by_rank: list[tuple[Rank, int]] = []
        self._by_cost: list[tuple[int, int]] = []
        self._holders = self._held()

    def play(self) -> None:
        """Play by shares first, then for what no share could use."""
        self._weigh(range(len(self._units)))
        waiting = []
        for number in self._bests():
            unit = self._units[number]
            if self._shares.admits(unit.kind, unit.cost):
                self._admit(unit, reasons.RANKED)
            else:
                shortage = self._shares.shortage(unit.kind, unit.cost)
                self._judge.tally.note_shortage(shortage)
                waiting.append(number)
        self._weigh(waiting)
        for number in self._bests():
            self._admit(self._units[number], reasons.REALLOCATED)

    def _held(self) -> Mapping[int | str, list[int]]:
        """Return which units a node, or a coverage key, concerns."""
        holders: dict[int | str, list[int]] = {}
        for number, unit in enumerate(self._units):
            nodes, _ = self._judge.tally.priced(unit.members, limit_tokens=None)
            concerns: tuple[int | str, ...] = (*nodes, *unit.keys)
            for concern in concerns:
                holders.setdefault(concern, []).append(number)
        return holders

    def _bests(self) -> Iterator[int]:
        """Yield the number of each round's best unit, until none is left to enter."""
        while True:
            self._weigh_too_dear()
            while self._by_rank:
                rank, number = heappop(self._by_rank)
                if self._ranks[number] == rank:
                    self._ranks[number] = None
                    yield number
                    break
            else:
                return

    def _weigh_too_dear(self) -> None:
        remaining = self._judge.tally.remaining
        while self._by_cost and -self._by_cost[0][0] > remaining:
            _, number = heappop(self._by_cost)
            if self._ranks[number] is not None:
                self._weigh((number,))

    def _weigh(self, numbers: Sequence[int]) -> None:
        """Judge units as things stand: each is out for good, or contends."""
        judge = self._judge
        for number in numbers:
            unit = self._units[number]
            if not judge.is_open(unit):
                self._ranks[number] = None
            elif objection := judge.objection(unit):
                self._ranks[number] = None
                judge.drop(unit, objection)
            else:
                self._contend(number, judge.rank(unit))

    def _contend(self, number: int, rank: Rank) -> None:
        heappush(self._by_cost, (-self._units[number].cost, number))
        if rank != self._ranks[number]:
            self._ranks[number] = rank
            heappush(self._by_rank, (rank, number))

    def _admit(self, unit: Unit, reason: str) -> None:
        touched = self._touched(unit.nodes)
        self._shares.spend(unit.kind, unit.cost)
        self._judge.admit(unit, reason)
        self._weigh([number for number in touched if self._ranks[number] is not None])

    def _touched(self, nodes: Sequence[int]) -> Mapping[int, None]:
        """Return the units for which these nodes make a difference when they enter."""
        pool, covered = self._judge.tally.pool, self._judge.tally.covered
        concerns: list[int | str] = []
        for node in nodes:
            concerns.extend(pool.twins.get(pool.identities[node], (node,)))
            # A key that is covered already makes no difference a second time.
            keys = pool.candidates[node].coverage_keys
            concerns.extend([key for key in keys if key not in covered])
        return {
            number: None for key in concerns for number in self._holders.get(key, ())
        }
