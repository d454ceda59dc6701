"""The socket's side of the line: aiohttp's low-level server, one handler.

Rules:
- The request's target and header lines are taken raw.
- What the client gets are the upstream's lines; aiohttp's own additions are removed.
- A client that leaves cancels its handler, whatever it waits for.
"""

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence

from aiohttp import hdrs, web
from multidict import CIMultiDict

from deuz_proxy.edge.headers import response_headers
from deuz_proxy.errors import BodyTooLarge

_INVENTED = (hdrs.DATE, hdrs.SERVER, hdrs.CONTENT_TYPE)
_NO_BODY_BELOW = 200
_EMPTY = frozenset({204, 304})

Serve = Callable[["HttpIncoming", "HttpClient"], Awaitable[None]]


class _PlainResponse(web.StreamResponse):
    """A response that goes out with the given header lines and no others."""

    async def _prepare_headers(self) -> None:
        given = set(self.headers)
        await super()._prepare_headers()
        for name in _INVENTED:
            if name not in given:
                self.headers.popall(name, None)


class HttpIncoming:
    """A request whose head has arrived."""

    __slots__ = ("_request", "headers", "method", "target")

    def __init__(self, request: web.BaseRequest) -> None:
        self._request = request
        self.method = request.method
        self.target = request.raw_path
        self.headers: Sequence[tuple[bytes, bytes]] = request.raw_headers

    @property
    def has_body(self) -> bool:
        """Whether a body was announced."""
        return self._request.body_exists

    async def read_body(self, *, limit_bytes: int) -> bytes:
        """Return the whole body.

        Raises:
            BodyTooLarge: it is longer than the limit.
        """
        await self._greet()
        # Pieces joined once: a growing buffer costs a copy for each doubling.
        pieces = []
        length = 0
        async for piece in self._request.content.iter_any():
            length += len(piece)
            if length > limit_bytes:
                raise BodyTooLarge(limit_bytes=limit_bytes)
            pieces.append(piece)
        return pieces[0] if len(pieces) == 1 else b"".join(pieces)

    async def stream_body(self) -> AsyncIterator[bytes]:
        """Yield the body's bytes as they arrive."""
        await self._greet()
        async for piece in self._request.content.iter_any():
            yield piece

    async def _greet(self) -> None:
        """Answer `Expect: 100-continue`: the low-level server leaves it to us."""
        expect = self._request.headers.get(hdrs.EXPECT, "")
        transport = self._request.transport
        if expect.lower() == "100-continue" and transport is not None:
            transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")


class HttpClient:
    """Where the answer goes. One task writes it, once."""

    __slots__ = ("_request", "response")

    def __init__(self, request: web.BaseRequest) -> None:
        self._request = request
        self.response: web.StreamResponse | None = None

    @property
    def has_started(self) -> bool:
        """Whether the status line is on its way."""
        return self.response is not None

    async def start(
        self, status: int, reason: str, headers: Sequence[tuple[bytes, bytes]]
    ) -> None:
        """Send the status and the end-to-end header lines."""
        lines = CIMultiDict(
            (name.decode("latin-1"), value.decode("latin-1"))
            for name, value in response_headers(headers)
        )
        self.response = _PlainResponse(status=status, reason=reason, headers=lines)
        await self.response.prepare(self._request)

    async def write(self, chunk: bytes) -> None:
        """Send bytes of the body; waits while the client reads slowly."""
        if self.response is not None and not self._is_bodyless:
            await self.response.write(chunk)

    async def finish(self) -> None:
        """End the body."""
        if self.response is not None:
            await self.response.write_eof()

    def abort(self) -> None:
        """Break the connection: the client must see that the answer is not whole."""
        transport = self._request.transport
        if transport is not None:
            transport.abort()

    @property
    def _is_bodyless(self) -> bool:
        status = self.response.status if self.response else _NO_BODY_BELOW
        is_head = self._request.method == hdrs.METH_HEAD
        return is_head or status < _NO_BODY_BELOW or status in _EMPTY


def make_server(serve: Serve) -> web.Server:
    """Return a low-level server that hands every request to `serve`."""

    async def handle(request: web.BaseRequest) -> web.StreamResponse:
        client = HttpClient(request)
        await serve(HttpIncoming(request), client)
        # `serve` always answers; this is what a client sees that has already gone.
        return client.response or web.Response(status=502)

    return web.Server(
        handle, access_log=None, handler_cancellation=True, read_bufsize=2**18
    )
