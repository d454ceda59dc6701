"""Memory in PostgreSQL: the same records, terms and scores, for many hosts.

Rules:
- Terms are made here, as for SQLite, and indexed as they are (GIN): every language is
  found, whatever the server's text search is configured for.
- Ids are compared by code point, so that pages follow each other alike everywhere.
- Tables have a version; a newer one is refused. Who comes first makes them.
- What is dropped is gone for every query; the server's own files are its owner's.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, TypeVar

import asyncpg

from deuz_compiler import digest_text
from deuz_proxy.errors import StoreFailed, StoreUnusable
from deuz_proxy.memory.records import (
    DROPPED_SECONDS,
    Draft,
    Hit,
    Record,
    dropped_key,
)
from deuz_proxy.stores.memory_terms import (
    Words,
    asked_terms,
    rows_to_weigh,
    terms_of,
    weigh_terms,
)

STORE = "memory"
VERSION = 1
_MOST_CONNECTIONS = 8
_ANSWER_SECONDS = 10.0
# One lock for whoever makes the tables; any number that nobody else takes.
_LOCK = 0x6465757A

_SCHEMA = """
CREATE TABLE deuz_memory_schema (version INTEGER NOT NULL);
CREATE TABLE deuz_memory_records (
    scope TEXT COLLATE "C" NOT NULL, id TEXT COLLATE "C" NOT NULL, text TEXT NOT NULL,
    mandatory BOOLEAN NOT NULL, expires_at DOUBLE PRECISION, origin TEXT NOT NULL,
    source_kinds TEXT[] NOT NULL, revision INTEGER NOT NULL, digest TEXT NOT NULL,
    terms TEXT[] NOT NULL, written BIGSERIAL, PRIMARY KEY (scope, id)
);
CREATE INDEX deuz_memory_terms ON deuz_memory_records USING gin (terms);
CREATE INDEX deuz_memory_expiry ON deuz_memory_records (expires_at)
    WHERE expires_at IS NOT NULL;
CREATE TABLE deuz_memory_notes (
    scope TEXT COLLATE "C" NOT NULL, key TEXT COLLATE "C" NOT NULL,
    content BYTEA NOT NULL, PRIMARY KEY (scope, key)
);
CREATE TABLE deuz_memory_dropped (key BYTEA PRIMARY KEY, at DOUBLE PRECISION NOT NULL);
"""
_FIELDS = "id, text, mandatory, expires_at, origin, source_kinds, revision, digest"
_LIVE = "scope = $1 AND (expires_at IS NULL OR expires_at > $2)"
_LIST = f"SELECT {_FIELDS} FROM deuz_memory_records WHERE {_LIVE}"  # noqa: S608
_HELD = f"""
SELECT asked.term, count(*) FROM unnest($3::text[]) AS asked (term)
JOIN deuz_memory_records ON {_LIVE} AND terms @> ARRAY[asked.term] GROUP BY asked.term
"""  # noqa: S608  # Constants only, as below.
_SEARCH = f"""
SELECT {_FIELDS}, terms FROM deuz_memory_records
WHERE {_LIVE} AND terms && $3::text[]
ORDER BY (
    SELECT sum(asked.weight)
    FROM unnest($3::text[], $4::double precision[]) AS asked (term, weight)
    WHERE asked.term = ANY (terms)
) DESC, cardinality(terms), id LIMIT $5
"""  # noqa: S608
_PUT = """
INSERT INTO deuz_memory_records AS held VALUES ($1,$2,$3,$4,$5,$6,$7,1,$8,$9)
ON CONFLICT (scope, id) DO UPDATE SET
    text = excluded.text, mandatory = excluded.mandatory,
    expires_at = excluded.expires_at, origin = excluded.origin,
    source_kinds = excluded.source_kinds, digest = excluded.digest,
    terms = excluded.terms, written = excluded.written, revision = held.revision
        + CASE WHEN held.digest = excluded.digest THEN 0 ELSE 1 END
RETURNING revision
"""

_Answer = TypeVar("_Answer")
_Work = Callable[[Any], Awaitable[_Answer]]
_FAULTS = (asyncpg.PostgresError, asyncpg.InterfaceError, OSError, TimeoutError)


class PostgresMemory:
    """A `memory.records.Records` and `Notes`; `url` may hold a password."""

    def __init__(self, url: str, *, words_of: Words) -> None:
        self._url = url
        self._words_of = words_of
        self._pool: Any = None

    async def open(self) -> "PostgresMemory":
        """Connect, and make the tables where there are none.

        Raises:
            StoreUnusable: no connection, no right, or tables of a newer version.
        """
        try:
            self._pool = await asyncpg.create_pool(
                self._url,
                min_size=1,
                max_size=_MOST_CONNECTIONS,
                command_timeout=_ANSWER_SECONDS,
                timeout=_ANSWER_SECONDS,
            )
            version = await self._run("open", _make_tables)
        except (*_FAULTS, ValueError, StoreFailed) as fault:
            await self.close()
            # The fault's words may repeat the address, and with it the password.
            reason = type(fault.__cause__ or fault).__name__
            raise StoreUnusable(store="postgres", reason=reason) from None
        if version > VERSION:
            await self.close()
            reason = (
                f"its tables are of version {version}, this sidecar reads {VERSION}"
            )
            raise StoreUnusable(store="postgres", reason=reason)
        return self

    async def put(self, scope: str, draft: Draft, *, now: float) -> Record:
        """Keep the record; an equal text keeps its revision."""
        digest = digest_text(draft.text)
        values = (
            scope,
            draft.id,
            draft.text,
            draft.mandatory,
            draft.expires_at,
            draft.origin,
            list(draft.source_kinds),
            digest,
            list(terms_of(draft.text, self._words_of)),
        )
        expired = "DELETE FROM deuz_memory_records WHERE expires_at <= $1"

        async def work(connection: Any) -> int:
            await connection.execute(expired, now)
            revision: int = await connection.fetchval(_PUT, *values)
            return revision

        return Record(draft, await self._run("put", work), digest)

    async def get(self, scope: str, record_id: str, *, now: float) -> Record | None:
        """Return the record, if it is there."""
        found = await self._list("AND id = $3", scope, now, record_id)
        return found[0] if found else None

    async def page(
        self, scope: str, *, after: str, limit: int, now: float
    ) -> Sequence[Record]:
        """Return records by id, those behind `after` first."""
        rest = "AND id > $3 ORDER BY id LIMIT $4"
        return await self._list(rest, scope, now, after, limit)

    async def mandatory(self, scope: str, *, now: float) -> Sequence[Record]:
        """Return the records that must always be placed, by id."""
        return await self._list("AND mandatory ORDER BY id", scope, now)

    async def search(
        self, scope: str, text: str, *, limit: int, now: float
    ) -> Sequence[Hit]:
        """Return what shares words with the text, the best first."""
        terms = asked_terms(text, self._words_of)
        count = f"SELECT count(*) FROM deuz_memory_records WHERE {_LIVE}"  # noqa: S608

        async def work(connection: Any) -> Sequence[Hit]:
            held = dict(await connection.fetch(_HELD, scope, now, list(terms)))
            records = await connection.fetchval(count, scope, now)
            asked = weigh_terms(terms, held, records)
            if asked is None or limit < 1:
                return ()
            named, weights = list(asked.weights), list(asked.weights.values())
            most = rows_to_weigh(limit)
            rows = await connection.fetch(_SEARCH, scope, now, named, weights, most)
            hits = [
                Hit(_record(row), asked.score(frozenset(row["terms"]))) for row in rows
            ]
            return tuple(sorted(hits, key=lambda hit: -hit.score)[:limit])

        return await self._run("search", work)

    async def drop(self, scope: str, ids: Sequence[str], *, now: float) -> int:
        """Remove records; return how many were there."""
        keys = [(dropped_key(scope, each), now) for each in dict.fromkeys(ids)]
        old = "DELETE FROM deuz_memory_dropped WHERE at < $1"
        note = (
            "INSERT INTO deuz_memory_dropped VALUES ($1, $2)"
            " ON CONFLICT (key) DO UPDATE SET at = excluded.at"
        )
        gone = "DELETE FROM deuz_memory_records WHERE scope = $1 AND id = ANY ($2)"

        async def work(connection: Any) -> int:
            await connection.execute(old, now - DROPPED_SECONDS)
            await connection.executemany(note, keys)
            done: str = await connection.execute(gone, scope, list(ids))
            return int(done.rpartition(" ")[2])

        return await self._run("drop", work)

    async def trim(self, scope: str, *, most_in_scope: int, most: int) -> int:
        """Remove the records written longest ago over the bounds; return how many."""
        gone = (
            "DELETE FROM deuz_memory_records WHERE {0} written <= (SELECT written FROM"
            " deuz_memory_records {1} ORDER BY written DESC LIMIT 1 OFFSET $1)"
        )
        here = gone.format("scope = $2 AND", "WHERE scope = $2")
        everywhere = gone.format("", "")

        async def work(connection: Any) -> int:
            first: str = await connection.execute(here, most_in_scope, scope)
            second: str = await connection.execute(everywhere, most)
            return sum(int(done.rpartition(" ")[2]) for done in (first, second))

        return await self._run("trim", work)

    async def dropped(
        self, scope: str, ids: Sequence[str], *, since: float
    ) -> Sequence[str]:
        """Return which of the ids were dropped at that time or later."""
        keys = {dropped_key(scope, each): each for each in ids}
        look = "SELECT key FROM deuz_memory_dropped WHERE key = ANY ($1) AND at >= $2"

        async def work(connection: Any) -> Sequence[Any]:
            rows: Sequence[Any] = await connection.fetch(look, list(keys), since)
            return rows

        found = {bytes(row["key"]) for row in await self._run("read", work)}
        return tuple(each for key, each in keys.items() if key in found)

    async def load(self, scope: str, key: str) -> bytes | None:
        """Return the notes under a key."""
        look = "SELECT content FROM deuz_memory_notes WHERE scope = $1 AND key = $2"
        found: bytes | None = await self._run(
            "load", lambda connection: connection.fetchval(look, scope, key)
        )
        return found

    async def has_any(self) -> bool:
        """Tell whether there are any notes."""
        look = "SELECT EXISTS (SELECT 1 FROM deuz_memory_notes)"
        return bool(
            await self._run("load", lambda connection: connection.fetchval(look))
        )

    async def swap(
        self, scope: str, key: str, *, old: bytes | None, new: bytes | None
    ) -> bool:
        """Put notes in the place of others; False: they are other ones by now."""
        if old is None and new is None:
            return await self.load(scope, key) is None
        is_there = "scope = $1 AND key = $2 AND content = $3"
        if old is None:
            change = (
                "INSERT INTO deuz_memory_notes VALUES ($1, $2, $3)"
                " ON CONFLICT DO NOTHING"
            )
            values: tuple[object, ...] = (scope, key, new)
        elif new is None:
            change = f"DELETE FROM deuz_memory_notes WHERE {is_there}"  # noqa: S608
            values = (scope, key, old)
        else:
            change = f"UPDATE deuz_memory_notes SET content = $4 WHERE {is_there}"  # noqa: S608
            values = (scope, key, old, new)
        done: str = await self._run(
            "swap", lambda connection: connection.execute(change, *values)
        )
        return done.endswith(" 1")

    async def close(self) -> None:
        """Close the connections. May be called twice."""
        pool, self._pool = self._pool, None
        if pool is not None:
            try:
                async with asyncio.timeout(_ANSWER_SECONDS):
                    await pool.close()
            except TimeoutError:
                pool.terminate()

    async def _list(
        self, rest: str, scope: str, now: float, *values: object
    ) -> Sequence[Record]:
        rows = await self._run(
            "read",
            lambda connection: connection.fetch(f"{_LIST} {rest}", scope, now, *values),
        )
        return tuple(map(_record, rows))

    async def _run(
        self, operation: str, work: Callable[[Any], Awaitable[_Answer]]
    ) -> _Answer:
        if self._pool is None:
            raise StoreFailed(store=STORE, operation=operation)
        try:
            async with (
                self._pool.acquire(timeout=_ANSWER_SECONDS) as connection,
                connection.transaction(),
            ):
                return await work(connection)
        except _FAULTS as fault:
            raise StoreFailed(store=STORE, operation=operation) from fault


async def _make_tables(connection: Any) -> int:
    """Make the tables where there are none; return their version."""
    await connection.execute("SELECT pg_advisory_xact_lock($1)", _LOCK)
    if await connection.fetchval("SELECT to_regclass('deuz_memory_schema')") is None:
        await connection.execute(_SCHEMA)
        await connection.execute("INSERT INTO deuz_memory_schema VALUES ($1)", VERSION)
    version: int = await connection.fetchval("SELECT version FROM deuz_memory_schema")
    return version


def _record(row: Any) -> Record:
    draft = Draft(
        row["id"],
        row["text"],
        row["mandatory"],
        row["expires_at"],
        row["origin"],
        tuple(row["source_kinds"]),
    )
    return Record(draft, row["revision"], row["digest"])
