"""Chunks that were found lately: those that answer one question answer others.

Rules:
- What is worked out of a text alone is worked out once: its digest, and how it reads in
  small letters.
- Who writes to the index says so with `forget`, as for `postings`.
- Bounded: where a bound is reached, what was kept is let go. One thread's at a time.
"""

import sqlite3
from collections.abc import Collection, Sequence

import msgspec

from deuz_proxy.sources.static import text_digest

# Each character is kept twice: as it is, and in small letters.
_MOST_CHARACTERS = 1_000_000
# Rows as JSON: one statement for any number of them.
_ROWS = """
SELECT chunks.id, name, position, chunk, text FROM json_each(?) AS row
JOIN chunks ON chunks.id = row.value
"""


class FoundChunk(msgspec.Struct, frozen=True, gc=False):
    """A chunk and where it stands; `small` is its text in small letters."""

    row: int
    name: str
    position: int
    chunk: str
    text: str
    small: str
    digest: str


class KeptChunks:
    """The index's chunks, by row. `take` may raise `sqlite3.Error`."""

    def __init__(
        self, connection: sqlite3.Connection, *, most_characters: int = _MOST_CHARACTERS
    ) -> None:
        self._connection = connection
        self._most_characters = most_characters
        self._chunks: dict[int, FoundChunk] = {}
        self._characters = 0

    def forget(self) -> None:
        """Let go what is kept: the index is about to change."""
        self._chunks.clear()
        self._characters = 0

    def take(self, rows: Collection[int]) -> Sequence[FoundChunk]:
        """Return the chunks of these rows, in their order."""
        kept = self._chunks
        try:
            return [kept[row] for row in rows]
        except KeyError:
            found = {row: kept[row] for row in rows if row in kept}
        missing = [row for row in rows if row not in found]
        found.update([(each.row, each) for each in self._read(missing)])
        return [found[row] for row in rows]

    def _read(self, rows: Sequence[int]) -> Sequence[FoundChunk]:
        asked = (msgspec.json.encode(rows).decode(),)
        read = [
            FoundChunk(row, name, at, chunk, text, text.lower(), text_digest(text))
            for row, name, at, chunk, text in self._connection.execute(_ROWS, asked)
        ]
        self._characters += 2 * sum([len(each.text) for each in read])
        if self._characters > self._most_characters:
            self.forget()
        else:
            self._chunks.update([(each.row, each) for each in read])
        return read
