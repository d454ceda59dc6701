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
from array import array
from collections.abc import Iterable, Mapping, Sequence
from operator import itemgetter
from sys import byteorder

import msgspec

from deuz_proxy.weights import word_weight

# A chunk and its fit take some 100 bytes.
_MOST_FITS = 100_000
_MOST_WORDS = 50_000
# FTS5's own: idf of a word in more than half of all rows, and the bound k1 + 1 of what
# repetition can add.
_LEAST_IDF = 1e-6
_SATURATION = 2.2
# Words of more than an eighth of all chunks are added in lanes. A lane is a twentieth
# of the work that a fit by itself is, and eight rows take as much memory as one fit.
_DENSE = 8
# Lanes of 32 bits hold sums up to 1,024. A word of more than an eighth of all chunks
# weighs 2.1 at most, and a question asks for 32 words.
_LANE_BYTES = 4
_LANE_SCALE = 2**22
# Of 200 rows the twentieth best is then found among some fifty.
_SAMPLED, _SPARE = 8, 4
# Sums of floats in another order are off by far less, and so is what counts as equal.
_ROUNDING = 1e-6
_CHUNKS = "SELECT count(*) FROM chunks"
_ROWS = "SELECT id FROM chunks"
_HOLDING = "SELECT count(*) FROM words WHERE words MATCH ?"
# A word in headings or in the file's name counts twice.
_FITS = "SELECT rowid, bm25(words, 2.0, 1.0) FROM words WHERE words MATCH ?"


Weighed = tuple[float, str, int]
"""A word: minus its weight, itself, and how many chunks have it."""
Fitting = tuple[int, float, tuple[float, ...]]
"""A row: what the words' fits add up to, and each, 0 where it has not the word."""


class _Column(msgspec.Struct, frozen=True, gc=False):
    """A word's fits in the order of all rows; as lanes of one number, rounded down."""

    fits: list[float]
    lanes: int


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
        self._known: dict[str, Weighed] = {}
        self._fits: dict[str, Mapping[int, float]] = {}
        # Of words that many chunks have: their fits in the order of all rows.
        self._columns: dict[str, _Column] = {}
        self._rows: Sequence[int] = ()
        self._places: Mapping[int, int] = {}
        self._kept_fits = 0

    def forget(self) -> None:
        """Let go what is kept: the index is about to change."""
        self._chunks = None
        self._known.clear()
        self._let_go_fits()

    def notice_others(self) -> bool:
        """Let go what is kept if another connection has changed the index; tell."""
        (version,) = self._connection.execute("PRAGMA data_version").fetchone()
        is_changed: bool = version != self._version
        if is_changed:
            self._version = version
            self.forget()
        return is_changed

    def chunks(self) -> int:
        """Return how many chunks there are."""
        if self._chunks is None:
            (self._chunks,) = self._connection.execute(_CHUNKS).fetchone()
        return self._chunks

    def weighed(self, words: Iterable[str]) -> list[Weighed]:
        """Return what each word weighs, and how many chunks have it."""
        known = self._known
        return [known.get(word) or self._weigh(word) for word in words]

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

    def fitting(self, words: Sequence[Weighed], most: int) -> list[Fitting]:
        """Return the rows that fit the words best, in no order.

        The `most` best are among them, and all that may be as good but for rounding.
        Words come in the order of their weights.
        """
        chunks, columns = self.chunks(), self._columns
        sparse = [
            self.fits(word) for _, word, holding in words if holding * _DENSE <= chunks
        ]
        dense = [
            columns.get(word) or self._column(word)
            for _, word, _ in words[len(sparse) :]
        ]
        if dense:
            places = self._near(dense, sparse, most)
            rows = [self._rows[place] for place in places]
            # One place twice: of one place alone it would be no tuple.
            pick = itemgetter(*places, places[0])
            told = [pick(column.fits)[:-1] for column in dense]
        else:
            rows, told = _best(sparse, most), []
        if sparse:
            told[:0] = [[fits.get(row, 0.0) for row in rows] for fits in sparse]
        # Added up in one order, whatever else is asked: words of most chunks first.
        rarer = len([holding for _, _, holding in words if holding * 2 <= chunks])
        sums = map(sum, zip(*told[rarer:], *told[:rarer], strict=True))
        return list(zip(rows, sums, zip(*told, strict=True), strict=True))

    def _near(
        self, dense: Sequence[_Column], sparse: Sequence[Mapping[int, float]], most: int
    ) -> Sequence[int]:
        """Return the places of rows that may be among the best, by rough sums.

        A word's column in all rows is one number, and each row a lane of it: whole
        columns are added at once, which costs a tenth of adding row by row.
        """
        whole = sum([column.lanes for column in dense])
        lanes = whole.to_bytes(len(self._rows) * _LANE_BYTES, byteorder)
        rough = array("I", lanes).tolist()
        for fits in sparse:
            for row, fit in fits.items():
                # Whole numbers all: a list of both kinds is sorted at half the speed.
                rough[self._places[row]] += int(fit * _LANE_SCALE)
        # Of each fit less than one is lost to rounding down; how floats are rounded is
        # far less than one more.
        least = _last_of(most, rough) - len(dense) - len(sparse) - 1
        return [place for place, each in enumerate(rough) if each >= least]

    def _column(self, word: str) -> _Column:
        column = self._columns.get(word)
        if column is None:
            fits = self.fits(word)
            if not self._rows:
                found = self._connection.execute(_ROWS).fetchall()
                self._rows = [row for (row,) in found]
                self._places = {row: place for place, row in enumerate(self._rows)}
            column = _column_of([fits.get(row, 0.0) for row in self._rows])
            self._columns[word] = column
        return column

    def _weigh(self, word: str) -> Weighed:
        (holding,) = self._connection.execute(_HOLDING, (f'"{word}"',)).fetchone()
        if len(self._known) >= self._most_words:
            self._known.clear()
        weighed = -word_weight(self.chunks(), holding), word, holding
        self._known[word] = weighed
        return weighed

    def _let_go_fits(self) -> None:
        self._fits.clear()
        self._columns.clear()
        self._rows = ()
        self._kept_fits = 0


def _idf(chunks: int, holding: int) -> float:
    """Return a word's weight as FTS5 works it out."""
    return max(_LEAST_IDF, math.log((chunks - holding + 0.5) / (holding + 0.5)))


def _column_of(fits: list[float]) -> _Column:
    lanes = array("I", [int(fit * _LANE_SCALE) for fit in fits])
    return _Column(fits, int.from_bytes(lanes.tobytes(), byteorder))


def _last_of(most: int, rough: Sequence[int]) -> int:
    """Return the last of the `most` largest numbers, or the least there is."""
    # Every eighth tells about where it stands: what is far below need not be sorted.
    guess = sorted(rough[::_SAMPLED])[-(most // _SAMPLED + _SPARE) :][0]
    upper = [each for each in rough if each >= guess]
    return sorted(upper if len(upper) >= most else rough)[-most:][0]


def _best(sparse: Iterable[Mapping[int, float]], most: int) -> list[int]:
    """Return the rows whose fits add up to the most, and those that are as good."""
    sums: dict[int, float] = {}
    for fits in sparse:
        for row, fit in fits.items():
            sums[row] = sums.get(row, 0.0) + fit
    least = min(sorted(sums.values())[-most:], default=0.0) - _ROUNDING
    return [row for row, each in sums.items() if each >= least]
