"""One accepted connection: requests are read from it, one after another.

Rules:
- A client that ends its side of the connection has left, also where it has sent a whole
  request: what it waits for is cancelled within a turn of the loop.
- What follows a request waits, bounded, until that request was answered.
- Behind bytes that are not HTTP nothing is read any more.
"""

import asyncio
import socket
from collections.abc import Callable
from typing import cast

from deuz_proxy.edge.http1_bounds import Bounds, refusal_of
from deuz_proxy.edge.http1_flow import Inbox, Outlet, Waiter, has_hung_up
from deuz_proxy.edge.http1_framing import Endless, Framing, Length, NotHttp
from deuz_proxy.edge.http1_letterhead import HeadReader
from deuz_proxy.edge.http1_letters import Letters
from deuz_proxy.edge.http1_turn import Sender, Turn
from deuz_proxy.edge.http1_wire import Head, RequestHead, target_of
from deuz_proxy.errors import (
    RequestMalformed,
    RequestTooSlow,
    SidecarError,
)

_WRITE_AHEAD_BYTES = 2**18
_MOST_BACKLOG_BYTES = 2**16


class Connection(asyncio.BufferedProtocol):
    """An accepted connection. Its task serves; the event loop's calls feed it.

    `since` is when its last answer ended, or it began; `head_since` when the head that
    it waits for began to come.
    """

    def __init__(
        self,
        turn: Turn,
        *,
        bounds: Bounds,
        desk: memoryview,
        enter: Callable[["Connection"], None],
        leave: Callable[["Connection"], None],
    ) -> None:
        self._turn, self._loop = turn, turn.loop
        self._enter, self._leave = enter, leave
        self._bounds, self._desk = bounds, desk
        self._head = Head(bounds.head_bytes)
        self._reader = HeadReader(bounds.head_lines)
        self._request: RequestHead | SidecarError | None = None
        self._framing: Framing | None = None
        # For one thing at a time: a head, or more of a body.
        self._waiter = Waiter(turn.loop)
        self._backlog = b""
        self._is_taken = self._is_crowded = self._is_deaf = self._is_tunnel = False
        self.inbox: Inbox
        self.outlet = Outlet(turn.loop)
        self.letters = Letters()
        self.transport: asyncio.Transport
        self.sender: Sender
        self.task: asyncio.Task[None] | None = None
        self.is_answered = True
        # Whether an answer is on its way: who reads it may let the rest of a body wait.
        self.has_begun = False
        self.is_last = self._is_silent = False
        self._silent_since = 0.0
        # What a request that is refused unread asked for, where that much has come.
        self.target: str | None = None
        self.since = turn.loop.time()
        self.head_since: float | None = self.since

    # What its task calls.

    async def next_request(self) -> RequestHead | None:
        """Return the next request once its head is here; None if none will come.

        Raises:
            SidecarError: what came cannot be served.
        """
        if self._is_taken:
            self._request, self._is_taken = None, False
            self.inbox.drop()
            self.since = self._loop.time()
        if self.is_last or self.transport.is_closing():
            return None
        if self._backlog or self._is_crowded:
            self._read_backlog()
        while self._request is None:
            await self._waiter.wait()
        if isinstance(self._request, SidecarError):
            raise self._request
        self._is_taken, self.is_answered, self.has_begun = True, False, False
        return self._request

    @property
    def is_whole(self) -> bool:
        """Whether the request has been read to its end."""
        return self.inbox.is_over and not self._is_deaf

    async def linger(self, seconds: float) -> None:
        """End our side, and let go of what still comes.

        Closed over unread bytes, a connection is reset, and with it what we said.
        """
        self._is_deaf, self._request, self._is_taken = True, None, False
        self.inbox.drop()
        self._read_backlog()
        if not self.transport.is_closing():
            self.sender.flush()
            self.transport.write_eof()
            await asyncio.sleep(seconds)

    def open_tunnel(self) -> Inbox:
        """Take whatever comes from now on as the bytes of a tunnel."""
        self._is_tunnel = self.is_last = True
        self.inbox = Inbox(self.transport, self._waiter)
        self._framing = framing = Endless()
        if data := self._take_backlog():
            self._take_body(framing, data)
        return self.inbox

    # What its server calls.

    @property
    def is_busy(self) -> bool:
        """Whether a request is being served, or its head is coming."""
        return self._request is not None or not self._head.is_empty

    def is_idle_since(self, at: float) -> bool:
        """Whether nothing has happened on it since then."""
        return self.since < at and not self.is_busy

    def drain(self) -> None:
        """End it: at once if it is idle, else behind the answer."""
        self.is_last = True
        if not self.is_busy:
            self._quit()

    def cut(self) -> None:
        """End it, whatever it does."""
        self.sender.abort()
        if self.task is not None:
            self.task.cancel()

    def hurry(self, now: float) -> None:
        """Refuse a head that takes too long; let go who has not even begun one."""
        is_waiting = self._request is None and not self._is_deaf
        begun = self.head_since if is_waiting else None
        if begun is None or begun >= now - self._bounds.head_seconds:
            return
        if self._head.is_empty:
            self._quit()
            return
        self.target = target_of(self._head.start)
        self._request = RequestTooSlow("head", self._bounds.head_seconds)
        self._is_deaf = True
        self._waiter.wake()

    def look_for_silence(self, now: float) -> None:
        """Give a body up of which nothing has come for too long.

        Called now and then: a clock read for each piece would cost all of them.
        """
        is_due = self._framing is not None and not self._is_tunnel
        if not is_due or self.has_begun or self.inbox.is_full or self._is_deaf:
            self._is_silent = False
        elif not self._is_silent:
            self._is_silent, self._silent_since = True, now
        elif self._silent_since < now - self._bounds.body_seconds:
            self._is_deaf = True
            self.inbox.end(RequestTooSlow("body", self._bounds.body_seconds))
            self._waiter.wake()

    @property
    def is_left(self) -> bool:
        """Whether the client has gone while nothing is read from it."""
        if not self.inbox.is_full and not self._is_crowded:
            return False
        return has_hung_up(self.transport.get_extra_info("socket").fileno())

    # What the event loop calls.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Take the transport."""
        self.transport = cast(asyncio.Transport, transport)
        self.sender = Sender(self.transport, self._turn)
        self.transport.set_write_buffer_limits(_WRITE_AHEAD_BYTES)
        sock = transport.get_extra_info("socket")
        # A client whose machine is gone never says so.
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        self.inbox = Inbox(self.transport, self._waiter)
        self._enter(self)

    def get_buffer(self, sizehint: int) -> memoryview:
        """Return where to read to: a place in the body, or one for all connections."""
        room = self.inbox.room
        return self._desk if room is None else room

    def buffer_updated(self, nbytes: int) -> None:
        """Take what was read to there."""
        self._turn.arrive()
        framing = self._framing
        if self.inbox.room is None or not isinstance(framing, Length):
            self._take(self._desk[:nbytes])
            return
        self._is_silent = False
        self.inbox.fill(nbytes)
        framing.skip(nbytes)
        if framing.is_complete:
            self._framing = None
            self.inbox.end()
            self._waiter.wake()

    def eof_received(self) -> bool:
        """Take the client's end."""
        self.sender.flush()
        if self._is_tunnel and not self._is_deaf:
            self.inbox.end()
            self._waiter.wake()
            return True
        self.is_last = True
        if self._request is None:
            self._quit()
        elif not self._is_settling:
            self.cut()
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        """Take the end of the connection."""
        self.is_last = True
        self.outlet.lose()
        self.inbox.end(ConnectionResetError())
        self._waiter.wake()
        if self.task is not None and not self._is_settling:
            self.task.cancel()
        self._leave(self)

    def pause_writing(self) -> None:
        """Wait for the client to read."""
        self.outlet.pause()

    def resume_writing(self) -> None:
        """Go on: it has read."""
        self.outlet.resume()

    @property
    def _is_settling(self) -> bool:
        """Whether its task has answered, or broken off, and still has to do."""
        return self._is_taken and self.is_answered

    def _quit(self) -> None:
        self.sender.close()
        if self.task is not None:
            self.task.cancel()

    def _take(self, data: memoryview) -> None:
        if self._is_deaf:
            return
        if self._request is None:
            self._take_head(data)
            if self._request is not None:
                self._waiter.wake()
        elif self._framing is not None:
            self._take_body(self._framing, bytes(data))
            self._waiter.wake()
        else:
            self._put_off(bytes(data))

    def _take_head(self, data: memoryview) -> None:
        alike = self._reader.read_alike(data) if not self._head.kept else None
        if alike is not None:
            self._take_request(*alike)
            return
        if self.head_since is None:
            self.head_since = self._loop.time()
        text = b""
        try:
            found = self._head.feed(data)
            if found is None:
                return
            text, rest = found
            request = self._reader.read(text)
        except NotHttp as fault:
            self._request = refusal_of(fault)
            self.target = target_of(text or self._head.start or bytes(data))
            self._is_deaf = True
            return
        self._take_request(request, rest)

    def _take_request(self, request: RequestHead, rest: bytes) -> None:
        self.head_since, self._request = None, request
        framing = request.framing
        self.inbox = inbox = Inbox(self.transport, self._waiter)
        if isinstance(framing, Length) and framing.stated_bytes == len(rest):
            # Most requests come in one read.
            inbox.put(rest)
            inbox.end()
            return
        self._framing = framing
        if framing is None:
            inbox.end()
            if rest:
                self._put_off(rest)
        elif rest:
            self._take_body(framing, rest)

    def _take_body(self, framing: Framing, data: bytes) -> None:
        inbox = self.inbox
        self._is_silent = False
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
        elif isinstance(framing, Length):
            inbox.gather(framing.stated_bytes)

    def _put_off(self, data: bytes) -> None:
        self._backlog += data
        if len(self._backlog) > _MOST_BACKLOG_BYTES:
            self._is_crowded = True
            self.transport.pause_reading()

    def _read_backlog(self) -> None:
        if self._request is not None:
            # It came before this task had its first turn.
            return
        if (data := self._take_backlog()) and not self._is_deaf:
            self._take_head(memoryview(data))

    def _take_backlog(self) -> bytes:
        """Return what waited; where it was too much, reading goes on."""
        data, self._backlog = self._backlog, b""
        if self._is_crowded and not self.transport.is_closing():
            self.transport.resume_reading()
        self._is_crowded = False
        return data
