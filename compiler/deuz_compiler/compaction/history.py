"""A conversation as compaction sees it: each turn with its bytes and its parts.

Rules:
- Works for every wire: what is peculiar about one is in its parts reader.
- A turn that cannot be read is opaque: it is kept as it is.
"""

from collections.abc import Iterable, Sequence

import msgspec

from deuz_compiler.errors import NotLifted
from deuz_compiler.wires.own import summary_body
from deuz_compiler.wires.parts import (
    REASONING,
    SEALED,
    TEXT,
    TOOL_CALL,
    TOOL_RESULT,
    Part,
    ReadParts,
)
from deuz_compiler.wires.turns import Turn


class TurnView(msgspec.Struct, frozen=True, gc=False):
    """One turn, its raw JSON and its parts."""

    turn: Turn
    raw: bytes
    parts: tuple[Part, ...]
    is_opaque: bool = False

    @property
    def has_results(self) -> bool:
        """Tell whether the turn answers tool calls, or may: it cannot be read."""
        may_answer = self.is_opaque and self.turn.role == "user"
        if self.turn.role == "tool" or (may_answer and not self.turn.is_fresh):
            return True
        return any(part.kind == TOOL_RESULT for part in self.parts)

    @property
    def has_calls(self) -> bool:
        """Tell whether the turn calls tools."""
        return any(part.kind == TOOL_CALL for part in self.parts)

    @property
    def is_only_reasoning(self) -> bool:
        """Tell whether it is reasoning alone, which belongs to the turn behind it."""
        is_said = any(part.kind != REASONING for part in self.parts)
        return bool(self.parts) and not is_said

    @property
    def is_sealed(self) -> bool:
        """Tell whether the provider's own state or compaction is in it."""
        return any(part.kind == SEALED for part in self.parts)

    @property
    def summary(self) -> str | None:
        """What a summary of ours says, if the turn is one: a lone marked user text."""
        is_lone = len(self.parts) == 1 and self.parts[0].kind == TEXT
        if self.turn.role != "user" or not is_lone:
            return None
        return summary_body(self.parts[0].text)


History = Sequence[TurnView]


def view_turns(
    turns: Iterable[Turn], body: bytes, read_parts: ReadParts
) -> tuple[TurnView, ...]:
    """Return the turns of a body with their parts."""
    return tuple(_view(turn, body[turn.start : turn.end], read_parts) for turn in turns)


def _view(turn: Turn, raw: bytes, read_parts: ReadParts) -> TurnView:
    try:
        return TurnView(turn, raw, read_parts(raw))
    except NotLifted:
        return TurnView(turn, raw, (), is_opaque=True)
