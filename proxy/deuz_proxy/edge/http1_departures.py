"""Requests that leave: those of one turn of the event loop go out together, behind it.

Rules:
- Each write wakes who reads at the other end, if it sleeps. Of many in a row only the
  first finds it asleep.
- Until then nothing of a request is sent: a connection that ends, or on which the
  upstream speaks, has taken nothing, and the request may go out on another one.
- Of connections that were idle the kernel is asked for that, since the loop may not
  have read yet what came: once for all that leave, at the last moment.
"""

import asyncio
import select
from collections.abc import AsyncIterator, Callable, Iterable

from deuz_compiler import Spliced
from deuz_proxy.edge.http1_answers import Exchange
from deuz_proxy.edge.http1_client import Connection, NothingSent

Body = bytes | Spliced | AsyncIterator[bytes] | None
# Writes head and body, of which the length is known or not, to a connection.
Write = Callable[[Connection, bytes, Body, bytes | None], None]


class Departures:
    """What waits to leave in this turn. Owned by the connections to all upstreams."""

    __slots__ = ("_loop", "_waiting", "_write")

    def __init__(self, loop: asyncio.AbstractEventLoop, write: Write) -> None:
        self._loop = loop
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
        """Let a request leave at the end of this turn.

        `NothingSent` is told to whoever waits for the answer.
        """
        if not self._waiting:
            self._loop.call_soon(self._leave)
        self._waiting.append((connection, exchange, head, body, length))

    def _leave(self) -> None:
        waiting, self._waiting = self._waiting, []
        spoken = _spoken(connection for connection, *_ in waiting)
        for connection, exchange, head, body, length in waiting:
            if connection.descriptor in spoken:
                connection.refuse(exchange, NothingSent())
                continue
            try:
                connection.begin(exchange)
                self._write(connection, head, body, length)
            except Exception as fault:  # noqa: BLE001  # Raised where it is waited for.
                connection.refuse(exchange, fault)


def _spoken(connections: Iterable[Connection]) -> set[int]:
    """Return the descriptors on which there is anything to read, an end as well.

    On one that is new there may be: TLS hands tickets out behind its handshake.
    """
    poll = select.poll()
    for connection in connections:
        # One that is closing may have its number no more.
        if connection.is_old and not connection.transport.is_closing():
            poll.register(connection.descriptor, select.POLLIN)
    return {descriptor for descriptor, _ in poll.poll(0)}
