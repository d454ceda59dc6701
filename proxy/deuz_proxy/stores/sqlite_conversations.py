"""Conversations of the shared tracker in the ledger's SQLite file."""

import sqlite3
from collections.abc import Sequence
from functools import partial

from deuz_proxy.stores.conversations import (
    MOST_CONVERSATIONS,
    MOST_TEXT_BYTES,
    Ask,
    Found,
    Save,
)
from deuz_proxy.stores.sqlite_entries import transaction
from deuz_proxy.stores.sqlite_thread import SqliteThread

# The request before ended a few turns ago: most are found among the newest places.
_FIRST_KEYS = 16
_KEYS_AT_ONCE = 1000
# To note a text's use is to write it anew.
_TOUCH_SECONDS = 600.0
# Some clients name another session in each request. As many as Redis keeps.
_MOST_SESSIONS = 4


class SqliteConversations:
    """A `conversations.Conversations`; the threads are its owner's."""

    def __init__(self, reader: SqliteThread, writer: SqliteThread) -> None:
        self._reader = reader
        self._writer = writer

    async def find(self, ask: Ask, *, oldest: float) -> Found | None:
        """Return the conversation of a history, if it was used since."""
        return await self._reader.submit(partial(_find, ask=ask, oldest=oldest))

    async def save(self, save: Save, *, now: float, ttl_seconds: float) -> bool:
        """Keep a conversation; False: somebody else saved it meanwhile."""
        work = partial(_save, save=save, now=now, oldest=now - ttl_seconds)
        return await self._writer.submit(work)


def _find(file: sqlite3.Connection, ask: Ask, oldest: float) -> Found | None:
    name = _place(file, ask.keys) or _session(file, ask.session) or ask.name
    if name is None:
        return None
    row = file.execute(
        "select stamp, heads, sealed from conversations where name = ? and used > ?",
        (name, oldest),
    ).fetchone()
    if row is None:
        return None
    stamp, heads, sealed = row
    is_first_known = ask.first is not None and _place(file, [ask.first]) is not None
    if name == ask.name and stamp == ask.stamp:
        return Found(name, stamp, None, (), is_first_known)
    texts = _texts(file, heads, ask.heads)
    return Found(name, stamp, sealed, texts, is_first_known)


def _place(file: sqlite3.Connection, keys: Sequence[bytes]) -> str | None:
    """Return whose the last of the keys is that is anybody's."""
    end = len(keys)
    while end > 0:
        start = max(0, end - (_FIRST_KEYS if end == len(keys) else _KEYS_AT_ONCE))
        some = keys[start:end]
        marks = ",".join("?" * len(some))
        query = f"select key, name from places where key in ({marks})"  # noqa: S608  # Marks only.
        found = dict(file.execute(query, some).fetchall())
        for key in reversed(some):
            if key in found:
                return str(found[key])
        end = start
    return None


def _session(file: sqlite3.Connection, session: bytes | None) -> str | None:
    if session is None:
        return None
    row = file.execute(
        "select name from sessions where session = ?", (session,)
    ).fetchone()
    return row[0] if row else None


def _texts(
    file: sqlite3.Connection, heads: bytes, known: Sequence[bytes]
) -> Sequence[tuple[bytes, bytes]]:
    wanted = [head for head in _split(heads) if head not in known]
    rows = [
        file.execute("select digest, text from texts where digest = ?", (head,))
        for head in wanted
    ]
    return tuple(row for cursor in rows for row in cursor.fetchall())


def _save(file: sqlite3.Connection, save: Save, now: float, oldest: float) -> bool:
    with transaction(file):
        row = file.execute(
            "select stamp from conversations where name = ?", (save.name,)
        ).fetchone()
        if row is not None and row[0] != save.stamp:
            return False
        _expire(file, oldest)
        heads = b"".join(map(_counted, save.heads))
        file.execute(
            "insert into conversations (name, stamp, used, heads, sealed)"
            " values (?, ?, ?, ?, ?) on conflict (name) do update set"
            " stamp = excluded.stamp, used = excluded.used, heads = excluded.heads,"
            " sealed = excluded.sealed",
            (save.name, save.stamp + 1, now, heads, save.sealed),
        )
        touch_seconds = min(_TOUCH_SECONDS, (now - oldest) / 10)
        _link(file, save, now, touch_seconds)
        return True


def _link(
    file: sqlite3.Connection, save: Save, now: float, touch_seconds: float
) -> None:
    """Let places, texts and the session lead to the conversation."""
    file.executemany(
        "insert or replace into places (key, name) values (?, ?)",
        [(key, save.name) for key in save.places],
    )
    file.executemany(
        "delete from places where key = ? and name = ?",
        [(key, save.name) for key in save.gone],
    )
    file.executemany(
        "insert into texts (digest, used, text) values (?, ?, ?)"
        " on conflict (digest) do update set used = excluded.used",
        [(digest, now, text) for digest, text in save.texts],
    )
    file.executemany(
        "update texts set used = ? where digest = ? and used <= ?",
        [(now, head, now - touch_seconds) for head in save.heads],
    )
    if save.texts:
        _squeeze_texts(file)
    if save.session is not None:
        file.execute(
            "insert or replace into sessions (session, name) values (?, ?)",
            (save.session, save.name),
        )
        # Which of the others leave is chance: one that is in use is put again.
        file.execute(
            "delete from sessions where session in (select session from sessions"
            " where name = ? and session <> ? limit -1 offset ?)",
            (save.name, save.session, _MOST_SESSIONS - 1),
        )


def _squeeze_texts(file: sqlite3.Connection) -> None:
    """Remove the texts that were used the longest ago, where there are too many."""
    sizes = "select digest, length(text) from texts order by used desc, digest"
    held_bytes, gone = 0, []
    for digest, size in file.execute(sizes):
        held_bytes += size
        if held_bytes > MOST_TEXT_BYTES:
            gone.append((digest,))
    file.executemany("delete from texts where digest = ?", gone)


def _expire(file: sqlite3.Connection, oldest: float) -> None:
    """Remove what nobody used since, and the oldest of too many; places go along."""
    file.execute("delete from conversations where used <= ?", (oldest,))
    file.execute("delete from texts where used <= ?", (oldest,))
    count = file.execute("select count(*) from conversations").fetchone()[0]
    if count >= MOST_CONVERSATIONS:
        file.execute(
            "delete from conversations where name in"
            " (select name from conversations order by used limit ?)",
            (count - MOST_CONVERSATIONS + 1,),
        )


def _counted(head: bytes) -> bytes:
    return bytes([len(head)]) + head


def _split(heads: bytes) -> list[bytes]:
    found, at = [], 0
    while at < len(heads):
        end = at + 1 + heads[at]
        found.append(heads[at + 1 : end])
        at = end
    return found
