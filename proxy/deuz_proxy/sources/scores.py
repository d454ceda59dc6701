"""Scores of chunks, from how well they fit a question.

Rules:
- A score tells which share of the question's weight a chunk has; how well its words fit
  it tells apart what has the same words.
- What fits better is worth no less, though it has fewer of the words.
- Nine digits: the same folder and question give the same scores everywhere.
"""

from collections.abc import Callable, Sequence
from operator import itemgetter

import msgspec

from deuz_proxy.sources.best_rows import BUILT, load_built
from deuz_proxy.sources.found import FoundChunk

# The rest of a score tells hits with the same words apart.
_OF_SHARE = 0.85
_DIGITS = 9
_SCALE = 10.0**_DIGITS
# Of numbers up to 1,000 scaling is off by a fifth of what is left to a half.
_ALMOST_HALF = 0.4995

Round = Callable[[float], float]
Fitting = tuple[float, float, FoundChunk]
"""A chunk, how well it fits, and which share of the question's weight it has."""


class Hit(msgspec.Struct, frozen=True):
    """A chunk that answers, best first."""

    name: str
    chunk: str
    text: str
    score: float
    digest: str


def scored_hits(
    found: Sequence[Fitting], glue: Sequence[tuple[str, float]], min_score: float
) -> Sequence[Hit]:
    """Return the hits of the chunks, the best first; so come the chunks.

    `glue` are words that hold the question together, and what each adds to the fit.
    """
    if glue:
        found = [
            (nine_digits(fit + _held_together(each, glue)), share, each)
            for fit, share, each in found
        ]
        # Equal ones stay in the order of name and position.
        found.sort(key=itemgetter(0), reverse=True)
    hits: list[Hit] = []
    # What rounding cannot raise that far is not rounded.
    least, lowest = 0.0, min_score - 1 / _SCALE
    # Written out: each chunk comes by here, and `min` takes longer than all of it.
    for fit, share, each in reversed(found):
        if share > least:  # noqa: PLR1730  # As said.
            least = share
        score = _OF_SHARE * least + (1 - _OF_SHARE) * (fit if fit < 1.0 else 1.0)
        if score < lowest:
            continue
        score = nine_digits(score if score < 1.0 else 1.0)
        if score >= min_score:
            hits.append(Hit(each.name, each.chunk, each.text, score, each.digest))
    hits.reverse()
    return tuple(hits)


def digits_in_python(number: float) -> float:
    """Return `round(number, 9)`, for a number from 0 to 1,000.

    That writes the number out and reads it again, which takes twenty times as long.
    """
    scaled = number * _SCALE
    whole = int(scaled + 0.5)
    # Both are exact, so the quotient is the number next to those digits.
    if -_ALMOST_HALF < scaled - whole < _ALMOST_HALF:
        return whole / _SCALE
    return round(number, _DIGITS)


def load_rounding(name: str = BUILT) -> Round:
    """Return what rounds: what was built, or what does without."""
    built: Round | None = load_built("nine_digits", name)
    return built or digits_in_python


# At import: each chunk comes by here, and to look it up would take as long again.
nine_digits = load_rounding()
"""Returns `round(number, 9)`, for a number from 0 to 1,000."""


def _held_together(each: FoundChunk, glue: Sequence[tuple[str, float]]) -> float:
    return sum([weight for word, weight in glue if word in each.small])
