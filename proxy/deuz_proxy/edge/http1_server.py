"""The socket's side of the line: a listening address and the connections it accepted.

Rules:
- A connection has one task, in the server's own group, that serves its requests one
  after another.
- What is not HTTP, too long or too slow ends the connection; not a byte of it is
  repeated or logged.
- Draining ends idle connections at once, others behind their answer, all of them when
  the grace is over.
"""

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from http import HTTPStatus

from deuz_compiler import error_body
from deuz_proxy.edge.answers import as_sidecar_error
from deuz_proxy.edge.http1_call import Http1Client, Http1Incoming
from deuz_proxy.edge.http1_connection import Connection
from deuz_proxy.edge.http1_wire import RequestHead
from deuz_proxy.errors import SidecarError, TooManyConnections

_SWEEP_SECONDS = 0.5
_BACKLOG = 1024
# Long enough for a refusal to cross a slow line, short enough to hold no one up.
_LINGER_SECONDS = 2.0
# What was written before a connection was closed may be read so late.
_FLUSH_SECONDS = 60.0

_log = logging.getLogger("deuz_proxy")

Serve = Callable[[Http1Incoming, Http1Client], Awaitable[None]]
Refuse = Callable[[SidecarError], bytes]


@dataclass(frozen=True, slots=True)
class Bounds:
    """How long connections may be silent, and how many there may be."""

    # Above what clients' pools keep a connection for: who closes first should be they.
    idle_seconds: float = 3600.0
    # From a connection's first byte, or a head's, to the head's end.
    head_seconds: float = 60.0
    connections: int = 100_000


_BOUNDS = Bounds()
_REFUSAL = (
    b"HTTP/1.1 %d %b\r\nContent-Type: application/json\r\nConnection: close\r\n"
    b"Content-Length: "
)


def refuse_plainly(fault: SidecarError) -> bytes:
    """Return the body of a refusal where it is not known whose shape it should have."""
    return error_body("", status=fault.status, code=fault.code, message=str(fault))


class Http1Server:
    """Listening addresses and their connections. Opened, listened on, closed once."""

    def __init__(self, serve: Serve, *, refuse: Refuse, bounds: Bounds) -> None:
        self._serve = serve
        self._refuse = refuse
        self._bounds = bounds
        self._tasks = asyncio.TaskGroup()
        self._listeners: list[asyncio.AbstractServer] = []
        self._connections: dict[Connection, float | None] = {}
        self._is_draining = False
        self._emptied = asyncio.Event()
        self._sweeping: asyncio.TimerHandle | None = None
        self._loop: asyncio.AbstractEventLoop

    async def open(self) -> "Http1Server":
        """Open inside the running loop."""
        self._loop = asyncio.get_running_loop()
        await self._tasks.__aenter__()
        self._sweep()
        return self

    async def listen(
        self, host: str, port: int, *, is_shared: bool = False
    ) -> tuple[str, int]:
        """Accept at this address; return the one that was bound.

        Raises:
            OSError: it cannot be listened on.
        """
        listener = await self._loop.create_server(
            lambda: Connection(self._loop, enter=self._enter, leave=self._leave),
            host,
            port,
            backlog=_BACKLOG,
            reuse_port=is_shared or None,
        )
        self._listeners.append(listener)
        bound = listener.sockets[0].getsockname()
        return str(bound[0]), int(bound[1])

    async def close(self, *, grace_seconds: float) -> None:
        """Stop accepting, let requests end within the grace, then end them."""
        self._is_draining = True
        for listener in self._listeners:
            listener.close()
        for connection in list(self._connections):
            connection.drain()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(grace_seconds):
                while self._connections:
                    self._emptied.clear()
                    await self._emptied.wait()
        for connection in list(self._connections):
            connection.cut()
        if self._sweeping is not None:
            self._sweeping.cancel()
        await self._tasks.__aexit__(None, None, None)

    def _enter(self, connection: Connection) -> None:
        self._connections[connection] = None
        if self._is_draining:
            connection.cut()
        elif len(self._connections) > self._bounds.connections:
            connection.task = self._tasks.create_task(
                self._end(
                    connection, TooManyConnections(limit=self._bounds.connections)
                )
            )
        else:
            connection.task = self._tasks.create_task(self._run(connection))

    def _leave(self, connection: Connection) -> None:
        self._connections.pop(connection, None)
        if not self._connections:
            self._emptied.set()

    async def _run(self, connection: Connection) -> None:
        """Serve the connection's requests; its end is the end of the task."""
        try:
            is_open = True
            while is_open and (request := await self._next(connection)):
                client = Http1Client(connection, request)
                await self._serve(Http1Incoming(connection, request), client)
                is_open = await self._settle(connection, client)
        except Exception as fault:  # noqa: BLE001  # One must not end all the others.
            as_sidecar_error(fault)
        finally:
            connection.transport.close()

    async def _next(self, connection: Connection) -> RequestHead | None:
        try:
            return await connection.next_request()
        except SidecarError as fault:
            await self._end(connection, fault)
            return None

    async def _settle(self, connection: Connection, client: Http1Client) -> bool:
        """Tell whether the connection may go on behind this answer."""
        if not connection.is_answered:
            client.abort()
            return False
        if not connection.is_whole:
            await connection.linger(_LINGER_SECONDS)
            return False
        return client.is_kept

    async def _end(self, connection: Connection, fault: SidecarError) -> None:
        """Refuse what no request was made of."""
        _log.warning("connection refused: %s", fault.code)
        body = self._refuse(fault)
        head = _REFUSAL % (fault.status, HTTPStatus(fault.status).phrase.encode())
        try:
            connection.transport.write(head + b"%d\r\n\r\n" % len(body) + body)
            await connection.linger(_LINGER_SECONDS)
        finally:
            connection.transport.close()

    def _sweep(self) -> None:
        """End what is silent for too long, and notice who left unseen."""
        now, bounds = self._loop.time(), self._bounds
        for connection, closed_at in list(self._connections.items()):
            if connection.transport.is_closing():
                self._connections[connection] = now if closed_at is None else closed_at
                if closed_at is not None and closed_at < now - _FLUSH_SECONDS:
                    connection.cut()
            elif connection.is_slow(now, bounds.head_seconds):
                connection.cut()
            elif not connection.is_busy:
                if connection.since < now - bounds.idle_seconds:
                    connection.drain()
            elif connection.is_left:
                connection.cut()
        shortest = min(bounds.idle_seconds, bounds.head_seconds)
        self._sweeping = self._loop.call_later(
            min(_SWEEP_SECONDS, shortest / 4), self._sweep
        )


async def make_http1_server(
    serve: Serve, *, refuse: Refuse = refuse_plainly, bounds: Bounds = _BOUNDS
) -> Http1Server:
    """Return an open server that hands every request to `serve`."""
    return await Http1Server(serve, refuse=refuse, bounds=bounds).open()
