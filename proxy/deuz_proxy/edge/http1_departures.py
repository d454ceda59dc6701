"""Requests that leave: those of one turn of the event loop go out together, behind it.

Rules:
- Where a turn has one thing to do, its request leaves at once.
- Until it leaves nothing of a request is sent: a connection that ends, or on which the
  upstream speaks, has taken nothing, and the request may go out on another one.
- Of a connection that was idle the kernel is asked for that, since the loop may not
  have read yet what came: at the last moment, so for the second to leave behind the
  first. What leaves wakes an upstream, and that may end another connection.
- The first bytes are tried once: where the kernel takes none, nothing was sent, and
  that is known before anything else happens.
"""

import asyncio
import os
from collections.abc import AsyncIterator, Callable, Sequence

from deuz_compiler import Spliced
from deuz_proxy.edge.http1_answers import Exchange
from deuz_proxy.edge.http1_client import Connection
from deuz_proxy.edge.http1_turn import JOINED_BYTES, Turn

Body = bytes | Spliced | AsyncIterator[bytes] | None
# Encrypting happens at once, in memory: the loop must be able to serve others.
SLICE_BYTES = 2**18
# Writes head and body, of which the length is known or not, to a connection.
Write = Callable[[Connection, bytes, Body, bytes | None], None]


class NothingSent(Exception):
    """The connection took no byte of a request, which may be sent on another one."""


class Departures:
    """What waits to leave in this turn. Owned by the connections to all upstreams."""

    __slots__ = ("_turn", "_waiting", "_write")

    def __init__(self, turn: Turn, write: Write) -> None:
        self._turn = turn
        self._write = write
        self._waiting: list[tuple[Connection, Exchange, bytes, Body, bytes | None]] = []

    def add(
        self,
        connection: Connection,
        exchange: Exchange,
        head: bytes,
        body: Body,
        length: bytes | None,
    ) -> None:
        """Let a request leave with the others of this turn.

        `NothingSent` is told to whoever waits for the answer.
        """
        is_first = not self._waiting
        self._waiting.append((connection, exchange, head, body, length))
        if not self._turn.is_busy:
            self._leave()
        elif is_first:
            self._turn.add(self._leave)

    def _leave(self) -> None:
        waiting, self._waiting = self._waiting, []
        for connection, exchange, head, body, length in waiting:
            try:
                if connection.has_spoken:
                    raise NothingSent  # noqa: TRY301  # As where the kernel takes none.
                connection.begin(exchange)
                self._write(connection, head, body, length)
            except Exception as fault:  # noqa: BLE001  # Raised where it is waited for.
                connection.refuse(exchange, fault)


def write_first(
    connection: Connection, head: bytes, body: bytes | Spliced | None
) -> None:
    """Write the begin of a request: its head, and the body if it is here.

    Raises:
        NothingSent: not a byte was sent, and none will be.
    """
    pieces = body.pieces if isinstance(body, Spliced) else (body or b"",)
    transport = connection.transport
    if transport.is_closing():
        # Its descriptor may be another's by now.
        raise NothingSent
    if len(pieces) == 1 and len(pieces[0]) < JOINED_BYTES:
        transport.write(head + pieces[0])
        if transport.is_closing():
            raise NothingSent
    elif connection.is_tls:
        transport.writelines((head, *pieces))
    else:
        _write_long(connection, (head, *pieces))


def _write_long(connection: Connection, parts: Sequence[bytes | memoryview]) -> None:
    """Write past the loop, which has nothing of ours waiting; it gets what is left."""
    try:
        taken = os.writev(connection.descriptor, parts)
    except BlockingIOError:
        taken = 0
    except OSError as fault:
        raise NothingSent from fault
    for part in parts:
        if taken >= len(part):
            taken -= len(part)
            continue
        # A view: what is left of a large body is not worth a copy.
        connection.transport.write(memoryview(part)[taken:] if taken else part)
        taken = 0


async def slices(body: bytes | Spliced) -> AsyncIterator[bytes]:
    """Yield a body in slices; others are served in between."""
    views: list[memoryview] = []
    room = SLICE_BYTES
    for piece in body.pieces if isinstance(body, Spliced) else (body,):
        view = memoryview(piece)
        while view:
            views.append(view[:room])
            view = view[room:]
            room -= len(views[-1])
            if not room:
                yield b"".join(views)
                views, room = [], SLICE_BYTES
                await asyncio.sleep(0)
    yield b"".join(views)
