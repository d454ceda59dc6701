"""Which chunks have a word and how well it fits them, kept until the index changes.

Rules:
- What a question costs is what it asks for the first time. Words come again, and those
  that most chunks have, which cost most, come in most questions.
- Who writes to the index says so with `forget`; what another process wrote is seen by
  `notice_others`.
- Bounded: where a bound is reached, what was kept is let go. One thread's own.
"""

import math
import sqlite3
from collections.abc import Mapping, Sequence

from deuz_proxy.weights import word_weight

# A chunk and its fit take some 100 bytes.
_MOST_FITS = 100_000
_MOST_WORDS = 50_000
# FTS5's own: idf of a word in more than half of all rows, and the bound k1 + 1 of what
# repetition can add.
_LEAST_IDF = 1e-6
_SATURATION = 2.2
_CHUNKS = "SELECT count(*) FROM chunks"
_ROWS = "SELECT id FROM chunks"
_HOLDING = "SELECT count(*) FROM words WHERE words MATCH ?"
# A word in headings or in the file's name counts twice.
_FITS = "SELECT rowid, bm25(words, 2.0, 1.0) FROM words WHERE words MATCH ?"


class KeptPostings:
    """The index's words. Every method but `forget` may raise `sqlite3.Error`.

    A word is letters and digits, folded as those of the index.
    """

    def __init__(
        self,
        connection: sqlite3.Connection,
        *,
        most_fits: int = _MOST_FITS,
        most_words: int = _MOST_WORDS,
    ) -> None:
        self._connection = connection
        self._most_fits = most_fits
        self._most_words = most_words
        self._version = -1
        self._chunks: int | None = None
        self._holding: dict[str, int] = {}
        self._fits: dict[str, Mapping[int, float]] = {}
        # Of words that most chunks have: their fits in the order of all rows.
        self._columns: dict[str, Sequence[float]] = {}
        self._rows: Sequence[int] = ()
        self._kept_fits = 0

    def forget(self) -> None:
        """Let go what is kept: the index is about to change."""
        self._chunks = None
        self._holding.clear()
        self._let_go_fits()

    def notice_others(self) -> None:
        """Let go what is kept if another connection has changed the index."""
        (version,) = self._connection.execute("PRAGMA data_version").fetchone()
        if version != self._version:
            self._version = version
            self.forget()

    def chunks(self) -> int:
        """Return how many chunks there are."""
        if self._chunks is None:
            (self._chunks,) = self._connection.execute(_CHUNKS).fetchone()
        return self._chunks

    def holding(self, word: str) -> int:
        """Return how many chunks have the word."""
        holding = self._holding.get(word)
        if holding is None:
            asked = (f'"{word}"',)
            (holding,) = self._connection.execute(_HOLDING, asked).fetchone()
            if len(self._holding) >= self._most_words:
                self._holding.clear()
            self._holding[word] = holding
        return holding

    def fits(self, word: str) -> Mapping[int, float]:
        """Return the rows of the chunks that have the word, each with its fit.

        That is the word's weight, and what of it repetition, a short chunk and headings
        let a chunk have: all of it at most, and always something.
        """
        fits = self._fits.get(word)
        if fits is None:
            asked = (f'"{word}"',)
            found = self._connection.execute(_FITS, asked).fetchall()
            chunks = self.chunks()
            best = -_SATURATION * _idf(chunks, len(found))
            each = word_weight(chunks, len(found)) / best
            fits = {row: negative * each for row, negative in found}
            if self._kept_fits + len(fits) > self._most_fits:
                self._let_go_fits()
            self._fits[word] = fits
            self._kept_fits += len(fits)
        return fits

    def sums(self, words: Sequence[str]) -> Mapping[int, float]:
        """Return what the fits of the words add up to, by row; others may have 0."""
        half = self.chunks() / 2
        sums: dict[int, float] = {}
        common = [word for word in words if self.holding(word) > half]
        if common:
            columns = [self._column(word) for word in common]
            # Added in C, a dozen times as fast as one by one.
            added = map(sum, zip(*columns, strict=True))
            sums = dict(zip(self._rows, added, strict=True))
        for word in words:
            if self.holding(word) <= half:
                for row, fit in self.fits(word).items():
                    sums[row] = sums.get(row, 0.0) + fit
        return sums

    def _column(self, word: str) -> Sequence[float]:
        fits = self.fits(word)
        column = self._columns.get(word)
        if column is None:
            if not self._rows:
                found = self._connection.execute(_ROWS).fetchall()
                self._rows = [row for (row,) in found]
            column = self._columns[word] = [fits.get(row, 0.0) for row in self._rows]
        return column

    def _let_go_fits(self) -> None:
        self._fits.clear()
        self._columns.clear()
        self._rows = ()
        self._kept_fits = 0


def _idf(chunks: int, holding: int) -> float:
    """Return a word's weight as FTS5 works it out."""
    return max(_LEAST_IDF, math.log((chunks - holding + 0.5) / (holding + 0.5)))
