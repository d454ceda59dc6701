"""The turns of a history, packed: as many as there are, they are a handful of values.

Rules:
- One column for each thing that is known of a turn. A turn is made of them when it is
  asked for; what is asked of all of them is read from a column.
- Numbers have their little end first.
"""

import struct
from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import compress, count
from typing import overload

import msgspec

from deuz_compiler.errors import NotLifted
from deuz_compiler.wires.glancing import Peek
from deuz_compiler.wires.scanner import SCANNER

DIGEST_BYTES, TOKEN_BYTES = 16, 4
UNREAD = 255
"""The kind of a turn of which nothing is known yet."""

_PLACE, _NUMBER = struct.Struct("<QQ"), struct.Struct("<I")
# Of which a byte tells them apart; a wire has some ten.
_MOST_PEEKS = UNREAD
# Of so many, each is asked by itself in the time that it takes to ask all at once.
_FEW = 64


class Turn(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """One element of the client's history.

    `role` is wire-neutral: `system`, `user`, `assistant` or `tool`. `is_fresh` says
    that the user's own text or media is in it and no tool result. `opens_calls` says
    that tool results must follow. `tokens` is an estimate. `digest` has 16 bytes.
    """

    start: int
    end: int
    role: str
    is_fresh: bool
    opens_calls: bool
    tokens: int
    digest: bytes


class Turns(msgspec.Struct, frozen=True, gc=False, array_like=True, eq=False):  # noqa: PLW1641  # None is looked up by them.
    """The turns of a history in their order; a part of them is a slice.

    Of each turn there are start and end of 8 bytes each in `places`, one byte in
    `kinds`, which says where among the `peeks` it is told what the turn is, a number of
    4 bytes in `tokens`, and 16 bytes in `digests`. Those are equal that say the same,
    in whatever order they have their peeks.
    """

    peeks: tuple[Peek, ...] = ()
    kinds: bytes = b""
    places: bytes = b""
    tokens: bytes = b""
    digests: bytes = b""

    def __len__(self) -> int:
        """Return how many turns there are."""
        return len(self.kinds)

    def __eq__(self, other: object) -> bool:
        """Tell whether each turn is the same."""
        if not isinstance(other, Turns) or len(self) != len(other):
            return False
        columns = (self.places, self.tokens, self.digests)
        told = [self.peeks[kind] for kind in self.kinds]
        return columns == (other.places, other.tokens, other.digests) and told == [
            other.peeks[kind] for kind in other.kinds
        ]

    @overload
    def __getitem__(self, at: int) -> Turn: ...
    @overload
    def __getitem__(self, at: slice) -> "Turns": ...
    def __getitem__(self, at: int | slice) -> "Turn | Turns":
        """Return one turn, or those of a slice without steps."""
        if isinstance(at, slice):
            first, end, _ = at.indices(len(self.kinds))
            return self._part(first, max(first, end))
        index = range(len(self.kinds))[at]
        peek = self.peeks[self.kinds[index]]
        start, end = self.place(index)
        (tokens,) = _NUMBER.unpack_from(self.tokens, index * _NUMBER.size)
        digest = self.digests[index * DIGEST_BYTES : (index + 1) * DIGEST_BYTES]
        is_fresh, opens_calls = peek.is_fresh, peek.opens_calls
        return Turn(start, end, peek.role, is_fresh, opens_calls, tokens, digest)

    def __iter__(self) -> Iterator[Turn]:
        """Return each turn, the first one first."""
        return map(self.__getitem__, range(len(self.kinds)))

    def __reversed__(self) -> Iterator[Turn]:
        """Return each turn, the last one first."""
        return map(self.__getitem__, range(len(self.kinds) - 1, -1, -1))

    def peek(self, index: int) -> Peek:
        """Return what one turn is, counted from the first."""
        return self.peeks[self.kinds[index]]

    def place(self, index: int) -> tuple[int, int]:
        """Return start and end of one turn, counted from the first."""
        start, end = _PLACE.unpack_from(self.places, index * _PLACE.size)
        return start, end

    def count_leading(self, role: str) -> int:
        """Return how many of the first turns have the role, up to another one."""
        peeks, count = self.peeks, 0
        for kind in self.kinds:
            if peeks[kind].role != role:
                break
            count += 1
        return count

    def fresh_from(self, first: int) -> Sequence[int]:
        """Return which of them are fresh, from this one on, by index."""
        peeks, kinds = self.peeks, self.kinds[first:]
        if len(kinds) > _FEW:
            told = bytes([peek.is_fresh for peek in peeks]).ljust(UNREAD + 1, b"\0")
            return tuple(compress(count(first), kinds.translate(told)))
        fresh = []
        # Not listed at once: mostly there are two, and none is fresh.
        for at, kind in enumerate(kinds, first):
            if peeks[kind].is_fresh:
                fresh.append(at)
        return fresh

    def followed_by(self, others: "Turns") -> "Turns":
        """Return these turns and the others behind them.

        Raises:
            NotLifted: they are of more kinds than any client sends.
        """
        if not self.kinds:
            return others
        peeks, table = _joined(self.peeks, others.peeks)
        return Turns(
            peeks,
            self.kinds + others.kinds.translate(table),
            self.places + others.places,
            self.tokens + others.tokens,
            self.digests + others.digests,
        )

    def _part(self, first: int, end: int) -> "Turns":
        if (first, end) == (0, len(self.kinds)):
            return self
        return Turns(
            self.peeks,
            self.kinds[first:end],
            self.places[first * _PLACE.size : end * _PLACE.size],
            self.tokens[first * _NUMBER.size : end * _NUMBER.size],
            self.digests[first * DIGEST_BYTES : end * DIGEST_BYTES],
        )


NO_TURNS = Turns()


# Conversations of one client have the same few, and go on with some of them.
@lru_cache(maxsize=1_024)
def _joined(
    known: tuple[Peek, ...], others: tuple[Peek, ...]
) -> tuple[tuple[Peek, ...], bytes]:
    """Return both, each once, and what makes kinds of the whole from the others'."""
    peeks = list(known)
    kinds = bytes([kind_of(peek, peeks) for peek in others])
    return tuple(peeks), kinds.ljust(UNREAD + 1)


def kind_of(peek: Peek, peeks: list[Peek]) -> int:
    """Return where the peek is among those that are known, or is put behind them.

    Raises:
        NotLifted: there are more than any client sends.
    """
    if peek in peeks:
        return peeks.index(peek)
    if len(peeks) == _MOST_PEEKS:
        raise NotLifted("unknown_shape")
    peeks.append(peek)
    return len(peeks) - 1


def pack_places(places: Sequence[tuple[int, int]]) -> bytes:
    """Return starts and ends as a column."""
    return b"".join([_PLACE.pack(*place) for place in places])


def place_in(places: bytes, index: int) -> tuple[int, int]:
    """Return start and end of one turn in such a column."""
    start, end = _PLACE.unpack_from(places, index * _PLACE.size)
    return start, end


def sum_tokens(tokens: bytes) -> int:
    """Return the sum of such a column."""
    return (SCANNER.sums(tokens) if SCANNER else _sums(tokens))[0]


def most_tokens(tokens: bytes) -> int:
    """Return the largest number of such a column; 0 of an empty one."""
    return (SCANNER.sums(tokens) if SCANNER else _sums(tokens))[1]


def _sums(tokens: bytes) -> tuple[int, int]:
    counts = unpack_tokens(tokens)
    return sum(counts), max(counts, default=0)


def unpack_tokens(tokens: bytes) -> tuple[int, ...]:
    """Return the numbers of such a column."""
    return _numbers(len(tokens) // TOKEN_BYTES).unpack(tokens)


# To spell one out and to look it up takes longer than to read a small column.
@lru_cache(maxsize=1_024)
def _numbers(count: int) -> struct.Struct:
    return struct.Struct(f"<{count}I")


def pack_tokens(counts: Sequence[int]) -> bytes:
    """Return numbers of tokens as a column."""
    return struct.pack(f"<{len(counts)}I", *counts)
