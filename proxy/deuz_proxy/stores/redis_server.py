"""A Redis or Valkey server: connections, scripts, and whether its data is ours to read.

Rules:
- It may be down at the start: then it is looked at again when it is asked.
- What a newer version left is refused, at the start or when it turns up, and never
  written to. Older forms stay aside under keys of their own and expire.
- A connection that died while idle costs one more try, within the same deadline. One
  to a server that is written to no more is not kept: after a fail-over it would be.
- Over TLS its certificate must be vouched for and name it; if not, it counts as down.
"""

import asyncio
import logging
import ssl
from contextlib import suppress
from pathlib import Path
from typing import Any, cast

from redis.asyncio import BlockingConnectionPool, Redis, SSLConnection
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.exceptions import (
    AuthenticationError,
    OutOfMemoryError,
    ReadOnlyError,
    RedisError,
    ResponseError,
)

from deuz_proxy.config.ledger import shown_url
from deuz_proxy.errors import StoreUnusable

SCHEMA = 1
STORE = "redis"
FAULTS = (RedisError, OSError)
"""What a server that fails makes its client raise."""

_SCHEMA_KEY = b"deuz:schema"
# As many as wait at once under load; each answers thousands of requests a second.
_MOST_CONNECTIONS = 32
_START_SECONDS = 3.0

_log = logging.getLogger("deuz_proxy")


class RedisServer:
    """A server at a URL that the config checked. Used from the loop's thread only."""

    def __init__(
        self,
        url: str,
        *,
        connect_seconds: float,
        ca_file: Path | None = None,
        schema: int = SCHEMA,
    ) -> None:
        self._shown = shown_url(url)
        self._schema = schema
        self._is_checked = False
        pool = BlockingConnectionPool.from_url(
            url.replace("valkey", "redis", 1) if url.startswith("valkey") else url,
            max_connections=_MOST_CONNECTIONS,
            timeout=connect_seconds,
            socket_connect_timeout=connect_seconds,
            retry=Retry(NoBackoff(), 1),
        )
        if issubclass(pool.connection_class, SSLConnection):
            pool.connection_class = _tls_connection(self._trusted(ca_file))
        self._client = Redis(connection_pool=pool)
        self._scripts: dict[str, Any] = {}

    def key(self, *parts: bytes) -> bytes:
        """Return a key of this schema."""
        return b":".join([b"deuz", b"%d" % self._schema, *parts])

    async def open(self) -> "RedisServer":
        """Look whether it may be used; one that does not answer may later.

        Raises:
            StoreUnusable: it answers, and refuses us or holds a newer form.
        """
        try:
            async with asyncio.timeout(_START_SECONDS):
                await self._check()
        except (AuthenticationError, ResponseError) as fault:
            # Not `from fault`: its words may name the address.
            reason = f"it refuses: {type(fault).__name__}"
            raise self._unusable(reason) from None
        except (*FAULTS, TimeoutError) as fault:
            _log.warning(
                "ledger %s does not answer (%s): requests go on without it until it "
                "does; see ledger.url",
                self._shown,
                _kind_of(fault),
            )
        return self

    async def run(self, script: str, keys: list[bytes], arguments: list[Any]) -> Any:
        """Return what a script answers.

        Raises:
            RedisError: the server failed, or holds a newer form.
            OSError: it cannot be reached.
        """
        if not self._is_checked:
            await self._check_late()
        known = self._scripts.get(script)
        if known is None:
            known = self._scripts[script] = self._client.register_script(script)
        try:
            return await known(keys=keys, args=arguments)
        except ReadOnlyError:
            # Another one may have taken over: the address leads to it now.
            await self._client.connection_pool.disconnect(inuse_connections=False)
            raise

    async def scan(self, cursor: int, prefix: bytes) -> tuple[int, list[bytes]]:
        """Return the next cursor, 0 at the end, and some keys that start so."""
        pattern = _literal(prefix) + b"*"
        next_cursor, keys = await self._client.scan(cursor, match=pattern, count=500)
        return next_cursor, cast(list[bytes], keys)

    async def values(self, keys: list[bytes]) -> list[bytes | None]:
        """Return what the keys hold."""
        # Nothing is decoded: the client is told to answer in bytes.
        held = await self._client.mget(keys) if keys else []
        return cast(list[bytes | None], held)

    async def close(self) -> None:
        """Close all connections. May be called twice."""
        await self._client.aclose()
        await self._client.connection_pool.disconnect()

    async def _check(self) -> None:
        found = await self._client.get(_SCHEMA_KEY)
        try:
            version = int(found or 0)
        except ValueError:
            raise self._unusable("its schema is no number") from None
        if version > self._schema:
            raise self._unusable(
                f"its schema is {version}, this version knows up to {self._schema}"
            )
        if version < self._schema:
            # Full, or a replica that is not to be written to: it may be read.
            with suppress(OutOfMemoryError, ReadOnlyError):
                await self._client.set(_SCHEMA_KEY, self._schema)
        self._is_checked = True

    async def _check_late(self) -> None:
        try:
            await self._check()
        except StoreUnusable as fault:
            _log.warning("%s", fault)
            raise RedisError from None

    def _trusted(self, ca_file: Path | None) -> ssl.SSLContext:
        try:
            return ssl.create_default_context(cafile=ca_file)
        except OSError:
            raise self._unusable("its ca_file cannot be read") from None

    def _unusable(self, reason: str) -> StoreUnusable:
        return StoreUnusable(store=f"ledger {self._shown}", reason=reason)


def _tls_connection(trusted: ssl.SSLContext) -> Any:
    """Return what makes connections that trust so.

    By itself the client reads the system's certificates for each connection anew, which
    holds up the loop, and trusts them beside those it is told.
    """

    def made(**options: Any) -> SSLConnection:
        connection = SSLConnection(**options)
        connection.ssl_context.context = trusted
        return connection

    return made


def _kind_of(fault: BaseException) -> str:
    """Return what kind of fault it is; its own words may name the address."""
    each: BaseException | None = fault
    while each is not None:
        if isinstance(each, ssl.SSLCertVerificationError):
            return "its certificate is not vouched for, or names another server"
        if isinstance(each, ssl.SSLError):
            return "it does not speak TLS as we do"
        each = each.__cause__ or each.__context__
    return type(fault).__name__


def _literal(prefix: bytes) -> bytes:
    """Return a pattern that means just these bytes."""
    return b"".join(
        b"\\" + bytes([each]) if each in b"*?[]\\" else bytes([each]) for each in prefix
    )
