"""Flow between a socket and one task: what was read, what waits to go out.

Rules:
- Above a mark the socket is not read any further; the mark bounds what is held.
- One task takes from an inbox, once; pieces come before the fault that follows them.
- A body whose length is known is read into one buffer, which becomes its bytes: nothing
  is joined. Room is made for what comes, not for what is promised.
- Who waits on a connection that ends is told at once.
"""

import asyncio
import select
from collections import deque
from collections.abc import AsyncIterator, Callable
from io import BytesIO

import msgspec

# A few reads of the event loop, which takes up to 256 KB at a time.
_FULL_BYTES = 2**19
# Linux only; elsewhere a client that leaves a paused connection is noticed later.
_GONE = getattr(select, "POLLRDHUP", 0)
# Room is made for so many times of what has come: who sends little reserves little.
_MOST_ROOM = 16
# From here on memory counts for more than copies: a body grows with what comes.
LARGE_BYTES = _FULL_BYTES * _MOST_ROOM


class Waiter:
    """Where one task waits for something to come."""

    __slots__ = ("_future", "_loop")

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        # Kept, since asking for the running one costs a system call each time.
        self._loop = loop
        self._future: asyncio.Future[None] | None = None

    def wait(self) -> asyncio.Future[None]:
        """Return what is to be awaited."""
        self._future = future = self._loop.create_future()
        return future

    def wake(self) -> None:
        """Wake the task, if it still waits."""
        future = self._future
        if future is not None and not future.done():
            future.set_result(None)


class Inbox(msgspec.Struct):
    """The body of one message on its way in; its connection wakes who waits for it."""

    _transport: asyncio.Transport
    _waiter: Waiter
    _pieces: deque[bytes] = msgspec.field(default_factory=deque)
    _held_bytes: int = 0
    # What the body ended with, if it did not end well.
    fault: BaseException | None = None
    has_begun: bool = False
    is_full: bool = False
    is_over: bool = False
    _whole: BytesIO | None = None
    _is_in_pieces: bool = False
    # Where what comes next is to be read to, if it has a place already.
    room: memoryview | None = None
    # What pieces are offered to as they come; those it does not take wait here.
    take: Callable[[bytes], bool] | None = None

    def put(self, piece: bytes) -> bool:
        """Add what was read; tell whether it was taken at once, and nobody waits."""
        take = self.take
        if take is not None and not self._pieces:
            try:
                if take(piece):
                    return True
            except Exception as fault:  # noqa: BLE001  # Raised again in its task.
                self.end(fault)
                return False
        self.has_begun = True
        self._pieces.append(piece)
        self._held_bytes += len(piece)
        if self._held_bytes >= _FULL_BYTES and not self.is_full:
            self.is_full = True
            self._transport.pause_reading()
        return False

    def gather(self, stated_bytes: int) -> None:
        """Make room for the whole body, if enough of it is here and none was taken."""
        held_bytes = self._held_bytes
        is_early = held_bytes * _MOST_ROOM < stated_bytes
        if is_early or self._is_in_pieces or stated_bytes > LARGE_BYTES:
            return
        # Given a `bytes` that nobody else has, it writes to that one, and returns it.
        self._whole = whole = BytesIO(bytes(stated_bytes))
        whole.writelines(self._pieces)
        self._pieces.clear()
        self.room = whole.getbuffer()[held_bytes:]
        if self.is_full:
            self._read_on()

    def fill(self, length: int) -> None:
        """Take note that so much was read into the room."""
        self._held_bytes += length
        if self.room is not None:
            self.room = self.room[length:]

    def end(self, fault: BaseException | None = None) -> None:
        """Say that nothing follows, or why; the first word counts."""
        if not self.is_over:
            self.is_over = True
            self.fault = fault
            self.room = None

    async def wait(self) -> None:
        """Return once the body is over; only one that is gathered is held so long."""
        while not self.is_over:
            await self._waiter.wait()

    async def pieces(
        self, close: Callable[[], None] | None = None
    ) -> AsyncIterator[bytes]:
        """Yield what was read until the body ends; raises what it ended with.

        `close` is called behind a body that ended well.
        """
        self._is_in_pieces = True
        held = self._pieces
        if self._whole is not None:
            held.append(self._whole.getvalue()[: self._held_bytes])
            self._whole = self.room = None
        while True:
            while held:
                piece = held.popleft()
                self._held_bytes -= len(piece)
                if self.is_full and not self._held_bytes:
                    self._read_on()
                yield piece
            if self.fault is not None:
                raise self.fault
            if self.is_over:
                break
            await self._waiter.wait()
        if close is not None:
            close()

    def take_whole(self) -> bytes | None:
        """Return a body that came whole in one piece, which is still here."""
        pieces = self._pieces
        if not self.is_over or self.fault is not None or len(pieces) != 1:
            return None
        if self.is_full:
            return None
        self._held_bytes = 0
        return pieces.popleft()

    def take_all(self) -> list[bytes]:
        """Return what is held of a body that is over; raises what it ended with."""
        if self.fault is not None:
            raise self.fault
        whole = self._whole
        pieces = list(self._pieces) if whole is None else [whole.getvalue()]
        self.drop()
        return pieces

    def drop(self) -> None:
        """Let go of what is held; nobody will take it."""
        if not self._pieces and self._whole is None and not self.is_full:
            return
        self._pieces.clear()
        self._whole = self.room = None
        self._held_bytes = 0
        if self.is_full:
            self._read_on()

    def _read_on(self) -> None:
        self.is_full = False
        if not self._transport.is_closing():
            self._transport.resume_reading()


class Outlet:
    """The way out of one connection: open, or waiting for the other side to read."""

    __slots__ = ("_is_lost", "_waiter", "is_paused")

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._is_lost = False
        self._waiter = Waiter(loop)
        self.is_paused = False

    def pause(self) -> None:
        """Take note that the other side reads more slowly than we write."""
        self.is_paused = True

    def resume(self) -> None:
        """Take note that it caught up."""
        self.is_paused = False
        self._waiter.wake()

    def lose(self) -> None:
        """Take note that the connection has ended."""
        self._is_lost = True
        self.resume()

    async def drain(self) -> None:
        """Return once more may be written.

        Raises:
            ConnectionResetError: the connection ended first.
        """
        if self.is_paused:
            await self._waiter.wait()
        if self._is_lost:
            raise ConnectionResetError


def has_hung_up(descriptor: int) -> bool:
    """Whether the other side of a socket has ended, read or not."""
    poll = select.poll()
    poll.register(descriptor, _GONE)
    return bool(poll.poll(0))
