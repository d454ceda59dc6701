"""The memory's SQLite file: its schema, its index, and how it forgets.

Rules:
- A term stands in the index with its scope in front: what other scopes hold neither is
  found nor weighs anything. Rows are compared with the scope once more.
- The index gets terms, not text; its tokenizer takes all beyond ASCII as it is, where
  `unicode61` would take apart the scripts that are younger than its tables.
- What is dropped is gone from the file: freed pages are overwritten, the index merged,
  and there is no log that keeps old pages. What expired is dropped at the next write.
- The schema has a version; a newer one than this is refused, never changed. The index
  of an older one is made anew, which is the only thing that differs.
"""

import hashlib
import json
import sqlite3
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from deuz_compiler import digest_text
from deuz_proxy.memory.records import (
    DROPPED_SECONDS,
    Draft,
    Hit,
    Record,
    dropped_key,
)
from deuz_proxy.private_files import make_private
from deuz_proxy.stores.memory_terms import (
    Words,
    asked_terms,
    rows_to_weigh,
    terms_of,
    weigh_terms,
)
from deuz_proxy.stores.sqlite_entries import transaction

VERSION = 2
IN_PROCESS = ":memory:"
_BUSY_SECONDS = 5.0

_SCHEMA = """
CREATE TABLE records (
    row INTEGER PRIMARY KEY, scope TEXT NOT NULL, id TEXT NOT NULL, text TEXT NOT NULL,
    mandatory INTEGER NOT NULL, expires_at REAL, origin TEXT NOT NULL,
    source_kinds TEXT NOT NULL, revision INTEGER NOT NULL, digest TEXT NOT NULL,
    terms TEXT NOT NULL, UNIQUE (scope, id)
);
CREATE INDEX records_mandatory ON records (scope, id) WHERE mandatory;
CREATE INDEX records_by_expiry ON records (expires_at) WHERE expires_at IS NOT NULL;
CREATE TABLE notes (
    scope TEXT NOT NULL, key TEXT NOT NULL, content BLOB NOT NULL,
    PRIMARY KEY (scope, key)
) WITHOUT ROWID;
CREATE TABLE dropped (key BLOB PRIMARY KEY, at REAL NOT NULL) WITHOUT ROWID;
"""
_INDEX = """
DROP TABLE IF EXISTS vocabulary;
DROP TABLE IF EXISTS words;
CREATE VIRTUAL TABLE words USING fts5(
    body, content='', tokenize="ascii tokenchars '_'"
);
CREATE VIRTUAL TABLE vocabulary USING fts5vocab(words, row);
"""
_FIELDS = (
    "id, text, mandatory, expires_at, origin, source_kinds, revision, records.digest"
)
_LIVE = "scope = :scope AND (expires_at IS NULL OR expires_at > :now)"
_SEARCH = f"""
SELECT {_FIELDS}, terms FROM words JOIN records ON records.row = words.rowid
WHERE words MATCH :asked AND records.{_LIVE}
ORDER BY bm25(words), id LIMIT :limit
"""  # noqa: S608  # Constants only.

_Row = Sequence[Any]


class MemoryFile:
    """The connection. One thread owns it; each method may raise `sqlite3.Error`.

    Making it may raise `OSError`, too.
    """

    def __init__(self, location: str, words_of: Words) -> None:
        self._words_of = words_of
        if location != IN_PROCESS:
            make_private(Path(location))
        # Autocommit: transactions are opened where they begin.
        self._connection = sqlite3.connect(
            location, timeout=_BUSY_SECONDS, isolation_level=None
        )
        try:
            self._execute("PRAGMA secure_delete = ON")
            # No write-ahead log: it would keep pages of what was forgotten.
            self._execute("PRAGMA journal_mode = TRUNCATE")
            self._build()
        except sqlite3.Error:
            self._connection.close()
            raise

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()

    def put(self, scope: str, draft: Draft, now: float) -> Record:
        """Keep the record; an equal text keeps its revision."""
        digest = digest_text(draft.text)
        with transaction(self._connection):
            self._drop_rows("expires_at <= ?", (now,))
            held = self._execute(
                "SELECT revision, digest FROM records WHERE scope = ? AND id = ?",
                (scope, draft.id),
            ).fetchone()
            revision = 1
            if held is not None:
                revision = held[0] if held[1] == digest else held[0] + 1
                self._drop_rows("scope = ? AND id = ?", (scope, draft.id))
            record = Record(draft, revision, digest)
            self._insert(scope, record)
        return record

    def list(self, rest: str, named: dict[str, object]) -> Sequence[Record]:
        """Return live records of a scope, as the rest of the query says."""
        rows = self._execute(
            f"SELECT {_FIELDS} FROM records WHERE {_LIVE} {rest}",  # noqa: S608
            named,
        ).fetchall()
        return tuple(map(_record, rows))

    def search(self, scope: str, text: str, limit: int, now: float) -> Sequence[Hit]:
        """Return what shares terms with the text, the best first."""
        terms = asked_terms(text, self._words_of)
        count = "SELECT count(*) FROM records WHERE scope = ?"
        (records,) = self._execute(count, (scope,)).fetchone()
        asked = weigh_terms(terms, self._held(scope, terms), records)
        if asked is None or limit < 1:
            return ()
        named = {
            "asked": " OR ".join(f'"{each}"' for each in _scoped(scope, asked.weights)),
            "scope": scope,
            "now": now,
            "limit": rows_to_weigh(limit),
        }
        hits = [
            Hit(_record(row), asked.score(frozenset(str(row[-1]).split())))
            for row in self._execute(_SEARCH, named)
        ]
        # Equal scores keep the index's order, which counts repetition and length.
        return sorted(hits, key=lambda hit: -hit.score)[:limit]

    def drop(self, scope: str, ids: Sequence[str], now: float) -> int:
        """Remove records, and what the index holds of them."""
        dropped = 0
        with transaction(self._connection):
            self._execute("DELETE FROM dropped WHERE at < ?", (now - DROPPED_SECONDS,))
            for record_id in dict.fromkeys(ids):
                dropped += self._drop_rows("scope = ? AND id = ?", (scope, record_id))
                key = dropped_key(scope, record_id)
                self._execute("REPLACE INTO dropped VALUES (?, ?)", (key, now))
        # Though nothing was there: what expired has left words in the index.
        self._merge()
        return dropped

    def trim(self, scope: str, most_in_scope: int, most: int) -> int:
        """Remove the oldest records over the bounds; return how many."""
        last = "SELECT row FROM records {} ORDER BY row DESC LIMIT 1 OFFSET ?"
        here, all_ = last.format("WHERE scope = ?"), last.format("")
        with transaction(self._connection):
            gone = self._drop_rows(
                f"scope = ? AND row <= ({here})", (scope, scope, most_in_scope)
            )
            return gone + self._drop_rows(f"row <= ({all_})", (most,))

    def dropped(self, scope: str, ids: Sequence[str], since: float) -> Sequence[str]:
        """Return which of the ids were dropped since then."""
        look = "SELECT 1 FROM dropped WHERE key = ? AND at >= ?"
        return tuple(
            record_id
            for record_id in ids
            if self._execute(look, (dropped_key(scope, record_id), since)).fetchone()
        )

    def load(self, scope: str, key: str) -> bytes | None:
        """Return the notes under a key."""
        found = self._execute(
            "SELECT content FROM notes WHERE scope = ? AND key = ?", (scope, key)
        ).fetchone()
        return None if found is None else bytes(found[0])

    def has_any(self) -> bool:
        """Tell whether there are any notes."""
        look = "SELECT EXISTS (SELECT 1 FROM notes)"
        return bool(self._execute(look).fetchone()[0])

    def swap(self, scope: str, key: str, old: bytes | None, new: bytes | None) -> bool:
        """Put notes in the place of others; False: they are other ones."""
        with transaction(self._connection):
            if self.load(scope, key) != old:
                return False
            self._execute("DELETE FROM notes WHERE scope = ? AND key = ?", (scope, key))
            if new is not None:
                self._execute("INSERT INTO notes VALUES (?, ?, ?)", (scope, key, new))
        return True

    def _execute(self, sql: str, values: Any = ()) -> sqlite3.Cursor:
        return self._connection.execute(sql, values)

    def _held(self, scope: str, terms: Sequence[str]) -> dict[str, int]:
        """Return how many records of the scope have each term."""
        look = "SELECT doc FROM vocabulary WHERE term = ?"
        rows = [
            self._execute(look, (each,)).fetchone() for each in _scoped(scope, terms)
        ]
        return {
            term: row[0]
            for term, row in zip(terms, rows, strict=True)
            if row is not None
        }

    def _insert(self, scope: str, record: Record) -> None:
        draft = record.draft
        terms = " ".join(terms_of(draft.text, self._words_of))
        cursor = self._execute(
            "INSERT INTO records (scope, id, text, mandatory, expires_at, origin,"
            " source_kinds, revision, digest, terms) VALUES (?,?,?,?,?,?,?,?,?,?)",
            (
                scope,
                draft.id,
                draft.text,
                draft.mandatory,
                draft.expires_at,
                draft.origin,
                json.dumps(draft.source_kinds),
                record.revision,
                record.digest,
                terms,
            ),
        )
        self._index(cursor.lastrowid, scope, terms)

    def _index(self, row: int | None, scope: str, terms: str) -> None:
        self._execute(
            "INSERT INTO words (rowid, body) VALUES (?, ?)", (row, _body(scope, terms))
        )

    def _drop_rows(self, where: str, values: Sequence[object]) -> int:
        rows = self._execute(
            f"SELECT row, scope, terms FROM records WHERE {where}",  # noqa: S608
            values,
        ).fetchall()
        for row, scope, terms in rows:
            # The index keeps no text: it must be told what it was given.
            self._execute(
                "INSERT INTO words (words, rowid, body) VALUES ('delete', ?, ?)",
                (row, _body(scope, terms)),
            )
            self._execute("DELETE FROM records WHERE row = ?", (row,))
        return len(rows)

    def _merge(self) -> None:
        """Write the index anew without what was deleted from it."""
        self._execute("INSERT INTO words (words) VALUES ('optimize')")

    def _build(self) -> None:
        with transaction(self._connection):
            (version,) = self._execute("PRAGMA user_version").fetchone()
            if version > VERSION:
                raise sqlite3.DatabaseError(
                    f"its schema is of version {version}, this sidecar reads {VERSION}"
                )
            if version == VERSION:
                return
            tables = _INDEX if version else _SCHEMA + _INDEX
            for statement in tables.split(";")[:-1]:
                self._execute(statement)
            for held in self._execute("SELECT row, scope, terms FROM records"):
                self._index(*held)
            self._execute(f"PRAGMA user_version = {VERSION}")


def _scoped(scope: str, terms: Iterable[str]) -> Sequence[str]:
    """Return the terms as they stand in the index."""
    front = hashlib.sha256(scope.encode()).hexdigest()[:16]
    return [f"{front}{term}" for term in terms]


def _body(scope: str, terms: str) -> str:
    return " ".join(_scoped(scope, terms.split()))


def _record(row: _Row) -> Record:
    record_id, text, mandatory, expires_at, origin, kinds, revision, digest = row[:8]
    draft = Draft(
        record_id, text, bool(mandatory), expires_at, origin, tuple(json.loads(kinds))
    )
    return Record(draft, revision, digest)
