"""The socket's side of the line: aiohttp's low-level server, one handler.

Rules:
- The request's target and header lines are taken raw.
- What the client gets are the upstream's lines; aiohttp's own additions are removed.
- A body's coding is the client's business: it is never decoded here.
- A client that leaves cancels its handler, whatever it waits for.
"""

import asyncio
import logging
import socket
import struct
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence

from aiohttp import HttpVersion11, hdrs, web
from multidict import CIMultiDict

from deuz_compiler import error_body
from deuz_proxy.edge.headers import MAX_HEADER_BYTES, header_text, response_headers
from deuz_proxy.errors import BodyTooLarge, RequestMalformed

_INVENTED = (hdrs.DATE, hdrs.SERVER, hdrs.CONTENT_TYPE)
_NO_BODY_BELOW = 200
_EMPTY = frozenset({204, 304})
_RESET = struct.pack("ii", 1, 0)

_log = logging.getLogger("deuz_proxy")

Serve = Callable[["HttpIncoming", "HttpClient"], Awaitable[None]]


class _PlainResponse(web.StreamResponse):
    """A response that goes out with the given header lines and no others."""

    async def _prepare_headers(self) -> None:
        invented = [name for name in _INVENTED if name not in self.headers]
        await super()._prepare_headers()
        for name in invented:
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
            RequestMalformed: its framing is broken.
        """
        # Known before a byte was asked for, where the length was announced.
        if (self._request.content_length or 0) > limit_bytes:
            raise BodyTooLarge(limit_bytes=limit_bytes)
        # Pieces joined once: a growing buffer costs a copy for each doubling.
        pieces = []
        length = 0
        async for piece in self.stream_body():
            length += len(piece)
            if length > limit_bytes:
                raise BodyTooLarge(limit_bytes=limit_bytes)
            pieces.append(piece)
        return pieces[0] if len(pieces) == 1 else b"".join(pieces)

    async def stream_body(self) -> AsyncIterator[bytes]:
        """Yield the body's bytes as they arrive.

        Raises:
            RequestMalformed: its framing is broken.
        """
        self._greet()
        try:
            async for piece in self._request.content.iter_any():
                yield piece
        except web.RequestPayloadError as fault:
            raise RequestMalformed from fault

    def _greet(self) -> None:
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
            (header_text(name), header_text(value))
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
        """End the connection so that the client sees that the answer is not whole.

        What is on its way still arrives. An old client, to which the end of the
        connection is the end of the answer, can be told by a reset only.
        """
        transport = self._request.transport
        if transport is None:
            return
        if self._request.version >= HttpVersion11:
            transport.close()
            return
        reset = transport.get_extra_info("socket")
        reset.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
        transport.abort()

    @property
    def _is_bodyless(self) -> bool:
        status = self.response.status if self.response else _NO_BODY_BELOW
        is_head = self._request.method == hdrs.METH_HEAD
        return is_head or status < _NO_BODY_BELOW or status in _EMPTY


class _Connection(web.RequestHandler):
    """One client's connection; what is not HTTP is answered without a word of it."""

    def data_received(self, data: bytes) -> None:
        """Take bytes; where a body's framing breaks, end the body for its reader too.

        The parser only queues the error behind the request, which would wait for ever.
        """
        super().data_received(data)
        request = self._current_request
        if request is None or request.content.is_eof() or not self._messages:
            return
        # While a body is unfinished, nothing but an error can follow. What comes behind
        # it is not waited for.
        self._lingering_time = 0.0
        request.content.set_exception(web.RequestPayloadError("broken framing"))

    def handle_error(
        self,
        request: web.BaseRequest,
        status: int = 500,
        exc: BaseException | None = None,
        message: str | None = None,
    ) -> web.StreamResponse:
        """Answer what could not be parsed. Its text may hold a key: it goes nowhere."""
        _log.warning("request that is not HTTP: %s", type(exc).__name__)
        fault = RequestMalformed()
        text = error_body("", status=status, code=fault.code, message=str(fault))
        answer = web.Response(body=text, status=status)
        answer.content_type = "application/json"
        answer.force_close()
        return answer


class _Server(web.Server):
    def __call__(self) -> web.RequestHandler:
        return _Connection(
            self,
            loop=asyncio.get_running_loop(),
            access_log=None,  # type: ignore[arg-type]  # None is "no access log".
            auto_decompress=False,
            max_line_size=MAX_HEADER_BYTES,
            max_field_size=MAX_HEADER_BYTES,
            read_bufsize=2**18,
        )


def make_server(serve: Serve) -> web.Server:
    """Return a low-level server that hands every request to `serve`."""

    async def handle(request: web.BaseRequest) -> web.StreamResponse:
        client = HttpClient(request)
        await serve(HttpIncoming(request), client)
        # `serve` always answers; this is what a client sees that has already gone.
        return client.response or web.Response(status=502)

    return _Server(handle, handler_cancellation=True)
