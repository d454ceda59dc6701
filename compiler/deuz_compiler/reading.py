"""What a ledger in the process held of a history, for the next request to go on with.

Rules:
- It has the ledger's own entries, and none of what is in them: the ledger empties those
  that it holds no more, and they are seen to be empty here.
- A request keeps the operations that it read at first: until it is answered others may
  replace them, and it would put its own in place of less than there was.
"""

from collections.abc import Sequence
from typing import Protocol

import msgspec

from deuz_compiler.operations import Append, Operation


class Held(Protocol):
    """An entry of a ledger; one that the ledger holds no more has no operations.

    `text` is that of the block behind its turn, empty where none stands there.
    """

    @property
    def operations(self) -> tuple[Operation, ...]:
        """What it holds."""

    @property
    def text(self) -> bytes:
        """What of it is written into a request that it was written into before."""


def block_text(operations: Sequence[Operation]) -> bytes:
    """Return the text of the block that these, all of one turn, hold; none is empty."""
    return next((o.text for o in operations if type(o) is Append), b"")


class Reading(msgspec.Struct, frozen=True, gc=False):
    """What a ledger held of a history: its entries, by turn among the first `count`.

    Nothing else was held of those. `version` is the ledger's, which has another one
    when it holds anything else. None of the entries was used last before `used_at`.
    `digest` is that of what they held, once it was asked for.
    """

    held: dict[int, Held]
    count: int
    version: int = 0
    used_at: float = 0.0
    digest: int | None = None

    def operations(self) -> dict[int, tuple[Operation, ...]]:
        """Return what of it the ledger still holds, by turn."""
        return {
            turn: operations
            for turn, entry in self.held.items()
            if (operations := entry.operations)
        }

    def texts(self) -> list[bytes]:
        """Return the texts of the blocks, in their order."""
        return [text for entry in self.held.values() if (text := entry.text)]

    def up_to(self, count: int) -> "Reading":
        """Return what was held of the first `count` turns, all of which were read."""
        if count == self.count:
            return self
        held, digest = self.held, self.digest
        if count < self.count and held and next(reversed(held)) >= count:
            held, digest = {at: e for at, e in held.items() if at < count}, None
        return Reading(held, count, self.version, self.used_at, digest)
