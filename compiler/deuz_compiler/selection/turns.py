"""Optional content by a ranking that is fixed: each unit is judged when its turn comes.

Rules:
- The best unit has the first turn; what it leaves, the next one finds.
- A unit over its kind's share waits; when all had their turn, those who wait contend,
  in the same order, for what is left.
- So a unit whose dependencies came in before it pays only for itself.
"""

from deuz_compiler.records import reasons
from deuz_compiler.selection.judge import Judge, Unit
from deuz_compiler.selection.shares import Shares


def play_turns(judge: Judge, shares: Shares) -> None:
    """Give each unit of the judge's class its turn."""
    waiting: list[tuple[int, Unit, int]] = []
    kept = judge.tally.kept
    for head in judge.turns():
        unit = judge.unit_at_turn(head)
        if unit is None:
            continue
        if shares.admits(unit.kind, unit.cost):
            _admit(judge, unit, shares, reason=reasons.RANKED)
        else:
            judge.tally.note_shortage(shares.shortage(unit.kind, unit.cost))
            waiting.append((head, unit, len(kept)))
    for head, judged, then in waiting:
        # As long as nothing enters, a verdict stands.
        again = judged if len(kept) == then else judge.unit_at_turn(head)
        if again is not None:
            _admit(judge, again, shares, reason=reasons.REALLOCATED)


def _admit(judge: Judge, unit: Unit, shares: Shares, *, reason: str) -> None:
    shares.spend(unit.kind, unit.cost)
    judge.admit(unit, reason)
