"""Which chunks have a word and how well it fits them, kept until the index changes.

Rules:
- What a question costs is what it asks for the first time. Words come again, and those
  that most chunks have, which cost most, come in most questions.
- Who writes to the index says so with `forget`; what another process wrote is seen by
  `notice_others`.
- Words that were never written here are in no chunk: nothing is asked for them, as
  long as all that were written are known, and SQLite cannot take them otherwise.
- Bounded: where a bound is reached, what was kept is let go. One thread's at a time.
"""

import math
import sqlite3
from collections.abc import Iterable, Sequence
from unicodedata import ucd_3_2_0 as oldest

from deuz_proxy.sources.best_rows import Fitting, Posting, load_finder, pack
from deuz_proxy.weights import word_weight

# A chunk and its fit take 12 bytes.
_MOST_FITS = 400_000
_MOST_WORDS = 50_000
# FTS5's own: idf of a word in more than half of all rows, and the bound k1 + 1 of what
# repetition can add.
_LEAST_IDF = 1e-6
_SATURATION = 2.2
_CHUNKS = "SELECT count(*) FROM chunks"
_HOLDING = "SELECT count(*) FROM words WHERE words MATCH ?"
# A word in headings or in the file's name counts twice.
_FITS = "SELECT rowid, bm25(words, 2.0, 1.0) FROM words WHERE words MATCH ?"


Weighed = tuple[float, str, int]
"""A word: minus its weight, itself, and how many chunks have it."""


class KeptPostings:
    """The index's words. Every method but `forget` may raise `sqlite3.Error`.

    A word is letters and digits, folded as those of the index. The index is `is_sole`
    that is empty now, and that nobody else writes to: all words of it come to `wrote`.
    """

    def __init__(
        self,
        connection: sqlite3.Connection,
        *,
        most_fits: int = _MOST_FITS,
        most_words: int = _MOST_WORDS,
        is_sole: bool = False,
    ) -> None:
        self._connection = connection
        self._most_fits = most_fits
        self._most_words = most_words
        self._version = -1
        self._chunks: int | None = None
        self._unknown_weight: float | None = None
        self._known: dict[str, Weighed] = {}
        self._kept: dict[str, Posting] = {}
        # None: some were written that are not among them.
        self._written: set[str] | None = set() if is_sole else None
        self._find_best = load_finder()
        self._kept_fits = 0

    def forget(self) -> None:
        """Let go what is kept: the index is about to change."""
        self._chunks = self._unknown_weight = None
        self._known.clear()
        self._let_go_fits()

    def wrote(self, columns: Iterable[str]) -> None:
        """Note the words that are written to the index, by spaces apart."""
        written = self._written
        if written is None:
            return
        for column in columns:
            written.update(column.split())
            if not (column.isascii() or all(map(_is_taken_alike, {*column}))):
                self._written = None
                return
        if len(written) > self._most_words:
            self._written = None

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

    def unknown_weight(self) -> float:
        """Return what a word weighs that no chunk has."""
        if self._unknown_weight is None:
            self._unknown_weight = word_weight(self.chunks(), 0)
        return self._unknown_weight

    def weighed(self, words: Iterable[str]) -> list[Weighed]:
        """Return what each word weighs, and how many chunks have it."""
        known = self._known
        return [known.get(word) or self._weigh(word) for word in words]

    def new_words(self, words: Iterable[str]) -> int:
        """Return how many of the words are to be asked for the first time."""
        known, written = self._known, self._written
        new = [word for word in words if word not in known]
        return len(new if written is None else [w for w in new if w in written])

    def new_fits(self, words: Iterable[Weighed]) -> int:
        """Return how many fits of these words are to be asked for the first time."""
        kept = self._kept
        return sum([holding for _, word, holding in words if word not in kept])

    def posting(self, word: str) -> Posting:
        """Return the rows of the chunks that have the word, each with its fit.

        That is the word's weight, and what of it repetition, a short chunk and headings
        let a chunk have: all of it at most, and always something.
        """
        kept = self._kept.get(word)
        if kept is None:
            asked = (f'"{word}"',)
            found = self._connection.execute(_FITS, asked).fetchall()
            chunks = self.chunks()
            best = -_SATURATION * _idf(chunks, len(found))
            each = word_weight(chunks, len(found)) / best
            rows = [row for row, _ in found]
            kept = pack(rows, [negative * each for _, negative in found])
            if self._kept_fits + len(rows) > self._most_fits:
                self._let_go_fits()
            self._kept[word] = kept
            self._kept_fits += len(rows)
        return kept

    def fitting(
        self, words: Sequence[Weighed], shares: list[float], most: int
    ) -> list[Fitting]:
        """Return the rows that fit the words best, and what they have of the shares.

        Those as good as the last of the `most` best are among them, in no order. Words
        come in the order of their weights.
        """
        kept, half = self._kept, self.chunks() / 2
        postings = [kept.get(word) or self.posting(word) for _, word, _ in words]
        rarer = len([holding for _, _, holding in words if holding <= half])
        return self._find_best(postings, shares, rarer, most)

    def _weigh(self, word: str) -> Weighed:
        if self._written is not None and word not in self._written:
            # Not kept: most are names and numbers that nobody says again.
            return -self.unknown_weight(), word, 0
        (holding,) = self._connection.execute(_HOLDING, (f'"{word}"',)).fetchone()
        if len(self._known) >= self._most_words:
            self._known.clear()
        weighed = -word_weight(self.chunks(), holding), word, holding
        self._known[word] = weighed
        return weighed

    def _let_go_fits(self) -> None:
        self._kept.clear()
        self._kept_fits = 0


def _is_taken_alike(character: str) -> bool:
    """Tell whether the index is sure to take a character of a word as it stands.

    It parts words at what its older Unicode does not know for a letter, and folds a few
    that are folded here (`ς`): then it has words that nobody wrote.
    """
    is_letter = oldest.category(character)[0] in "LN"
    is_folded = character.casefold() == character
    return character.isascii() or (is_letter and is_folded)


def _idf(chunks: int, holding: int) -> float:
    """Return a word's weight as FTS5 works it out."""
    return max(_LEAST_IDF, math.log((chunks - holding + 0.5) / (holding + 0.5)))
