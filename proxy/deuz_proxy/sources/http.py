"""A service that is asked over HTTP: one POST with JSON, answered with records.

Rules:
- The contract is `docs/schemas/http-source.json`, for both sides.
- The query, its scope and a limit go out, nothing else of the request.
- Redirects, cookies, compression and the environment's proxies are not used: the
  credential of the config goes to the configured address and nowhere else.
- An answer is read up to its limit and then dropped with its connection.
"""

import ssl
from collections.abc import Sequence

import aiohttp
import msgspec

from deuz_compiler import Candidate
from deuz_proxy.config.outside import HttpSource
from deuz_proxy.errors import SourceFailed
from deuz_proxy.ports import Query
from deuz_proxy.sources.answer import read_answer

CONTRACT = 1
_CONNECTIONS = 32
# The line's deadline is far shorter; this ends what nobody waits for any more.
_LONGEST_SECONDS = 60.0
_SUCCESS = 200
_REDIRECTS = range(300, 400)


class HttpService:
    """A `ports.Source` over a service."""

    def __init__(self, config: HttpSource) -> None:
        self.id = config.id
        self.kind: str = config.kind
        self.is_required = config.required
        self.gives_mandatory = False
        self.refused = 0
        self._url = config.url
        self._most_bytes = config.max_answer_bytes
        self._headers = {
            "Content-Type": "application/json",
            "Accept": "application/json",
            # A small answer may be a large one, unpacked.
            "Accept-Encoding": "identity",
            **{k: v.get_secret_value() for k, v in config.headers.items()},
        }
        self._ca_file = config.ca_file
        self._session: aiohttp.ClientSession | None = None
        self._is_closed = False

    async def find(self, query: Query) -> Sequence[Candidate]:
        """Return what the service answers, in its own order.

        Raises:
            SourceFailed: it cannot be reached, or its answer is none.
        """
        body = await self._ask(_question(query))
        taken = read_answer(body, source=self.id, kind=self.kind, query=query)
        self.refused += taken.refused
        return taken.candidates

    async def close(self) -> None:
        """Close the connections. May be called twice."""
        self._is_closed = True
        if self._session is not None:
            await self._session.close()

    async def _ask(self, question: bytes) -> bytes:
        try:
            async with self._opened().post(
                self._url, data=question, headers=self._headers, allow_redirects=False
            ) as reply:
                return await self._read(reply)
        except (aiohttp.ClientSSLError, ssl.SSLError) as fault:
            raise SourceFailed(source=self.id, reason="tls") from fault
        except (aiohttp.ClientConnectorError, TimeoutError) as fault:
            # A timeout here is the client's own: the line's is a cancellation.
            raise SourceFailed(source=self.id, reason="unreachable") from fault
        except (aiohttp.ClientError, OSError) as fault:
            raise SourceFailed(source=self.id, reason="broken") from fault

    async def _read(self, reply: aiohttp.ClientResponse) -> bytes:
        if (reason := _reason_against(reply)) is not None:
            raise SourceFailed(source=self.id, reason=reason)
        body = bytearray()
        async for chunk in reply.content.iter_any():
            body += chunk
            if len(body) > self._most_bytes:
                reply.close()
                raise SourceFailed(source=self.id, reason="too_large")
        return bytes(body)

    def _opened(self) -> aiohttp.ClientSession:
        if self._is_closed:
            raise SourceFailed(source=self.id, reason="closed")
        if self._session is None:
            tls = ssl.create_default_context(cafile=self._ca_file)
            self._session = aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(limit=_CONNECTIONS, ssl=tls),
                cookie_jar=aiohttp.DummyCookieJar(),
                timeout=aiohttp.ClientTimeout(total=_LONGEST_SECONDS),
                trust_env=False,
                auto_decompress=False,
            )
        return self._session


def _question(query: Query) -> bytes:
    return msgspec.json.encode(
        {
            "version": CONTRACT,
            "query": query.text,
            "scope": query.scope,
            "limit": query.limit,
        }
    )


def _reason_against(reply: aiohttp.ClientResponse) -> str | None:
    if reply.status in _REDIRECTS:
        return "redirect"
    if reply.status != _SUCCESS:
        return "status"
    encoding = reply.headers.get("Content-Encoding", "identity").strip().lower()
    return None if encoding in ("", "identity") else "encoding"
