"""How a selection is made: every value here is read by the engine, none is a comment.

Rules:
- Tokens and shares are whole numbers; a share is a weight among the shares given.
- `ranking` and `ordering` name terms from closed lists and end, implied, at the key.
- Without shares one budget serves all kinds.
"""

from typing import Literal

import msgspec

RankTerm = Literal["priority", "score", "coverage", "cost", "source"]
OrderTerm = Literal["requirement", "role", "source"]


class Share(msgspec.Struct, frozen=True, gc=False, forbid_unknown_fields=True):
    """The weight of one kind among all shares; 40 of 100 and 2 of 5 are the same."""

    kind: str
    weight: int


class Overhead(msgspec.Struct, frozen=True, gc=False, forbid_unknown_fields=True):
    """What rendering adds in tokens: for the block, per record, between records."""

    block_tokens: int = 0
    record_tokens: int = 0
    between_tokens: int = 0


MOVING_TERMS: tuple[RankTerm, ...] = ("coverage", "cost")
"""Terms whose value depends on what is in already."""
_MOVING = frozenset(MOVING_TERMS)


class Policy(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """The rules of one selection.

    - `ceiling_tokens`: what mandatory and required content may take; None: the budget.
    - `threshold`: the least score at which a record earns a place that covers nothing.
    - `sources`: their order for ties. `required`: keys that this call needs.
    - `pricing`: whether admission counts declared tokens only (an overrun is repaired
      after rendering), or what rendering adds too.
    - `faults`: records that break the rules are an error that lists all, or left out
      (an error all the same when one of them is mandatory).
    - `empty_block`: whether a block without records is rendered, and paid for.
    - `search_nodes`: how many forms the exact search may try.
    """

    version: str = "deuz-policy-v1"
    budget_tokens: int
    ceiling_tokens: int | None = None
    shares: tuple[Share, ...] = ()
    threshold: float = 0.0
    ranking: tuple[RankTerm, ...] = ("priority", "score", "source")
    ordering: tuple[OrderTerm, ...] = ("requirement", "role", "source")
    roles: tuple[str, ...] = ()
    sources: tuple[str, ...] = ()
    required: tuple[str, ...] = ()
    mandatory_form: Literal["cheapest"] = "cheapest"
    overhead: Overhead = Overhead()
    pricing: Literal["declared", "rendered"] = "rendered"
    repair: Literal["drop-last-discretionary", "none"] = "drop-last-discretionary"
    faults: Literal["raise", "exclude"] = "exclude"
    empty_block: Literal["omitted", "rendered"] = "omitted"
    search: Literal["greedy", "exact"] = "greedy"
    search_nodes: int = 20_000

    @property
    def is_ranking_fixed(self) -> bool:
        """Whether the ranking can be made once, whatever enters."""
        return _MOVING.isdisjoint(self.ranking)
