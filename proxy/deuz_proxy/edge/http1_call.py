"""A request as the line takes it, and the place where its answer goes.

Rules:
- A body of known length is read into its place; others are held in the pieces they came
  in, and joined once; a large one grows in place, so that it is never here twice.
- The client gets the lines it is given and this hop's framing, nothing else.
- What ends short of its framing looks broken.
"""

from collections.abc import AsyncIterator, Sequence
from io import BytesIO

import msgspec

from deuz_proxy.calls import Letterhead, header
from deuz_proxy.edge.headers import joined_head, response_headers
from deuz_proxy.edge.http1_connection import Connection
from deuz_proxy.edge.http1_flow import LARGE_BYTES, Inbox
from deuz_proxy.edge.http1_framing import Length
from deuz_proxy.edge.http1_wire import Lines, RequestHead
from deuz_proxy.errors import BodyTooLarge

Headers = Sequence[tuple[bytes, bytes]]

_CONTINUE, _SWITCHED, _FIRST_FINAL = 100, 101, 200
_BODYLESS = frozenset({204, 304})


class Http1Incoming(msgspec.Struct, eq=False):
    """A request whose head has arrived."""

    _connection: Connection
    _request: RequestHead
    _inbox: Inbox
    method: str
    target: str
    headers: Headers
    letterhead: Letterhead

    @property
    def has_body(self) -> bool:
        """Whether a body was announced."""
        return self._request.framing is not None

    @property
    def upgrade(self) -> bytes | None:
        """The protocol that the client wants to switch to, if it is one we hand on.

        HTTP/2 is not: a client that offers it gets its answer on HTTP/1.1 as well.
        """
        wanted = self._request.upgrade
        is_web_socket = wanted is not None and wanted.lower() == b"websocket"
        return wanted if is_web_socket and not self.has_body else None

    def body_here(self, *, limit_bytes: int) -> bytes | None:
        """Return the whole body, if all of it has come; most have once asked for.

        Raises:
            BodyTooLarge: it is longer than the limit.
            RequestMalformed: its framing is broken.
        """
        if not self._inbox.is_over:
            return None
        body = self._inbox.take_whole()
        if body is None:
            body = b"".join(self._inbox.take_all())
        if len(body) > limit_bytes:
            raise BodyTooLarge(limit_bytes=limit_bytes)
        return body

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
        if 0 < stated <= LARGE_BYTES:
            self._invite()
            await self._inbox.wait()
            return b"".join(self._inbox.take_all())
        self._invite()
        pieces: list[bytes] = []
        large: BytesIO | None = None
        length = 0
        async for piece in self.stream_body():
            length += len(piece)
            if length > limit_bytes:
                raise BodyTooLarge(limit_bytes=limit_bytes)
            if large is not None:
                large.write(piece)
                continue
            pieces.append(piece)
            if length > LARGE_BYTES:
                large = BytesIO()
                large.writelines(pieces)
                pieces.clear()
        if large is not None:
            return large.getvalue()
        return pieces[0] if len(pieces) == 1 else b"".join(pieces)

    async def stream_body(self) -> AsyncIterator[bytes]:
        """Yield the body's bytes as they arrive; whom they go to asks for them.

        Raises:
            RequestMalformed: its framing is broken.
        """
        async for piece in self._inbox.pieces():
            yield piece

    def _invite(self) -> None:
        if self._request.expects_continue and not self._inbox.has_begun:
            self._connection.sender.send(b"HTTP/1.1 100 Continue\r\n\r\n")

    def inform(self, status: int, reason: bytes, headers: Headers) -> None:
        """Hand on an interim answer, unless the client cannot take it, or need not."""
        connection = self._connection
        is_late = connection.has_begun or connection.transport.is_closing()
        if status == _CONTINUE:
            # Of a body that was read here, it was told already.
            is_late |= self._inbox.is_over or not self._request.expects_continue
        if not (is_late or self._request.is_old or connection.outlet.is_paused):
            lines = response_headers(headers)
            connection.sender.send(head_bytes(status, reason, lines))


def incoming_of(connection: Connection, request: RequestHead) -> Http1Incoming:
    """Return the request that begins with this head."""
    return Http1Incoming(
        connection,
        request,
        connection.inbox,
        request.method.decode("ascii"),
        request.target.decode("latin-1"),
        request.lines,
        request.letterhead,
    )


class Http1Client:
    """Where the answer goes. One task writes it, once."""

    __slots__ = (
        "_connection",
        "_has_body",
        "_is_chunked",
        "_is_endless",
        "_is_kept",
        "_left_bytes",
        "_request",
        "has_started",
    )

    def __init__(self, connection: Connection, request: RequestHead) -> None:
        self._connection = connection
        self._request = request
        self._has_body = True
        self._is_chunked = False
        # Whether the end of the connection is the end of the answer.
        self._is_endless = False
        # What is still to be written, where that was stated.
        self._left_bytes: int | None = None
        self._is_kept = request.is_kept_alive
        self.has_started = False

    @property
    def is_kept(self) -> bool:
        """Whether another request may follow this answer."""
        return self._is_kept and not self._connection.is_last

    def start(self, status: int, reason: str, headers: Headers) -> None:
        """Send the status and the end-to-end header lines.

        Raises:
            ConnectionResetError: the connection has ended.
        """
        self._keep_or_end()
        lines = response_headers(headers)
        self._frame(status, lines)
        # With what is written in the same turn it makes one packet.
        self._connection.sender.hold(self._begun(status, reason, lines))

    def start_with(
        self, status: int, reason: str, headers: Headers, first: bytes
    ) -> bool:
        """Send the status, the lines, and the body's first bytes, like `write`.

        Raises:
            ConnectionResetError: the connection has ended.
        """
        self._keep_or_end()
        connection, request = self._connection, self._request
        asked = status, reason, request.is_old, self.is_kept
        if request.method != b"HEAD":
            alike = connection.letters.head_alike(asked, headers)
            if alike is not None:
                self._start_alike(*alike, first)
                return connection.outlet.is_paused
        lines = response_headers(headers)
        self._frame(status, lines)
        head = self._begun(status, reason, lines)
        if self._left_bytes is not None:
            connection.letters.keep(asked, headers, head)
        return self._send(first, ahead=head)

    def _start_alike(self, head: bytes, stated_bytes: int, first: bytes) -> None:
        """Send a head that is known, and the first of so many bytes behind it."""
        self._check()
        self._connection.sender.send(first, ahead=head)
        self._left_bytes = stated_bytes - len(first)

    async def switch(self, reason: str, headers: Headers) -> AsyncIterator[bytes]:
        """Say that the protocol is switched; return what the client sends from now on.

        Raises:
            ConnectionResetError: the connection has ended.
        """
        lines = response_headers(headers)
        protocol = header(headers, b"upgrade") or b""
        lines += ((b"Connection", b"Upgrade"), (b"Upgrade", protocol))
        self._is_kept = False
        self._connection.sender.send(self._begun(_SWITCHED, reason, lines))
        return self._connection.open_tunnel().pieces()

    async def drain(self) -> None:
        """Return once the client has read on.

        Raises:
            ConnectionResetError: the connection has ended.
        """
        await self._connection.outlet.drain()

    def write(self, chunk: bytes) -> bool:
        """Send bytes of the body; tell whether they wait for the client to read.

        Raises:
            ConnectionResetError: the connection has ended.
        """
        return self._send(chunk)

    def finish(self) -> None:
        """End the body."""
        if self._is_chunked:
            if self._connection.transport.is_closing():
                raise ConnectionResetError
            self._connection.sender.send(b"0\r\n\r\n")
        if self._left_bytes:
            self.abort()
        if self._is_endless:
            self._connection.sender.end_well()
        self._connection.is_answered = True

    def abort(self) -> None:
        """End the connection so that the client sees that the answer is not whole.

        What is on its way still arrives. A client to which the end of the connection is
        the end of the answer can be told by a reset only.
        """
        self._connection.is_answered = True
        self._is_kept = False
        connection = self._connection
        if self._is_endless and not connection.transport.is_closing():
            connection.sender.flush()
            connection.transport.abort()
        else:
            connection.sender.close()

    def _keep_or_end(self) -> None:
        """Decide whether the connection ends behind the answer, which has to say so.

        It ends where the request is not whole by now: the rest of it may never come.
        """
        if not self._connection.is_whole:
            self._is_kept = False

    def _frame(self, status: int, lines: Lines) -> None:
        """Decide how the body will end, and add the lines that say so."""
        is_bodyless = status < _FIRST_FINAL or status in _BODYLESS
        self._has_body = not is_bodyless and self._request.method != b"HEAD"
        is_old = self._request.is_old
        if self._has_body:
            stated = header(lines, b"content-length")
            if stated is not None:
                self._left_bytes = int(stated)
            elif is_old:
                self._is_kept = False
                self._is_endless = True
                # Whatever ends it before its end, be it with the process.
                self._connection.sender.break_at_end()
            else:
                self._is_chunked = True
                lines.append((b"Transfer-Encoding", b"chunked"))
        if self.is_kept == is_old:
            # Not what this version of HTTP takes for granted.
            lines.append((b"Connection", b"keep-alive" if is_old else b"close"))

    def _begun(self, status: int, reason: str, lines: Lines) -> bytes:
        self._check()
        return head_bytes(status, reason.encode("latin-1"), lines)

    def _send(self, chunk: bytes, *, ahead: bytes = b"") -> bool:
        """Frame bytes of the body, send them, and tell whether they wait."""
        connection, length = self._connection, len(chunk)
        if not length or not self._has_body:
            chunk = b""
        elif self._is_chunked:
            chunk = b"%x\r\n%b\r\n" % (length, chunk)
        elif self._left_bytes is not None:
            self._left_bytes -= length
        if connection.transport.is_closing():
            raise ConnectionResetError
        connection.sender.send(chunk, ahead=ahead)
        return connection.outlet.is_paused

    def _check(self) -> None:
        """Take note that the answer begins, if it still can."""
        if self._connection.transport.is_closing():
            raise ConnectionResetError
        self.has_started = self._connection.has_begun = True


def head_bytes(status: int, reason: bytes, lines: Lines) -> bytes:
    """Return an answer's head as it is sent."""
    return joined_head(b"HTTP/1.1 %d %b" % (status, reason), lines)
