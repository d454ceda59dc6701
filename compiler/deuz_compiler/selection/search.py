"""A bounded exact search for the cheapest legal set of mandatory and required content.

Rules:
- Greedy takes each form by its own price and may so refuse although a legal bundle
  exists; the search tries forms together. It finds the cheapest legal set, or proves
  that none exists, or stops at the node limit and says so.
- A set is legal when every need is met, closures and groups are whole, no content is in
  twice, nothing in it fails its gate, and its rendered cost fits.
- A need is met by one of its own forms, or by any form that came along as a dependency;
  the second is what "deferring" a need leaves room for.
- A node of the search is one form tried. A branch ends where what is paid, plus the
  cheapest form of each content still owed, is too much or no better than the best
  known: each owed content enters as a node of its own, so the sum cannot exceed.
- Worst case: the limit's number of nodes, and for each a bounded number of records
  walked, on average. So deep closures end the search early, and it says so, also amid
  the pricing of a content's forms; the default of 20 000 nodes is a matter of half a
  second on top of what the greedy choice takes, whatever the pool.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from deuz_compiler.selection.needs import (
    by_identity,
    mandatory_identities,
    required_units,
)
from deuz_compiler.selection.pool import Pool
from deuz_compiler.selection.tally import Tally

# Records walked per node, on average: closures of ten records leave room for all nodes.
WALKED_PER_NODE = 32


@dataclass(frozen=True, slots=True)
class Need:
    """Something that must be in: its contents, and the units that can bring them.

    It is deferrable where forms of others could bring each of its contents along.
    """

    stage: str
    identities: tuple[str, ...]
    units: tuple[tuple[int, ...], ...]
    is_deferrable: bool


@dataclass(frozen=True, slots=True)
class Found:
    """The cheapest set the search saw, if any: units in the order of their stages."""

    units: tuple[tuple[str, tuple[int, ...]], ...] | None
    nodes: int
    is_complete: bool


def find_cheapest(tally: Tally, *, limit_nodes: int, best: int | None) -> Found:
    """Search for a legal set that is cheaper than `best`; None: than nothing at all.

    The tally must be fresh; it is used as scratch, and its shortage is what to read of
    it afterwards.
    """
    needs = list_needs(tally)
    # Few options first: a forced choice costs one node and bounds all the others.
    turns = sorted(range(len(needs)), key=lambda turn: (len(needs[turn].units), turn))
    search = _Search(
        tally, [needs[turn] for turn in turns], best=best, limit_nodes=limit_nodes
    )
    is_complete = search.run()
    if search.found is None:
        return Found(None, search.nodes, is_complete)
    chosen = sorted(zip(turns, search.found, strict=True))
    units = tuple([(needs[turn].stage, unit) for turn, unit in chosen if unit])
    return Found(units, search.nodes, is_complete)


def list_needs(tally: Tally) -> list[Need]:
    """Return what must be in: mandatory, required groups, required singles."""
    pool = tally.pool
    groups, singles = required_units(tally)
    needs = [
        _need(pool, "mandatory", (identity,), [n for n in forms if not pool.gates[n]])
        for identity, forms in mandatory_identities(tally).items()
        if identity not in tally.identities
    ]
    for group in groups:
        contents = dict.fromkeys(pool.identities[node] for node in group)
        # What is placed is not owed: counted in, it would rule out sets that fit.
        owed = tuple([each for each in contents if each not in tally.identities])
        needs.append(_need(pool, "required", owed, group[:1]))
    for identity, forms in by_identity(tally, singles).items():
        needs.append(_need(pool, "required", (identity,), forms))
    return needs


def _need(
    pool: Pool, stage: str, identities: tuple[str, ...], forms: Sequence[int]
) -> Need:
    units = tuple(dict.fromkeys(pool.members(node) for node in forms))
    own = [node for unit in units for node in unit]
    is_deferrable = all(
        any(node not in own for node in pool.twins.get(identity, ()))
        for identity in identities
    )
    return Need(stage, identities, units, is_deferrable)


class _Search:
    """Depth first with a stack of its own: needs may be many. Mutable."""

    def __init__(
        self,
        tally: Tally,
        needs: Sequence[Need],
        *,
        best: int | None,
        limit_nodes: int,
    ) -> None:
        self.nodes = 0
        self._limit_nodes = limit_nodes
        self._left_to_walk = limit_nodes * WALKED_PER_NODE
        self._is_cut_off = False
        self.found: list[tuple[int, ...]] | None = None
        self._tally = tally
        self._needs = needs
        self._best = best
        self._paid = 0
        self._cheapest = _cheapest_forms(tally.pool, needs)
        self._owed = sum(self._cheapest.values())
        self._chosen: list[tuple[int, ...]] = []
        self._entered: list[list[int]] = []

    def run(self) -> bool:
        """Try all that may be better than the best; return whether all was tried."""
        open_units = [self._units(0)] if self._may_go_on() else []
        while open_units:
            unit = next(open_units[-1], None)
            if self._is_cut_off:
                return False
            if unit is None:
                open_units.pop()
                self._step_back()
                continue
            if self.nodes == self._limit_nodes or self._left_to_walk <= 0:
                return False
            self.nodes += 1
            if self._enter(unit):
                open_units.append(self._units(len(self._chosen)))
        return True

    def _units(self, turn: int) -> Iterator[tuple[int, ...]]:
        """Yield what may meet a need, cheapest first; () defers it, or finds it met."""
        if turn == len(self._needs):
            self._note_if_met()
            return
        need = self._needs[turn]
        if self._is_met(need):
            yield ()
            return
        priced = []
        for unit in need.units:
            if self._left_to_walk <= 0:
                self._is_cut_off = True
                return
            priced.append((self._tally.cost(self._added(unit)), unit))
        yield from [unit for _, unit in sorted(priced)]
        if need.is_deferrable:
            yield ()

    def _enter(self, unit: tuple[int, ...]) -> bool:
        tally = self._tally
        nodes = self._added(unit)
        if tally.block(nodes) is not None:
            return False
        self._move(nodes, sign=1)
        tally.settle(nodes)
        self._chosen.append(unit)
        self._entered.append(nodes)
        if self._may_go_on():
            return True
        self._step_back()
        return False

    def _added(self, unit: tuple[int, ...]) -> list[int]:
        nodes = self._tally.added(unit)
        self._left_to_walk -= len(nodes)
        return nodes

    def _step_back(self) -> None:
        if self._entered:
            nodes = self._entered.pop()
            self._chosen.pop()
            self._tally.withdraw(nodes)
            self._move(nodes, sign=-1)

    def _move(self, nodes: Sequence[int], *, sign: int) -> None:
        self._paid += sign * self._tally.cost(nodes)
        for node in nodes:
            identity = self._tally.pool.identities[node]
            self._owed -= sign * self._cheapest.get(identity, 0)

    def _may_go_on(self) -> bool:
        least = self._paid + self._owed
        return self._tally.fits(least) and (self._best is None or least < self._best)

    def _is_met(self, need: Need) -> bool:
        return all(identity in self._tally.identities for identity in need.identities)

    def _note_if_met(self) -> None:
        if all(self._is_met(need) for need in self._needs):
            self._best = self._paid
            self.found = list(self._chosen)


def _cheapest_forms(pool: Pool, needs: Sequence[Need]) -> dict[str, int]:
    """Return the least price at which each needed content can be in at all."""
    cheapest: dict[str, int] = {}
    for need in needs:
        own = {pool.identities[n]: (n,) for unit in need.units for n in unit}
        for identity in need.identities:
            forms = pool.twins.get(identity, own.get(identity, ()))
            cheapest[identity] = min([pool.costs[n] for n in forms], default=0)
    return cheapest
