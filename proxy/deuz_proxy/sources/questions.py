"""What a question finds in an index: its words weighed, chunks ranked and scored.

Rules:
- Of a question whose rarer words lead to thousands of chunks the commonest words are
  left out: they would cost the most and decide the least.
- Ties end at name and position: the same folder and query give the same answer.
- What is answered at once holds up all else meanwhile. So all that it may take is
  bounded beforehand: words to be told and asked for, chunks, and what is looked for in
  each of them.
"""

import sqlite3
from collections.abc import Collection, Sequence
from operator import itemgetter

import msgspec

from deuz_proxy.sources.found import KeptChunks
from deuz_proxy.sources.postings import KeptPostings, Weighed
from deuz_proxy.sources.scores import Fitting, Hit, nine_digits, scored_hits
from deuz_proxy.sources.words import KeptWords
from deuz_proxy.weights import FUNCTION_WORDS, counted_unknown

# The rarest words carry a query; the rest of a pasted log is only work.
_MOST_KNOWN_WORDS = 32
# Unknown words lower the score, but a page of them must not hide a good hit.
_MOST_UNKNOWN_WORDS = 4
_MOST_CHARACTERS = 4_000
# Chunks that a question's words lead to, each word's counted. Measured with the 36
# questions of `test_ranking`: with 4,000 the right page is found less often among 5,300
# chunks, with 8,000 as often as without a bound; among 51,000, too.
_MOST_FITS = 8_000
# What may be worked out where it holds up all else, a millisecond or two at most. New
# runs are told apart into words (5 microseconds a byte where all of it is folded), new
# words counted (0.15 ms each), new rows fitted (as much for a word, and 1 microsecond
# each), chunks read (10 microseconds), rows as good as the last ordered (2).
_MOST_NEW_BYTES = 400
_MOST_CHUNKS_AT_ONCE = 2_000
_MOST_NEW_WORDS = 4
_MOST_NEW_FITS = 400
_MOST_HITS_AT_ONCE = 60
_MOST_ROWS_AT_ONCE = 500
# Each word that holds the question together is looked for in each chunk.
_MOST_LOOKED_FOR = 1_000
# Prose that says `how` and `before` as the question does goes before code that does
# not, other things being alike.
_OF_GLUE = 0.13

# Rows and fits as JSON: one statement for any number of them.
_FIRST = """
SELECT chunks.id FROM json_each(?) AS hit
JOIN chunks ON chunks.id = CAST(hit.key AS INTEGER)
ORDER BY hit.value DESC, name, position LIMIT ?
"""

_Rated = tuple[float, float, int]
"""The fit of a row, which share of the question's weight its words have, the row."""


class _Asked(msgspec.Struct, frozen=True, gc=False):
    """A question's weight, words, their shares of it, and what holds them together.

    The words are those worth asking for, the rarest first.
    """

    whole: float
    words: Sequence[Weighed]
    shares: list[float]
    glue: Sequence[tuple[str, float]]


class Questions:
    """Answers from an index. Every method may raise `sqlite3.Error`.

    `words`, `postings` and `found` are the index's, whose owner keeps them true.
    """

    def __init__(
        self,
        connection: sqlite3.Connection,
        *,
        words: KeptWords,
        postings: KeptPostings,
        found: KeptChunks,
    ) -> None:
        self._connection = connection
        self._words = words
        self._postings = postings
        self._found = found

    def answer(self, text: str, limit: int, min_score: float) -> Sequence[Hit]:
        """Return the best chunks for the text, none for a text without known words."""
        asked = self._asked(self._words.distinct(text[:_MOST_CHARACTERS]))
        return self._hits(asked, self._rated(asked, limit), limit, min_score)

    def answer_at_once(
        self, text: str, limit: int, min_score: float
    ) -> Sequence[Hit] | None:
        """Do as `answer` if it is little work; else return None.

        It is where the index is small, and most of the words were asked for before.
        """
        postings = self._postings
        is_small = postings.chunks() <= _MOST_CHUNKS_AT_ONCE
        if not is_small or limit > _MOST_HITS_AT_ONCE:
            return None
        words = self._words.distinct_known(text[:_MOST_CHARACTERS], _MOST_NEW_BYTES)
        if words is None or postings.new_words(words) > _MOST_NEW_WORDS:
            return None
        asked = self._asked(words)
        is_much = len(asked.glue) * limit > _MOST_LOOKED_FOR
        if is_much or postings.new_fits(asked.words) > _MOST_NEW_FITS:
            return None
        rated = self._rated(asked, limit)
        if len(rated) > _MOST_ROWS_AT_ONCE:
            return None
        return self._hits(asked, rated, limit, min_score)

    def _asked(self, words: Collection[str]) -> _Asked:
        """Return the words worth asking for, as shares of the best possible score."""
        weighed = self._postings.weighed(words)
        said: list[Weighed] = []
        if not FUNCTION_WORDS.isdisjoint(words):
            said = [each for each in weighed if each[1] in FUNCTION_WORDS]
            weighed = [each for each in weighed if each[1] not in FUNCTION_WORDS]
        known = [each for each in weighed if each[2]]
        missing = len(weighed) - len(known)
        unknown = counted_unknown(missing, _MOST_UNKNOWN_WORDS)
        # Rarest first; equal ones by the alphabet.
        known.sort()
        asked = known[:_MOST_KNOWN_WORDS]
        if len(asked) * self._postings.chunks() > _MOST_FITS:
            asked = _bounded(asked)
        if not asked:
            said = []
        missed = self._postings.unknown_weight() * unknown
        whole = missed - sum([negative for negative, _, _ in asked])
        return _Asked(
            whole,
            asked,
            [-negative / whole for negative, _, _ in asked],
            [(f" {word} ", _OF_GLUE * -negative / whole) for negative, word, _ in said],
        )

    def _rated(self, asked: _Asked, limit: int) -> list[_Rated]:
        """Return the rows that fit best, and those as good as the last of them."""
        if not asked.words:
            return []
        rows = self._postings.fitting(asked.words, asked.shares, limit)
        whole = asked.whole
        return [(nine_digits(fit / whole), share, row) for row, fit, share in rows]

    def _hits(
        self, asked: _Asked, rated: list[_Rated], limit: int, min_score: float
    ) -> Sequence[Hit]:
        if len(rated) > limit:
            rated = self._first(rated, limit)
        chunks = self._found.take([row for _, _, row in rated])
        found = [
            (fit, share, chunk)
            for (fit, share, _), chunk in zip(rated, chunks, strict=True)
        ]
        # One sort for each term, the least first; most often no two fit alike.
        if len({fit for fit, _, _ in found}) < len(found):
            found.sort(key=_place)
        found.sort(key=itemgetter(0), reverse=True)
        return scored_hits(found, asked.glue, min_score)

    def _first(self, rated: list[_Rated], limit: int) -> list[_Rated]:
        """Leave equal ones out beyond the limit, by name and position of their chunks.

        There may be thousands: the index tells which go first.
        """
        by_row = {row: (fit, share, row) for fit, share, row in rated}
        fits = {row: fit for fit, _, row in rated}
        hits = msgspec.json.encode(fits).decode()
        first = self._connection.execute(_FIRST, (hits, limit)).fetchall()
        return [by_row[row] for (row,) in first]


def _place(found: Fitting) -> tuple[str, int]:
    chunk = found[2]
    return chunk.name, chunk.position


def _bounded(words: list[Weighed]) -> list[Weighed]:
    """Leave the last words out that lead to too many chunks; the first one stays."""
    fits = 0
    for number, (_, _, holding) in enumerate(words):
        fits += holding
        if number and fits > _MOST_FITS:
            return words[:number]
    return words
