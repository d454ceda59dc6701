"""What the model sees of a history, in pieces: the client's turns, and what is ours.

Rules:
- Turns that nothing was done to are one piece, however many: what is walked is as long
  as what was added.
- What was added is kept packed, for thousands of conversations remember it.
"""

import struct
from collections.abc import Sequence

import msgspec

from deuz_compiler.wires.turns import TOKEN_BYTES, pack_tokens, unpack_tokens

_PLACE = struct.Struct("<i")


class Element(msgspec.Struct, frozen=True, gc=False):
    """One piece of the outgoing history: a turn, a block or a summary."""

    digest: bytes
    tokens: int
    turn: int
    is_ours: bool


class Run(msgspec.Struct, frozen=True, gc=False):
    """The client's turns from `start` up to `end`, as they are."""

    start: int
    end: int


class Ours(msgspec.Struct, frozen=True, gc=False):
    """Place and estimated tokens of each element that the sidecar added, in order.

    Both are packed, 4 bytes each; `first` and `last` are places. A place counts
    elements behind the leading turns: it is below 0 for one that stands among those.
    """

    places: bytes = b""
    tokens: bytes = b""
    first: int = 0
    last: int = 0

    @property
    def count(self) -> int:
        """How many elements."""
        return len(self.tokens) // TOKEN_BYTES

    @property
    def within(self) -> bytes:
        """The places, if none is among the leading turns."""
        return self.places if self.first >= 0 else b""

    def pairs(self) -> Sequence[tuple[int, int]]:
        """Return place and tokens of each."""
        places = [place for (place,) in _PLACE.iter_unpack(self.places)]
        return list(zip(places, unpack_tokens(self.tokens), strict=True))

    def with_last(self, place: int, tokens: int) -> "Ours":
        """Return these and one more behind them."""
        return Ours(
            self.places + _PLACE.pack(place),
            self.tokens + pack_tokens([tokens]),
            self.first if self.places else place,
            place,
        )


def ours_of(pieces: Sequence[Run | Element], lead: int) -> Ours:
    """Return what is ours of these pieces, the first `lead` turns leading."""
    found = []
    at = -lead
    for piece in pieces:
        if isinstance(piece, Element):
            found.append((at, piece.tokens))
            at += 1
        else:
            at += piece.end - piece.start
    return pack_ours(found)


def pack_ours(pairs: Sequence[tuple[int, int]]) -> Ours:
    """Return place and tokens of each, packed."""
    if not pairs:
        return Ours()
    places = [_PLACE.pack(place) for place, _ in pairs]
    tokens = pack_tokens([tokens for _, tokens in pairs])
    return Ours(b"".join(places), tokens, pairs[0][0], pairs[-1][0])


class Pieces:
    """Collects pieces from the first turn on. One projection owns it.

    `told` are those so far. From turn `rest` on nothing is said yet.
    """

    __slots__ = ("rest", "told")

    def __init__(self) -> None:
        self.told: list[Run | Element] = []
        self.rest = 0

    def replace(self, first: int, last: int, element: Element) -> None:
        """Put the element in the place of these turns."""
        self._run_to(first)
        self.told.append(element)
        self.rest = last + 1

    def keep(self, turn: int, changed: Element | None) -> None:
        """Put a turn behind the fold that moved it, as it is or changed."""
        self.told.append(changed or Run(turn, turn + 1))

    def add(self, turn: int, elements: Sequence[Element]) -> None:
        """Put the elements behind the turn."""
        if elements:
            self._run_to(turn + 1)
            self.told += elements

    def _run_to(self, end: int) -> None:
        if end > self.rest:
            self.told.append(Run(self.rest, end))
            self.rest = end
