"""Which rows fit a question's words best, and which share of the question they have.

Rules:
- Written in C (`_best_rows.c`) where that was built with the package: most of what a
  question takes are these sums. Without it, or where rows lie too far apart for sums
  that stand by row, the same is found here.
- Numbers are added in one order, whatever else is asked: of the fits, words of most
  chunks first.
"""

import importlib
from array import array
from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import Any

BUILT = "deuz_proxy.sources._best_rows"
# Sums of fits that are as close are equal: they were added up by other words.
_ROUNDING = 1e-9

Posting = tuple[bytes, bytes]
"""The rows that have a word, as numbers of 32 bits, and how well it fits each."""
Fitting = tuple[int, float, float]
"""A row, what its words' fits add up to, and what their shares do."""
FindBest = Callable[[list[Posting], list[float], int, int], list[Fitting]]
"""Takes the words' postings and shares, how many of them are rarer, and how many rows.

All fits are above 0. Returns the best rows, in no order, and those as good as the last.
"""


def pack(rows: list[int], fits: list[float]) -> Posting:
    """Return a word's rows, and their fits."""
    return array("I", rows).tobytes(), array("d", fits).tobytes()


def unpack(posting: Posting) -> Iterator[tuple[int, float]]:
    """Return rows and fits, side by side."""
    rows, fits = posting
    return zip(array("I", rows), array("d", fits), strict=True)


def best_in_python(
    postings: list[Posting], shares: list[float], rarer: int, most: int
) -> list[Fitting]:
    """Find the best rows without what is built."""
    sums: dict[int, float] = {}
    for posting in (*postings[rarer:], *postings[:rarer]):
        for row, fit in unpack(posting):
            sums[row] = sums.get(row, 0.0) + fit
    if not sums:
        return []
    least = sorted(sums.values())[-most:][0] - _ROUNDING
    had = {row: 0.0 for row, fit in sums.items() if fit >= least}
    for posting, share in zip(postings, shares, strict=True):
        for row, _ in unpack(posting):
            if row in had:
                had[row] += share
    return [(row, sums[row], share) for row, share in had.items()]


def load_built(function: str, name: str = BUILT) -> Any:  # Callers say what it is.
    """Return a function written in C; None: not built, or built from another source."""
    try:
        return getattr(importlib.import_module(name), function)
    except (ImportError, AttributeError):
        return None


@lru_cache(maxsize=2)
def load_finder(name: str = BUILT) -> FindBest:
    """Return what finds the best rows: what was built, or what does without."""
    built: Callable[..., list[Fitting] | None] | None = load_built("best_rows", name)
    if built is None:
        return best_in_python

    def find_best(
        postings: list[Posting], shares: list[float], rarer: int, most: int
    ) -> list[Fitting]:
        found = built(postings, shares, rarer, most)
        if found is None:
            return best_in_python(postings, shares, rarer, most)
        return found

    return find_best
