"""One accepted connection: requests read from it, answers written to it.

Rules:
- A body is held in the pieces it came in, and joined once; its reading stops while
  too much of it waits to be taken.
- The client gets the lines it is given and this hop's framing, nothing else; what ends
  short of its framing looks broken.
- What follows a request waits, bounded, until that request was answered.
"""

import asyncio
import select
import socket
import struct
from collections.abc import AsyncIterator, Callable, Sequence
from typing import cast

from deuz_proxy.edge.headers import response_headers
from deuz_proxy.edge.http1_flow import Inbox, Outlet, wake
from deuz_proxy.edge.http1_wire import (
    Endless,
    Framing,
    Head,
    HeadTooLong,
    Length,
    Lines,
    NotHttp,
    RequestHead,
    read_request,
)
from deuz_proxy.errors import BodyTooLarge, RequestMalformed, SidecarError

Headers = Sequence[tuple[bytes, bytes]]

_WRITE_AHEAD_BYTES = 2**18
_MOST_BACKLOG_BYTES = 2**16
_JOINED_BYTES = 2**14
# Linux only; elsewhere a client that leaves a paused connection is noticed later.
_GONE = getattr(select, "POLLRDHUP", 0)
_RESET = struct.pack("ii", 1, 0)
_FIRST_FINAL = 200
_BODYLESS = frozenset({204, 304})


class HeadTooLarge(SidecarError):
    """A request's head is longer than any client's should be."""

    code = "head_too_large"
    status = 431

    def __init__(self) -> None:
        super().__init__("the request's header lines are too long or too many")


class Connection(asyncio.Protocol):
    """An accepted connection. Its task serves; the event loop's calls feed it.

    `since` is when its last answer ended, or it began; `head_since` when the head that
    it waits for began to come.
    """

    def __init__(
        self,
        clock: Callable[[], float],
        *,
        enter: Callable[["Connection"], None],
        leave: Callable[["Connection"], None],
    ) -> None:
        self._clock = clock
        self._enter = enter
        self._leave = leave
        self._head = Head()
        self._request: RequestHead | SidecarError | None = None
        self._framing: Framing | None = None
        self._inbox: Inbox | None = None
        self._waiter: asyncio.Future[None] | None = None
        self._backlog = b""
        self._is_crowded = False
        self._is_deaf = False
        self._is_tunnel = False
        self.client: Http1Client | None = None
        self.outlet = Outlet()
        self.transport: asyncio.Transport
        self.task: asyncio.Task[None] | None = None
        self.is_last = False
        self.since = clock()
        self.head_since: float | None = self.since

    # What its task calls.

    async def next_request(self) -> "Http1Incoming | None":
        """Return the next request once its head is here; None if none will come.

        Raises:
            SidecarError: what came cannot be served.
        """
        self.client = self._request = self._inbox = None
        if self.is_last or self.transport.is_closing():
            return None
        self.since = self._clock()
        self._read_backlog()
        while self._request is None:
            self._waiter = asyncio.get_running_loop().create_future()
            await self._waiter
        if isinstance(self._request, SidecarError):
            raise self._request
        self.client = Http1Client(self, self._request)
        return Http1Incoming(self, self._request, cast(Inbox, self._inbox))

    @property
    def is_whole(self) -> bool:
        """Whether the request has been read to its end."""
        return self._inbox is not None and self._inbox.is_over and not self._is_deaf

    async def linger(self, seconds: float) -> None:
        """End our side, and let go of what still comes.

        Closed over unread bytes, a connection is reset, and with it what we said.
        """
        self._is_deaf = True
        self.client = self._request = None
        if self._inbox is not None:
            self._inbox.drop()
        if not self.transport.is_closing():
            self.transport.write_eof()
            await asyncio.sleep(seconds)

    def open_tunnel(self) -> Inbox:
        """Take whatever comes from now on as the bytes of a tunnel."""
        self._is_tunnel = self.is_last = True
        self._inbox = Inbox(self.transport)
        self._framing = Endless()
        data, self._backlog = self._backlog, b""
        if data:
            self._take_body(data)
        return self._inbox

    # What its server calls.

    @property
    def is_busy(self) -> bool:
        """Whether a request is being served, or its head is coming."""
        return self._request is not None or not self._head.is_empty

    def drain(self) -> None:
        """End it: at once if it is idle, else behind the answer."""
        self.is_last = True
        if not self.is_busy:
            self._quit()

    def cut(self) -> None:
        """End it, whatever it does."""
        self.transport.abort()
        if self.task is not None:
            self.task.cancel()

    @property
    def is_left(self) -> bool:
        """Whether the client has gone while nothing is read from it."""
        is_full = self._inbox is not None and self._inbox.is_full
        if not is_full and not self._is_crowded:
            return False
        poll = select.poll()
        poll.register(self.transport.get_extra_info("socket").fileno(), _GONE)
        return bool(poll.poll(0))

    # What the event loop calls.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Take the transport."""
        self.transport = cast(asyncio.Transport, transport)
        self.transport.set_write_buffer_limits(_WRITE_AHEAD_BYTES)
        sock = transport.get_extra_info("socket")
        # A client whose machine is gone never says so.
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        self._enter(self)

    def data_received(self, data: bytes) -> None:
        """Take what the client sent."""
        if self._is_deaf:
            return
        if self._request is None:
            self._take_head(data)
        elif self._framing is not None:
            self._take_body(data)
        else:
            self._put_off(data)

    def eof_received(self) -> bool:
        """Take the client's end."""
        if self._is_tunnel and self._inbox is not None:
            self._inbox.end()
            return True
        self.is_last = True
        if self.client is not None and not self.client.is_over:
            self.cut()
        elif self.client is None:
            self._quit()
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        """Take the end of the connection."""
        self.is_last = True
        self.outlet.lose()
        if self._inbox is not None:
            self._inbox.end(ConnectionResetError())
        # Who broke the answer, or finished it, is told nothing new.
        if self.task is not None and (self.client is None or not self.client.is_over):
            self.task.cancel()
        self._leave(self)

    def pause_writing(self) -> None:
        """Wait for the client to read."""
        self.outlet.pause()

    def resume_writing(self) -> None:
        """Go on: it has read."""
        self.outlet.resume()

    def _quit(self) -> None:
        self.transport.close()
        if self.task is not None:
            self.task.cancel()

    def _take_head(self, data: bytes) -> None:
        if self.head_since is None:
            self.head_since = self._clock()
        try:
            found = self._head.feed(data)
            if found is None:
                return
            text, rest = found
            request = read_request(text)
        except NotHttp as fault:
            is_long = isinstance(fault, HeadTooLong)
            self._request = HeadTooLarge() if is_long else RequestMalformed()
            self._is_deaf = True
            wake(self._waiter)
            return
        self.head_since = None
        self._request = request
        self._framing = request.framing
        self._inbox = Inbox(self.transport)
        if request.framing is None:
            self._inbox.end()
        wake(self._waiter)
        if rest:
            self.data_received(rest)

    def _take_body(self, data: bytes) -> None:
        inbox, framing = cast(Inbox, self._inbox), cast(Framing, self._framing)
        try:
            piece, rest = framing.feed(data)
        except NotHttp:
            self._is_deaf = True
            inbox.end(RequestMalformed())
            return
        if piece:
            inbox.put(piece)
        if framing.is_complete:
            self._framing = None
            inbox.end()
            if rest:
                self._put_off(rest)

    def _put_off(self, data: bytes) -> None:
        self._backlog += data
        if len(self._backlog) > _MOST_BACKLOG_BYTES and not self._is_crowded:
            self._is_crowded = True
            self.transport.pause_reading()

    def _read_backlog(self) -> None:
        data, self._backlog = self._backlog, b""
        if self._is_crowded:
            self._is_crowded = False
            self.transport.resume_reading()
        if data:
            self._take_head(data)


class Http1Incoming:
    """A request whose head has arrived."""

    __slots__ = ("_connection", "_inbox", "_request", "headers", "method", "target")

    def __init__(
        self, connection: Connection, request: RequestHead, inbox: Inbox
    ) -> None:
        self._connection = connection
        self._request = request
        self._inbox = inbox
        self.method = request.method.decode("ascii")
        self.target = request.target.decode("latin-1")
        self.headers: Headers = request.lines

    @property
    def has_body(self) -> bool:
        """Whether a body was announced."""
        return self._request.framing is not None

    @property
    def upgrade(self) -> bytes | None:
        """The protocol that the client would rather speak on this connection."""
        return None if self.has_body else self._request.upgrade

    async def read_body(self, *, limit_bytes: int) -> bytes:
        """Return the whole body.

        Raises:
            BodyTooLarge: it is longer than the limit.
            RequestMalformed: its framing is broken.
        """
        framing = self._request.framing
        # Known before a byte was asked for, where the length was announced.
        stated = framing.stated_bytes if isinstance(framing, Length) else 0
        if stated > limit_bytes:
            raise BodyTooLarge(limit_bytes=limit_bytes)
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
        if self._request.expects_continue and not self._inbox.has_begun:
            self._connection.transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        async for piece in self._inbox.pieces():
            yield piece


class Http1Client:
    """Where the answer goes. One task writes it, once."""

    __slots__ = (
        "_connection",
        "_is_chunked",
        "_is_cut_silently",
        "_is_kept",
        "_left_bytes",
        "_request",
        "has_started",
        "is_over",
    )

    def __init__(self, connection: Connection, request: RequestHead) -> None:
        self._connection = connection
        self._request = request
        self._is_chunked = False
        # Whether a mere end of the connection would pass for the end of the answer.
        self._is_cut_silently = False
        self._is_kept = request.is_kept_alive
        # What may still be written, where that is known.
        self._left_bytes: int | None = 0
        self.has_started = False
        self.is_over = False

    @property
    def is_kept(self) -> bool:
        """Whether another request may follow this answer, once it is over."""
        return self._is_kept and not self._connection.is_last

    async def start(self, status: int, reason: str, headers: Headers) -> None:
        """Send the status and the end-to-end header lines."""
        lines = response_headers(headers)
        lines += self._frame(status, lines)
        self.has_started = True
        self._send(answer_head(status, reason, lines))

    async def switch(self, reason: str, headers: Headers, protocol: bytes) -> Inbox:
        """Say that the protocol is switched; return what the client sends from now."""
        lines = response_headers(headers)
        lines += [(b"Connection", b"Upgrade"), (b"Upgrade", protocol)]
        self.has_started = True
        self._left_bytes = None
        self._send(answer_head(101, reason, lines))
        return self._connection.open_tunnel()

    async def write(self, chunk: bytes) -> None:
        """Send bytes of the body; waits while the client reads slowly.

        Raises:
            ConnectionResetError: the connection has ended.
        """
        if not chunk or self._is_without_body:
            return
        if self._is_chunked and len(chunk) < _JOINED_BYTES:
            self._send(b"%x\r\n%b\r\n" % (len(chunk), chunk))
        elif self._is_chunked:
            self._send(b"%x\r\n" % len(chunk), chunk, b"\r\n")
        else:
            if self._left_bytes is not None:
                self._left_bytes -= len(chunk)
            self._send(chunk)
        if self._connection.outlet.is_paused:
            await self._connection.outlet.drain()

    async def finish(self) -> None:
        """End the body."""
        if self._is_chunked:
            self._send(b"0\r\n\r\n")
        if self._left_bytes:
            self.abort()
        self.is_over = True

    def abort(self) -> None:
        """End the connection so that the client sees that the answer is not whole.

        What is on its way still arrives. A client to which the end of the connection is
        the end of the answer can be told by a reset only.
        """
        self.is_over = True
        self._is_kept = False
        transport = self._connection.transport
        if self._is_cut_silently and not transport.is_closing():
            sock = transport.get_extra_info("socket")
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
            transport.abort()
        else:
            transport.close()
