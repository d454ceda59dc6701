"""The compiled scanner, where it was built: one pass over a body, in C.

Rules:
- It is built with the package if there is a C compiler; without it all works, and the
  first sight of a long history takes some five times as long.
- It answers None for whatever it does not take, and never raises for a body.
"""

import importlib
from collections.abc import Callable
from functools import lru_cache

_NAME = "deuz_compiler.wires._scanner"

Place = tuple[str, int, int]
Scanner = Callable[
    [bytes, int, int, bytes, bytes, bytes],
    tuple[tuple[Place, ...], int, int, tuple[Place, ...], list[tuple[int, int, int]]]
    | None,
]
"""Takes a body, where to begin and what stands there (0: the body's start, 1: what is
behind a history's bracket, 2: behind one of its turns), the history's name, and what a
turn is glanced at for. Returns the members ahead of the history, its start and end (the
start is 1 if it is not here), the members behind it, and start, end and signature of
each turn.
"""


@lru_cache(maxsize=2)
def load_scanner(name: str = _NAME) -> Scanner | None:
    """Return the scanner; None if it was not built."""
    try:
        module = importlib.import_module(name)
    except ImportError:
        return None
    scanner: Scanner = module.scan
    return scanner
