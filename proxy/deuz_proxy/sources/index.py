"""The search index of one folder: SQLite FTS5 with BM25. One thread at a time uses it.

Rules:
- The index sees search words only (`words`), so no query can be a syntax error.
- Chunks are ordered by BM25 with the sidecar's own word weights. A score tells which
  share of the question's weight a chunk has, 0 to 1, alike for small and large folders.
  Words that nobody wrote count against it.
- A file's readers are not held up by who writes it, and see each change as a whole.
"""

import sqlite3
from collections.abc import Iterable, Sequence
from contextlib import suppress
from itertools import chain
from pathlib import Path

import msgspec

from deuz_proxy.private_files import make_private
from deuz_proxy.sources.chunks import Chunk
from deuz_proxy.sources.found import KeptChunks
from deuz_proxy.sources.postings import KeptPostings
from deuz_proxy.sources.questions import Questions
from deuz_proxy.sources.scores import Hit
from deuz_proxy.sources.words import KeptWords

# Raised whenever words, chunks or tables change: an older file is built anew.
_VERSION = 1
IN_PROCESS = ":memory:"
_BUSY_SECONDS = 5.0
_LOG_BYTES = 16_777_216
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


class Stamp(msgspec.Struct, frozen=True, gc=False):
    """What a file looked like when it was indexed; `skipped` says why it was not."""

    modified_ns: int
    size_bytes: int
    digest: bytes = b""
    skipped: str = ""


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
        self._questions = Questions(
            self._connection,
            words=self._words,
            postings=self._postings,
            found=self._found,
        )
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
            return self._questions.answer(text, limit, min_score)
        is_changing = self._connection.in_transaction
        if not is_changing:
            # What is kept and what is read now are of one state of the file.
            self._connection.execute("BEGIN")
        try:
            if self._postings.notice_others():
                self._found.forget()
            return self._questions.answer(text, limit, min_score)
        finally:
            if not is_changing:
                self._connection.execute("COMMIT")

    def search_at_once(
        self, text: str, *, limit: int, min_score: float
    ) -> Sequence[Hit] | None:
        """Do as `search` if it is little work; else return None.

        It never is of an index in a file.
        """
        if self._is_shared or limit < 1:
            return None
        return self._questions.answer_at_once(text, limit, min_score)

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
