"""The search index of one folder: SQLite FTS5 with BM25. One thread at a time uses it.

Rules:
- The index sees search words only (`words`), so no query can be a syntax error.
- Chunks are ordered by BM25 with the sidecar's own word weights. A score tells which
  share of the question's weight a chunk has, 0 to 1, alike for small and large folders.
  Words that nobody wrote count against it.
- Of a question whose rarer words lead to thousands of chunks the commonest words are
  left out: they would cost the most and decide the least.
- Ties end at name and position: the same folder and query give the same answer.
- A file's readers are not held up by who writes it, and see each change as a whole.
"""

import sqlite3
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from itertools import chain
from operator import itemgetter
from pathlib import Path

import msgspec

from deuz_proxy.private_files import make_private
from deuz_proxy.sources.chunks import Chunk
from deuz_proxy.sources.found import KeptChunks
from deuz_proxy.sources.postings import KeptPostings, Weighed
from deuz_proxy.sources.scores import Fitting, Hit, nine_digits, scored_hits
from deuz_proxy.sources.words import KeptWords
from deuz_proxy.weights import FUNCTION_WORDS, counted_unknown

# Raised whenever words, chunks or tables change: an older file is built anew.
_VERSION = 1
IN_PROCESS = ":memory:"
_BUSY_SECONDS = 5.0
_LOG_BYTES = 16_777_216
# The rarest words carry a query; the rest of a pasted log is only work.
_MOST_KNOWN_WORDS = 32
# Unknown words lower the score, but a page of them must not hide a good hit.
_MOST_UNKNOWN_WORDS = 4
_MOST_CHARACTERS = 4_000
# Chunks that a question's words lead to, each word's counted. Measured with the 36
# questions of `test_ranking`: with 4,000 the right page is found less often among 5,300
# chunks, with 8,000 as often as without a bound; among 51,000, too.
_MOST_FITS = 8_000
# What may be worked out where it holds up all else: a millisecond at most, most often
# a third of one. New words are counted, new rows fitted.
_MOST_CHUNKS_AT_ONCE = 2_000
_MOST_NEW_WORDS = 8
_MOST_NEW_FITS = 400
# Prose that says `how` and `before` as the question does goes before code that does
# not, other things being alike.
_OF_GLUE = 0.13

_SCHEMA = """
CREATE TABLE changes (number INTEGER);
CREATE TABLE files (
    name TEXT PRIMARY KEY, modified_ns INTEGER, size_bytes INTEGER, digest BLOB,
    skipped TEXT
) WITHOUT ROWID;
CREATE TABLE chunks (
    id INTEGER PRIMARY KEY, name TEXT, position INTEGER, chunk TEXT, title TEXT,
    text TEXT
);
CREATE INDEX chunks_by_name ON chunks (name);
CREATE VIRTUAL TABLE words USING fts5(
    title, body, content='', tokenize="unicode61 remove_diacritics 0"
);
"""
# The first was made by versions before.
_TABLES = ("vocabulary", "words", "chunks", "files", "changes")
# Rows and fits as JSON: one statement for any number of them.
_FIRST = """
SELECT chunks.id FROM json_each(?) AS hit
JOIN chunks ON chunks.id = CAST(hit.key AS INTEGER)
ORDER BY hit.value DESC, name, position LIMIT ?
"""


# By row: the fit, and which share of the question's weight its words have.
_Best = Mapping[int, tuple[float, float]]


class Stamp(msgspec.Struct, frozen=True, gc=False):
    """What a file looked like when it was indexed; `skipped` says why it was not."""

    modified_ns: int
    size_bytes: int
    digest: bytes = b""
    skipped: str = ""


class _Asked(msgspec.Struct, frozen=True, gc=False):
    """A question's weight, words, their shares of it, and what holds them together.

    The words are those worth asking for, the rarest first.
    """

    whole: float
    words: Sequence[Weighed]
    shares: list[float]
    glue: Sequence[tuple[str, float]]


class ChunkIndex:
    """Chunks of files, by words. Every method may raise `sqlite3.Error`.

    Making it may raise `OSError`, too.
    """

    def __init__(self, location: str) -> None:
        if location != IN_PROCESS:
            make_private(Path(location))
        # Autocommit: transactions are opened where they begin, in `change`.
        self._connection = sqlite3.connect(
            location,
            timeout=_BUSY_SECONDS,
            isolation_level=None,
            check_same_thread=False,
        )
        self._words = KeptWords()
        self._is_shared = location != IN_PROCESS
        self._postings = KeptPostings(self._connection, is_sole=not self._is_shared)
        self._found = KeptChunks(self._connection)
        try:
            self._build()
        except sqlite3.Error:
            self._connection.close()
            raise

    def close(self) -> None:
        """Close the file. May be called twice."""
        self._connection.close()

    def stamps(self) -> dict[str, Stamp]:
        """Return what is known of each file, by name."""
        rows = self._connection.execute("SELECT * FROM files").fetchall()
        return {name: Stamp(*rest) for name, *rest in rows}

    def is_filled(self) -> bool:
        """Tell whether a change was committed since the index was made."""
        (changes,) = self._connection.execute("SELECT count(*) FROM changes").fetchone()
        return bool(changes)

    def begin(self) -> None:
        """Open a change; other processes wait, readers see the state before it."""
        self._connection.execute("BEGIN IMMEDIATE")

    def commit(self) -> None:
        """Make the change visible, as a whole."""
        self._connection.execute("INSERT OR REPLACE INTO changes (rowid) VALUES (1)")
        self._connection.execute("COMMIT")

    def rollback(self) -> None:
        """Undo an open change; nothing happens without one."""
        if self._connection.in_transaction:
            self._forget()
            self._connection.execute("ROLLBACK")

    def mark(self, name: str, stamp: Stamp) -> None:
        """Note what the file looks like; its chunks stay."""
        self._connection.execute(
            "INSERT OR REPLACE INTO files VALUES (?, ?, ?, ?, ?)",
            (name, stamp.modified_ns, stamp.size_bytes, stamp.digest, stamp.skipped),
        )

    def replace(self, name: str, stamp: Stamp, chunks: Iterable[Chunk]) -> None:
        """Put these chunks in place of those the file had."""
        self._forget()
        self._remove_chunks(name)
        self.mark(name, stamp)
        (last,) = self._connection.execute("SELECT max(id) FROM chunks").fetchone()
        rows = list(enumerate(chunks, (last or 0) + 1))
        self._connection.executemany(
            "INSERT INTO chunks (id, name, position, chunk, title, text)"
            " VALUES (?, ?, ?, ?, ?, ?)",
            [(row, name, row, each.id, each.title, each.text) for row, each in rows],
        )
        columns = [self._columns(name, each.title, each.text) for _, each in rows]
        self._postings.wrote(chain.from_iterable(columns))
        self._connection.executemany(
            "INSERT INTO words (rowid, title, body) VALUES (?, ?, ?)",
            [(row, *each) for (row, _), each in zip(rows, columns, strict=True)],
        )

    def remove(self, name: str) -> None:
        """Forget the file and its chunks."""
        self._forget()
        self._remove_chunks(name)
        self._connection.execute("DELETE FROM files WHERE name = ?", (name,))

    def _forget(self) -> None:
        """Let go what is kept of the index, which is about to change."""
        self._postings.forget()
        self._found.forget()

    def _remove_chunks(self, name: str) -> None:
        rows = self._connection.execute(
            "SELECT id, title, text FROM chunks WHERE name = ?", (name,)
        ).fetchall()
        if not rows:
            return
        # The index keeps no text: it must be told what it was given.
        self._connection.executemany(
            "INSERT INTO words (words, rowid, title, body) VALUES ('delete', ?, ?, ?)",
            [(row, *self._columns(name, title, text)) for row, title, text in rows],
        )
        self._connection.execute("DELETE FROM chunks WHERE name = ?", (name,))

    def search(self, text: str, *, limit: int, min_score: float) -> Sequence[Hit]:
        """Return the best chunks for the text, none for a text without known words."""
        if limit < 1:
            return ()
        if not self._is_shared:
            return self._search(text, limit, min_score)
        is_changing = self._connection.in_transaction
        if not is_changing:
            # What is kept and what is read now are of one state of the file.
            self._connection.execute("BEGIN")
        try:
            if self._postings.notice_others():
                self._found.forget()
            return self._search(text, limit, min_score)
        finally:
            if not is_changing:
                self._connection.execute("COMMIT")

    def search_at_once(
        self, text: str, *, limit: int, min_score: float
    ) -> Sequence[Hit] | None:
        """Do as `search` if it is little work; else return None.

        It is where the index is small, no file, and most of the words were asked for
        before.
        """
        if self._is_shared or limit < 1:
            return None
        postings = self._postings
        words = self._words.distinct(text[:_MOST_CHARACTERS])
        is_small = postings.chunks() <= _MOST_CHUNKS_AT_ONCE
        if not is_small or postings.new_words(words) > _MOST_NEW_WORDS:
            return None
        asked = self._asked(words)
        if postings.new_fits(asked.words) > _MOST_NEW_FITS:
            return None
        return self._hits(asked, limit, min_score)

    def _search(self, text: str, limit: int, min_score: float) -> Sequence[Hit]:
        asked = self._asked(self._words.distinct(text[:_MOST_CHARACTERS]))
        return self._hits(asked, limit, min_score)

    def _hits(self, asked: _Asked, limit: int, min_score: float) -> Sequence[Hit]:
        if not asked.words:
            return ()
        # As far down as the last hit: equal ones go by name and position.
        rows = self._postings.fitting(asked.words, asked.shares, limit)
        whole = asked.whole
        best = {row: (nine_digits(fit / whole), share) for row, fit, share in rows}
        return scored_hits(self._take(best, limit), asked.glue, min_score)

    def _take(self, best: _Best, limit: int) -> Sequence[Fitting]:
        """Return the chunks that fit best, in the order of fit, name and position."""
        rows: Collection[int] = best
        if len(best) > limit:
            # Of equal ones the index tells which go first: there may be thousands.
            fits = {row: fit for row, (fit, _) in best.items()}
            hits = msgspec.json.encode(fits).decode()
            first = self._connection.execute(_FIRST, (hits, limit)).fetchall()
            rows = [row for (row,) in first]
        chunks = self._found.take(rows)
        found = [(*best[each.row], each) for each in chunks]
        # One sort for each term, the least first; most often no two fit alike.
        if len({fit for fit, _, _ in found}) < len(found):
            found.sort(key=_place)
        found.sort(key=itemgetter(0), reverse=True)
        return found

    def _asked(self, words: Collection[str]) -> _Asked:
        """Return the words worth asking for, as shares of the best possible score."""
        said: list[Weighed] = []
        known: list[Weighed] = []
        missing = 0
        for each in self._postings.weighed(words):
            if each[1] in FUNCTION_WORDS:
                said.append(each)
            elif each[2]:
                known.append(each)
            else:
                missing += 1
        unknown = counted_unknown(missing, _MOST_UNKNOWN_WORDS)
        # Rarest first; equal ones by the alphabet.
        asked = sorted(known)[:_MOST_KNOWN_WORDS]
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

    def _columns(self, name: str, title: str, text: str) -> tuple[str, str]:
        """Return what is indexed of a chunk: where it stands, and what it says."""
        body = text.removeprefix(title)
        return self._words.join(f"{name} {title}"), self._words.join(body)

    def _build(self) -> None:
        with suppress(sqlite3.OperationalError):
            # Another process does the same just now.
            self._connection.execute("PRAGMA journal_mode = WAL")
        # A power cut may cost the newest change: it is made again.
        self._connection.execute("PRAGMA synchronous = NORMAL")
        self._connection.execute(f"PRAGMA journal_size_limit = {_LOG_BYTES}")
        # Asked before: who only reads must not wait for one that writes.
        if self._version() != _VERSION:
            self._connection.execute("BEGIN IMMEDIATE")
            if self._version() != _VERSION:
                self._make_tables()
            self._connection.execute("COMMIT")

    def _version(self) -> int:
        (version,) = self._connection.execute("PRAGMA user_version").fetchone()
        return int(version)

    def _make_tables(self) -> None:
        for table in _TABLES:
            self._connection.execute(f"DROP TABLE IF EXISTS {table}")
        for statement in _SCHEMA.split(";")[:-1]:
            self._connection.execute(statement)
        self._connection.execute(f"PRAGMA user_version = {_VERSION}")


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
