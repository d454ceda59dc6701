"""One connection to an upstream, and the exchanges over it.

Rules:
- One exchange at a time; the connection is kept only if request and answer were whole,
  the upstream keeps it, and not a byte more came.
- Interim answers (100, 102, 103) are handed on as they come. 101 is one only where it
  was asked for.
- An answer may come, and end, before the request was sent: it is handed on.
- An exchange that is given up ends its connection: half a request never looks whole.
"""

import asyncio
import contextlib
import math
import os
import select
from collections.abc import AsyncIterator, Callable
from typing import cast

from deuz_proxy.edge.http1_answers import SWITCHED, AnswerReader, Exchange, Inform
from deuz_proxy.edge.http1_flow import Inbox, Outlet, Waiter
from deuz_proxy.edge.http1_framing import Endless, Framing, Length, NotHttp
from deuz_proxy.edge.http1_turn import Turn
from deuz_proxy.edge.http1_wire import AnswerHead, Head
from deuz_proxy.errors import RequestMalformed, SidecarError, UpstreamBroken

_WRITE_AHEAD_BYTES = _READ_BYTES = 2**18
_FIRST_FINAL = 200


class Connection(asyncio.Protocol):
    """A connection to one upstream. `since` is when anything last happened on it.

    `keep_seconds` is how long the upstream said it would keep it idle, if it did;
    `idle_until` is when its owner lets it go.
    """

    def __init__(
        self,
        upstream: str,
        turn: Turn,
        *,
        enter: Callable[["Connection"], None],
        leave: Callable[["Connection"], None],
    ) -> None:
        self._upstream = upstream
        self._turn, self._loop = turn, turn.loop
        self._enter = enter
        self._leave = leave
        self._outlet = Outlet(turn.loop)
        self._waiter = Waiter(turn.loop)
        self._head = Head()
        self._reader = AnswerReader()
        self._exchange: Exchange | None = None
        self._is_kept = True
        self._is_made = False
        self.transport: asyncio.Transport
        # The task that sends the request's body, where it is not sent at once.
        self.sending: asyncio.Task[None] | None = None
        self.descriptor = -1
        self._poll = select.poll()
        # Whether it has served an exchange and was kept.
        self.is_old = False
        # Whether what is written is encrypted first.
        self.is_tls = False
        self.keep_seconds: int | None = None
        self.idle_until = math.inf
        self.born = self.since = turn.loop.time()

    # What the owner calls.

    @property
    def is_idle(self) -> bool:
        """Whether no exchange is under way."""
        return self._exchange is None

    @property
    def has_spoken(self) -> bool:
        """Whether the kernel has anything to read on it, an end as well.

        On one that is new there may be: TLS hands tickets out behind its handshake. One
        that is closing may have its number no more.
        """
        is_asked = self.is_old and not self.transport.is_closing()
        return is_asked and bool(self._poll.poll(0))

    def prepare(
        self, method: bytes, *, is_switch: bool = False, inform: Inform | None = None
    ) -> Exchange:
        """Return an exchange that is to begin here; until then nothing is of it."""
        inbox = Inbox(self.transport, self._waiter)
        return Exchange(inbox, method, is_switch, inform)

    def begin(self, exchange: Exchange) -> None:
        """Begin an exchange; the request is to be written now."""
        self.since = self._loop.time()
        self._exchange = exchange

    def refuse(self, exchange: Exchange, fault: Exception) -> None:
        """Say why the request was not written; the connection ends."""
        self.abort()
        exchange.inbox.end(fault)
        self._waiter.wake()

    async def send_pieces(
        self, pieces: AsyncIterator[bytes], *, length_bytes: int | None
    ) -> None:
        """Send a body as it comes, in chunks if its length is not known.

        What fails in it is told to whoever waits for the answer.
        """
        sent_bytes = 0
        try:
            async for piece in pieces:
                sent_bytes += len(piece)
                await self.send(piece, is_chunk=length_bytes is None)
            if length_bytes is None:
                self.transport.write(b"0\r\n\r\n")
            elif sent_bytes != length_bytes:
                self.fail(RequestMalformed())
        except OSError:
            # The upstream does not read any more; what it said meanwhile still counts.
            self._is_kept = False
        except Exception as fault:  # noqa: BLE001  # Raised again where it is waited for.
            self.fail(fault)

    async def send(self, piece: bytes, *, is_chunk: bool = False) -> None:
        """Send bytes; waits while the upstream reads slowly.

        Raises:
            ConnectionResetError: the connection ended.
        """
        if piece and is_chunk:
            self.transport.writelines((b"%x\r\n" % len(piece), piece, b"\r\n"))
        elif piece:
            self.transport.write(piece)
        self.since = self._loop.time()
        await self._outlet.drain()

    async def answer_head(self, exchange: Exchange) -> AnswerHead:
        """Return the answer's head once it is here.

        Raises:
            NothingSent: the request was not written, and will not be.
            UpstreamBroken: the connection ended before it, or what came is not HTTP.
            SidecarError: the request's body failed.
        """
        while exchange.answer is None:
            if exchange.inbox.fault is not None:
                raise exchange.inbox.fault
            await self._waiter.wait()
        return exchange.answer

    def end(self) -> bool:
        """End the exchange; tell whether the connection may serve another."""
        exchange, self._exchange = self._exchange, None
        if exchange is None:
            self.abort()
            return False
        if exchange.answer is not None and exchange.answer.status == SWITCHED:
            # What was written to a tunnel before its end still arrives.
            self.transport.close()
            return False
        inbox = exchange.inbox
        is_whole = inbox.is_over and inbox.fault is None
        if not (is_whole and self._is_kept and self._is_sent):
            self.abort()
            return False
        inbox.drop()
        self.sending = None
        self.is_old = True
        self.since = self._loop.time()
        return True

    @property
    def _is_sent(self) -> bool:
        """Whether the request is with the kernel; what is not would be overtaken."""
        if self.sending is not None and not self.sending.done():
            return False
        transport = self.transport
        return not transport.is_closing() and not transport.get_write_buffer_size()

    def abort(self) -> None:
        """End the connection; nothing more is sent, nothing more is read."""
        self._is_kept = False
        if self.sending is not None:
            self.sending.cancel()
        if self._is_made:
            self.transport.abort()

    def expire(self, *, now: float, idle_seconds: float) -> None:
        """Give the exchange up if the upstream was silent for so long."""
        exchange = self._exchange
        if exchange is None or exchange.inbox.is_full or exchange.inbox.is_over:
            return
        if self.since < now - idle_seconds:
            upstream = self._upstream
            self.fail(UpstreamBroken(upstream=upstream, silent_seconds=idle_seconds))

    def fail(self, fault: BaseException) -> None:
        """Say why the exchange cannot go on; what has come stays."""
        self._is_kept = False
        if self._exchange is None:
            return
        if not isinstance(fault, SidecarError):
            broken = UpstreamBroken(upstream=self._upstream)
            broken.__cause__ = fault
            fault = broken
        self._exchange.inbox.end(fault)
        self._waiter.wake()

    # What the event loop calls.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Take the transport."""
        self.transport = cast(asyncio.Transport, transport)
        self.transport.set_write_buffer_limits(_WRITE_AHEAD_BYTES)
        self.is_tls = transport.get_extra_info("ssl_object") is not None
        self.descriptor = transport.get_extra_info("socket").fileno()
        self._poll.register(self.descriptor, select.POLLIN)
        self._is_made = True
        self._enter(self)
        if not self._is_kept:
            self.transport.abort()

    def data_received(self, data: bytes) -> None:
        """Take what the upstream sent."""
        self._turn.arrive()
        self.since = self._loop.time()
        exchange = self._exchange
        if exchange is None:
            # Nobody asked: what it is, only the upstream knows.
            self.abort()
            return
        if exchange.inbox.is_over:
            self._is_kept = False
            return
        framing = exchange.framing
        try:
            # An answer that is read and has no framing is over.
            if framing is None:
                self._take_head(exchange, data)
            elif self._take_body(exchange, framing, data):
                return
        except NotHttp as fault:
            # However it was cut, the client gets what was well up to there.
            if fault.taken:
                exchange.inbox.put(fault.taken)
            self.fail(fault)
        self._waiter.wake()

    def eof_received(self) -> None:
        """Take the upstream's end: the end of an answer that had no other."""
        exchange = self._exchange
        self._is_kept = False
        if exchange is not None and isinstance(exchange.framing, Endless):
            exchange.inbox.end()
            self._waiter.wake()
        else:
            self.fail(ConnectionResetError())

    def connection_lost(self, exc: Exception | None) -> None:
        """Take the end of the connection."""
        self._outlet.lose()
        self._leave(self)
        if exc is not None and not self.is_tls:
            self._read_last()
        self.fail(exc or ConnectionResetError())

    def pause_writing(self) -> None:
        """Wait for the upstream to read."""
        self._outlet.pause()

    def resume_writing(self) -> None:
        """Go on: it has read."""
        self._outlet.resume()

    def _read_last(self) -> None:
        """Read what the kernel has: a write that fails ends the loop's own reading.

        An upstream that refuses an upload early says so right before it hangs up.
        """
        with contextlib.suppress(OSError):
            while data := os.read(self.descriptor, _READ_BYTES):
                self.data_received(data)

    def _take_head(self, exchange: Exchange, data: bytes) -> None:
        alike = self._reader.read_alike(data, exchange) if not self._head.kept else None
        if alike is not None:
            self._take_answer(exchange, *alike)
            return
        answer = None
        while answer is None or answer.status < _FIRST_FINAL:
            found = self._head.feed(data)
            if found is None:
                return
            text, data = found
            answer = self._reader.read(text, exchange)
            if answer.status == SWITCHED:
                if not exchange.is_switch:
                    raise NotHttp("switched without being asked")
                break
            if exchange.inform and answer.status < _FIRST_FINAL:
                exchange.inform(answer.status, answer.reason, answer.lines)
        self._take_answer(exchange, answer, data)

    def _take_answer(self, exchange: Exchange, answer: AnswerHead, data: bytes) -> None:
        exchange.answer, framing = answer, answer.framing
        self._is_kept &= answer.is_kept_alive
        self.keep_seconds = answer.keep_seconds
        if isinstance(framing, Length) and framing.stated_bytes == len(data):
            # Most answers that are no streams come in one read.
            if data:
                exchange.inbox.put(data)
            exchange.inbox.end()
            return
        exchange.framing = framing = Endless() if answer.status == SWITCHED else framing
        if framing is None or framing.is_complete:
            self._complete(exchange, data)
        elif data:
            self._take_body(exchange, framing, data)

    def _take_body(self, exchange: Exchange, framing: Framing, data: bytes) -> bool:
        """Take more of the body; tell whether its task need not know."""
        piece, rest = framing.feed(data)
        is_taken = not piece or exchange.inbox.put(piece)
        if framing.is_complete:
            self._complete(exchange, rest)
            return False
        return is_taken

    def _complete(self, exchange: Exchange, rest: bytes) -> None:
        if rest.strip(b"\r\n"):
            # Longer than it said: if nobody has seen its head yet, nobody will.
            exchange.answer = None
            raise NotHttp("more than the answer")
        self._is_kept &= not rest
        exchange.inbox.end()
