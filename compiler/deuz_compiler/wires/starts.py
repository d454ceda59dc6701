"""Digests of a body's starts: by them it is known again, and nothing of it is kept.

Rules:
- A start is known at fixed places, by all that stands ahead of it: bodies that begin
  alike, however long, are told apart soon behind the byte in which they differ.
- One pass makes them all. A start that ends elsewhere costs what stands behind the last
  place ahead of its end.
- Digests begin with the scope's root: no other scope can have the same.
"""

from bisect import bisect_right
from itertools import pairwise
from struct import Struct

import msgspec
import xxhash

from deuz_compiler.wires.scanner import SCANNER
from deuz_compiler.wires.turns import DIGEST_BYTES

_FIRST, _LEAST_APART = 512, 1024
_FARTHEST = 1 << 40
# A body that has grown to four times its size is read anew: most of it is new.
_MOST_NEWEST = 16
_NEWEST = slice(-_MOST_NEWEST * DIGEST_BYTES, None)
# So many digests behind each other.
_DIGESTS = tuple(
    Struct(f"{DIGEST_BYTES}s" * count) for count in range(_MOST_NEWEST + 1)
)


def _places() -> tuple[int, ...]:
    """Return all places: within twice the size there are eight, or one a kilobyte."""
    places = [_FIRST]
    while places[-1] < _FARTHEST:
        last = places[-1]
        apart = max(_LEAST_APART, (1 << last.bit_length() - 1) // 8)
        places.append(last + (apart if last >= _LEAST_APART else last))
    return tuple(places)


PLACES = _places()
"""Where the starts end that a body is looked up by."""


class Starts(msgspec.Struct, frozen=True, gc=False):
    """The starts of one body, as far as it has places: their digests, packed."""

    root: bytes
    body: bytes
    packed: bytes

    def key(self, offset: int) -> bytes:
        """Return the digest at the last place up to there; b"" if there is none."""
        packed = self.packed
        count = len(packed) // DIGEST_BYTES
        # Mostly, all of the body's places are up to there.
        if count and PLACES[count - 1] > offset:
            count = bisect_right(PLACES, offset, 0, count)
        end = count * DIGEST_BYTES
        return packed[end - DIGEST_BYTES : end] if end else b""

    def newest(self) -> tuple[bytes, ...]:
        """Return the digests at the last places of the body, the very last first."""
        packed = self.packed[_NEWEST]
        return _DIGESTS[len(packed) // DIGEST_BYTES].unpack(packed)[::-1]

    def digest(self, offset: int) -> bytes:
        """Return the digest of the body's start that ends there."""
        if SCANNER is not None:
            found = SCANNER.start_digest(self.root, self.packed, self.body, offset)
            if found is not None:
                return found
        count = bisect_right(PLACES, offset, 0, len(self.packed) // DIGEST_BYTES)
        start, link = 0, self.root
        if count:
            start, link = PLACES[count - 1], self.key(offset)
        return _link(link, memoryview(self.body)[start:offset])

    def goes_on(self, offset: int, digest: bytes) -> bool:
        """Tell whether the body goes on behind the start that has this digest."""
        return 0 < offset < len(self.body) and self.digest(offset) == digest


def starts_of(root: bytes, body: bytes) -> Starts:
    """Return the starts of a body under the scope's root of 16 bytes."""
    pack = SCANNER.starts if SCANNER else _pack
    return Starts(root, body, pack(root, body))


def _pack(link: bytes, body: bytes) -> bytes:
    view, digests = memoryview(body), []
    for start, end in pairwise((0, *PLACES[: bisect_right(PLACES, len(body))])):
        link = _link(link, view[start:end])
        digests.append(link)
    return b"".join(digests)


def _link(link: bytes, text: memoryview) -> bytes:
    digest = xxhash.xxh3_128_digest
    return digest(link + digest(text))
