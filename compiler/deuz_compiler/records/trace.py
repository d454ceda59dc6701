"""What was decided about each candidate, and why: the engine's own record.

Rules:
- `detail` may quote a verdict's reason, so a trace stays inside; a manifest does not
  carry it.
- All decisions of one unit show the same remaining tokens, before and after.
"""

from typing import Literal

import msgspec

from deuz_compiler.records.candidate import Requirement


class Block(msgspec.Struct, frozen=True, gc=False):
    """What keeps a unit from entering: a node that must not, or cannot, come along.

    `code` is the gate's reason for an ineligible node, else empty.
    """

    kind: Literal["ineligible", "collision", "missing"]
    key: str
    code: str = ""

    def __str__(self) -> str:
        """Name the obstacle in one word and its key."""
        if self.kind == "ineligible":
            return f"dependency-ineligible:{self.key}({self.code})"
        if self.kind == "collision":
            return f"alternative-collision:{self.key}"
        return f"missing-dependency:{self.key}"


class Decision(msgspec.Struct, frozen=True, gc=False):
    """One candidate's fate.

    `stage` is the class of the unit that decided it, empty where none did.
    `cost_tokens` is what the candidate itself was charged, or what its unit would have
    cost. `pulled_in_by` names the unit a mere dependency came along with.
    """

    key: str
    is_selected: bool
    reason: str
    requirement: Requirement
    stage: str = ""
    detail: str = ""
    cost_tokens: int = 0
    before_tokens: int = 0
    after_tokens: int = 0
    is_projected: bool = False
    pulled_in_by: tuple[str, ...] = ()
    position: int | None = None


SearchOutcome = Literal["found", "confirmed", "none", "limit"]


class SearchReport(msgspec.Struct, frozen=True, gc=False):
    """What the exact search did; `is_complete` says that all was tried.

    `outcome` is `found` (a bundle that is cheaper than the greedy one, or legal where
    greedy refused), `confirmed` (the greedy base is the cheapest there is), `none`
    (proved: no legal bundle exists), or `limit` (the node limit came first).
    """

    outcome: SearchOutcome
    nodes: int
    limit_nodes: int
    is_complete: bool
