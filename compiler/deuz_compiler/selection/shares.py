"""The split of what is left for optional content between kinds.

Rules:
- Weights are whole numbers and so is the arithmetic: a share is `room * weight // sum`,
  rounded down; what rounding leaves is open to all kinds.
- A unit is charged to the kind of its first member, dependencies included.
- A kind without a weight has no share; it may still get what others leave.
- Without any shares there is one room for all, and no share says no.
"""

from collections.abc import Sequence

from deuz_compiler.records.policy import Share


class Shares:
    """The room, and what each kind has used of it. Mutable; of one selection."""

    __slots__ = ("_room_tokens", "_total", "_used", "_weights")

    def __init__(self, shares: Sequence[Share], room_tokens: int) -> None:
        self._room_tokens = room_tokens
        self._weights = {share.kind: share.weight for share in shares}
        self._total = sum([share.weight for share in shares])
        self._used: dict[str, int] = {}

    def share_tokens(self, kind: str) -> int:
        """Return the whole share of a kind."""
        return self._room_tokens * self._weights.get(kind, 0) // self._total

    def admits(self, kind: str, cost: int) -> bool:
        """Whether the kind's share has room for a cost."""
        if not self._weights:
            return True
        return self._used.get(kind, 0) + cost <= self.share_tokens(kind)

    def spend(self, kind: str, cost: int) -> None:
        """Charge a cost to a kind, whether or not its share has the room."""
        self._used[kind] = self._used.get(kind, 0) + cost

    def shortage(self, kind: str, cost: int) -> int | None:
        """Return how much more room would let the share admit it; None: no amount."""
        weight = self._weights.get(kind, 0)
        if weight == 0:
            return None
        needed = (self._used.get(kind, 0) + cost) * self._total
        # Rounded up: the share itself is rounded down.
        return -(-needed // weight) - self._room_tokens
