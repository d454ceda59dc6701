"""The compiled scanner, where it was built: one pass over a body, in C.

Rules:
- It is built with the package if there is a C compiler; without it all works, and the
  first sight of a long history takes some five times as long.
- It answers None for whatever it does not take, and never raises for a body.
"""

import importlib
from collections.abc import Callable

import msgspec

_NAME = "deuz_compiler.wires._scanner"

Place = tuple[str, int, int]
Columns = tuple[bytes, bytes, bytes, bytes]
Scan = Callable[
    [bytes, int, int, bytes, bytes, bytes, bytes, bytes, int],
    tuple[tuple[Place, ...], int, int, tuple[Place, ...], tuple[int, ...], Columns]
    | None,
]
"""Takes a body, where to begin and what stands there (0: the body's start, 1: what is
behind a history's bracket, 2: behind one of its turns), the history's name, what a
turn is glanced at for, and the digests' seed. Returns the members ahead of the history,
its start and end (the start is 1 if it is not here), the members behind it, the
signatures that its turns have, and as packed columns (`turns.py`) their places, which
of the signatures each has (255: none), likely tokens, and digests of the turns as they
stand, where they have a signature.
"""
Links = Callable[[bytes, bytes, bytes], tuple[bytes, ...]]
"""Takes a scope of 8 bytes, a link of 16, and digests of 16 each. Returns for each the
scope and the next link: XXH3 of the last one and the digest.
"""

Starts = Callable[[bytes, bytes], bytes]
"""Takes a link of 16 bytes and a body. Returns packed digests of its starts, as
`starts.py` makes them.
"""

StartDigest = Callable[[bytes, bytes, bytes, int], bytes | None]
"""Takes a link of 16 bytes, packed digests of a body's starts, the body, and an offset.
Returns the digest of the start that ends there; None where few bytes are to be hashed.
"""

Halved = Callable[[bytes], bytes]
"""Takes digests of 16 bytes each. Returns the first half of each."""

Sums = Callable[[bytes], tuple[int, int]]
"""Takes a column of numbers of 4 bytes. Returns their sum and the largest, or 0."""

Holds = Callable[[bytes, int, int, bytes], bool]
"""Takes a text, start and end of a part of it, and words that a NUL each ends. Tells
whether one of these stands there.
"""

Splice = Callable[[bytes, bytes, bytes, bytes, list[bytes]], bytes]
"""Takes a body, packed places in it of 8 bytes each, in order, what stands ahead of and
behind each text, and a text for each place. Returns the body with them.
"""


class Scanner(msgspec.Struct, frozen=True, gc=False):
    """What was compiled."""

    scan: Scan
    links: Links
    starts: Starts
    start_digest: StartDigest
    halved: Halved
    sums: Sums
    holds: Holds
    splice: Splice


def load_scanner(name: str = _NAME) -> Scanner | None:
    """Return the scanner; None if it was not built, or not from this source."""
    try:
        module = importlib.import_module(name)
        return Scanner(
            module.scan,
            module.links,
            module.starts,
            module.start_digest,
            module.halved,
            module.sums,
            module.holds,
            module.splice,
        )
    except (ImportError, AttributeError):
        # Not built, or built from an earlier source.
        return None


# Made at once, as it is an import: to ask for it takes as long as a short hash.
SCANNER = load_scanner()
"""What was compiled, if it was."""


def holds(text: bytes, start: int, end: int, words: bytes) -> bool:
    """Tell whether one of the words, each with a NUL behind it, stands in this part."""
    if SCANNER is not None:
        return SCANNER.holds(text, start, end, words)
    return _holds(text, start, end, words)


def _holds(text: bytes, start: int, end: int, words: bytes) -> bool:
    return any(text.find(word, start, end) >= 0 for word in words.split(b"\0")[:-1])
