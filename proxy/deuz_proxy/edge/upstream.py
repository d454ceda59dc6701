"""The one client session: sends a request on and hands the answer out as it arrives.

Rules:
- Nothing is followed, decoded, retried or added: the upstream gets the client's lines.
- Environment proxies are not used: a sidecar's upstreams are named in its config.
- Every foreign exception becomes an error of ours here.
"""

import asyncio
from collections.abc import AsyncIterator, Sequence
from typing import Self

import aiohttp
from aiohttp import (
    ClientHandlerType,
    ClientMiddlewareType,
    ClientRequest,
    ClientResponse,
    hdrs,
)
from multidict import CIMultiDict
from yarl import URL

from deuz_proxy.calls import header
from deuz_proxy.edge.headers import MAX_HEADER_BYTES, header_text, request_headers
from deuz_proxy.edge.reaching import unreachable
from deuz_proxy.errors import SidecarError, UpstreamBroken, UpstreamUnreachable

# A read buffer that rarely pauses; answers are relayed as they come all the same.
_READ_BUFFER_BYTES = 2**18
# Bodies above this go out in slices: the loop can serve others in between.
_SLICE_BYTES = 2**18
_MOST_URLS = 2048
# To any other the library gives a length of 0 when there is no body.
_BODYLESS = frozenset({"GET", "HEAD", "OPTIONS", "TRACE"})

Body = bytes | AsyncIterator[bytes] | None


class HttpReply:
    """An answer whose head has arrived. One task reads it, once."""

    __slots__ = ("_response", "_upstream", "headers", "reason", "status")

    def __init__(self, response: aiohttp.ClientResponse, upstream: str) -> None:
        self._response = response
        self._upstream = upstream
        self.status = response.status
        self.reason = response.reason or ""
        self.headers: Sequence[tuple[bytes, bytes]] = response.raw_headers

    async def chunks(self) -> AsyncIterator[bytes]:
        """Yield the body's bytes as they arrive.

        Raises:
            UpstreamBroken: the body ended before its announced end.
        """
        try:
            async for chunk in self._response.content.iter_any():
                yield chunk
        except (aiohttp.ClientError, OSError) as fault:
            raise UpstreamBroken(upstream=self._upstream) from fault

    async def close(self) -> None:
        """Give the connection back if the body was read, else end it."""
        self._response.release()


class Upstreams:
    """The connections to all upstreams. Owned by the app, closed once."""

    def __init__(self, *, connect_seconds: float, idle_seconds: float) -> None:
        self._connect_seconds = connect_seconds
        self._idle_seconds = idle_seconds
        self._urls: dict[tuple[str, str], URL] = {}
        self._session: aiohttp.ClientSession | None = None

    async def open(self) -> Self:
        """Open the session inside the running loop."""
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=0, keepalive_timeout=30),
            timeout=aiohttp.ClientTimeout(
                total=None,
                sock_connect=self._connect_seconds,
                sock_read=self._idle_seconds,
            ),
            cookie_jar=aiohttp.DummyCookieJar(),
            auto_decompress=False,
            read_bufsize=_READ_BUFFER_BYTES,
            max_line_size=MAX_HEADER_BYTES,
            max_field_size=MAX_HEADER_BYTES,
            skip_auto_headers=(
                "User-Agent",
                "Accept",
                "Accept-Encoding",
                "Content-Type",
            ),
        )
        return self

    async def send(
        self,
        *,
        method: str,
        base: str,
        path: str,
        headers: Sequence[tuple[bytes, bytes]],
        body: Body,
    ) -> HttpReply:
        """Send the request and return once the answer's head is there.

        Raises:
            UpstreamUnreachable: no connection could be made.
            UpstreamBroken: the connection ended before the head.
            SidecarError: reading the streamed body failed with it.
        """
        if self._session is None:
            raise UpstreamUnreachable(upstream=base)
        lines: CIMultiDict[str] = CIMultiDict(
            (header_text(name), header_text(value))
            for name, value in request_headers(headers)
        )
        _announce_length(lines, headers, body)
        is_framed = body is not None or method in _BODYLESS
        try:
            response = await self._session.request(
                method,
                self._url(base, path),
                headers=lines,
                data=_in_slices(body),
                allow_redirects=False,
                middlewares=() if is_framed and _is_kept(lines) else (_exactly(lines),),
            )
        except (aiohttp.ClientConnectorError, aiohttp.ConnectionTimeoutError) as fault:
            raise unreachable(base, fault) from fault
        except (aiohttp.ClientError, OSError) as fault:
            if isinstance(fault.__cause__, SidecarError):
                # The body that was being sent on is what broke.
                raise fault.__cause__ from fault
            raise UpstreamBroken(upstream=base) from fault
        return HttpReply(response, base)

    async def close(self) -> None:
        """Close all connections."""
        if self._session is not None:
            await self._session.close()
            # Let transports finish closing before the loop ends.
            await asyncio.sleep(0)

    def _url(self, base: str, path: str) -> URL:
        key = (base, path)
        url = self._urls.get(key)
        if url is None:
            url = _raw_url(URL(base), path)
            if len(self._urls) < _MOST_URLS:
                self._urls[key] = url
        return url


def _raw_url(base: URL, target: str) -> URL:
    """Return the address whose request target is exactly the given one.

    All of it is called a path: taken apart, a query without text would lose its mark.
    """
    return URL.build(
        scheme=base.scheme,
        authority=base.raw_authority,
        path=base.raw_path.rstrip("/") + target,
        encoded=True,
    )


def _announce_length(
    lines: CIMultiDict[str], headers: Sequence[tuple[bytes, bytes]], body: Body
) -> None:
    """State the length where it is known, so that the framing stays the client's."""
    if isinstance(body, bytes):
        lines["Content-Length"] = str(len(body))
        return
    length = header(headers, b"content-length")
    if length is not None:
        lines["Content-Length"] = length.decode("latin-1")


def _is_kept(lines: CIMultiDict[str]) -> bool:
    """Tell whether the client library keeps every line.

    Of lines whose names differ in case only, it keeps the last.
    """
    names = {name for name, _ in lines.items()}
    return len(names) == len({name.lower() for name in names})


def _exactly(lines: CIMultiDict[str]) -> ClientMiddlewareType:
    """Return what replaces the library's idea of the header lines by the given ones."""

    async def replace_lines(
        request: ClientRequest, send: ClientHandlerType
    ) -> ClientResponse:
        exact = CIMultiDict({hdrs.HOST: request.headers[hdrs.HOST]})
        exact.extend(lines)
        if hdrs.TRANSFER_ENCODING in request.headers:
            exact[hdrs.TRANSFER_ENCODING] = request.headers[hdrs.TRANSFER_ENCODING]
        request.headers = exact
        return await send(request)

    return replace_lines


def _in_slices(body: Body) -> Body:
    if isinstance(body, bytes) and len(body) > _SLICE_BYTES:
        return _slices(body)
    return body


async def _slices(body: bytes) -> AsyncIterator[bytes]:
    view = memoryview(body)
    for at in range(0, len(body), _SLICE_BYTES):
        yield view[at : at + _SLICE_BYTES]  # type: ignore[misc]  # Any buffer is sent.
        await asyncio.sleep(0)
