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
from http import HTTPStatus
from mmap import MAP_PRIVATE, mmap

from deuz_compiler import error_body
from deuz_proxy.edge.answers import as_sidecar_error
from deuz_proxy.edge.http1_bounds import DESK_BYTES, Bounds
from deuz_proxy.edge.http1_call import Http1Client, Http1Incoming, incoming_of
from deuz_proxy.edge.http1_connection import Connection
from deuz_proxy.edge.http1_turn import Turn
from deuz_proxy.errors import SidecarError, TooManyConnections

_SWEEP_SECONDS = 0.5
_BACKLOG = 1024
# Long enough for a refusal to cross a slow line, short enough to hold no one up.
_LINGER_SECONDS = 2.0
# What was written before a connection was closed may be read so late.
_FLUSH_SECONDS = 60.0
_COMPLAIN_SECONDS = 60.0

_log = logging.getLogger("deuz_proxy")

Serve = Callable[[Http1Incoming, Http1Client], Awaitable[None]]
# The body of a refusal, from the fault and, where that is known, what was asked for.
Refuse = Callable[[SidecarError, str | None], bytes]

_BOUNDS = Bounds()
_REFUSAL = (
    b"HTTP/1.1 %d %b\r\nContent-Type: application/json\r\nConnection: close\r\n"
    b"Content-Length: "
)


def refuse_plainly(fault: SidecarError, _: str | None) -> bytes:
    """Return the body of a refusal where it is not known whose shape it should have."""
    return error_body("", status=fault.status, code=fault.code, message=str(fault))


class Http1Server:
    """Listening addresses and their connections. Opened, listened on, closed once."""

    def __init__(
        self, serve: Serve, *, refuse: Refuse, bounds: Bounds, turn: Turn
    ) -> None:
        self._serve = serve
        self._turn = turn
        self._refuse = refuse
        # Taken by connections as they are accepted.
        self.bounds = bounds
        self._tasks = asyncio.TaskGroup()
        self._listeners: list[asyncio.AbstractServer] = []
        self._connections: dict[Connection, float | None] = {}
        # Mapped: what nobody has written to yet takes no memory.
        self._desk = memoryview(mmap(-1, DESK_BYTES, MAP_PRIVATE))
        self._is_draining = False
        # By code: as many as there are.
        self._silent_until: dict[str, float] = {}
        self._emptied = asyncio.Event()
        self._sweeping: asyncio.TimerHandle | None = None
        self._loop = turn.loop

    async def open(self) -> "Http1Server":
        """Open inside the running loop."""
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
            lambda: Connection(
                self._turn,
                bounds=self.bounds,
                desk=self._desk,
                enter=self._enter,
                leave=self._leave,
            ),
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
        elif len(self._connections) > self.bounds.connections:
            connection.task = self._tasks.create_task(self._turn_away(connection))
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
            while is_open:
                try:
                    request = await connection.next_request()
                except SidecarError as fault:
                    await self._end(connection, fault, connection.target)
                    return
                if request is None:
                    return
                client = Http1Client(connection, request)
                await self._serve(incoming_of(connection, request), client)
                is_open = client.is_kept
                if not (connection.is_answered and connection.is_whole):
                    is_open = False
                    await self._break_off(connection, client)
        except Exception as fault:  # noqa: BLE001  # One must not end all the others.
            as_sidecar_error(fault)
        finally:
            connection.sender.close()

    async def _turn_away(self, connection: Connection) -> None:
        """Refuse a connection that is one too many, once it says what it wants."""
        try:
            async with asyncio.timeout(_LINGER_SECONDS):
                request = await connection.next_request()
        except (TimeoutError, SidecarError):
            target = connection.target
        else:
            target = request.target.decode("latin-1") if request else None
        fault = TooManyConnections(limit=self.bounds.connections)
        await self._end(connection, fault, target)

    async def _break_off(self, connection: Connection, client: Http1Client) -> None:
        """End a connection whose request was not answered, or not read to its end."""
        if connection.is_answered:
            await connection.linger(_LINGER_SECONDS)
        else:
            client.abort()

    async def _end(
        self, connection: Connection, fault: SidecarError, target: str | None
    ) -> None:
        """Refuse what no request was made of."""
        self._complain(fault.code)
        body = self._refuse(fault, target)
        head = _REFUSAL % (fault.status, HTTPStatus(fault.status).phrase.encode())
        try:
            connection.sender.send(head + b"%d\r\n\r\n" % len(body) + body)
            await connection.linger(_LINGER_SECONDS)
        finally:
            connection.sender.close()

    def _complain(self, code: str) -> None:
        """Tell the operator, but not once a connection: a flood fills no log."""
        now = self._loop.time()
        if self._silent_until.get(code, now) <= now:
            self._silent_until[code] = now + _COMPLAIN_SECONDS
            _log.warning("connection refused: %s", code)

    def _sweep(self) -> None:
        """End what is silent for too long, and notice who left unseen."""
        now, bounds = self._loop.time(), self.bounds
        for connection, closed_at in list(self._connections.items()):
            if connection.transport.is_closing():
                self._connections[connection] = now if closed_at is None else closed_at
                if closed_at is not None and closed_at < now - _FLUSH_SECONDS:
                    connection.cut()
                continue
            connection.hurry(now)
            connection.look_for_silence(now)
            if connection.is_left:
                connection.cut()
            elif connection.is_idle_since(now - bounds.idle_seconds):
                connection.drain()
        shortest = min(bounds.idle_seconds, bounds.head_seconds, bounds.body_seconds)
        self._sweeping = self._loop.call_later(
            min(_SWEEP_SECONDS, shortest / 4), self._sweep
        )


async def make_http1_server(
    serve: Serve,
    *,
    refuse: Refuse = refuse_plainly,
    bounds: Bounds = _BOUNDS,
    turn: Turn | None = None,
) -> Http1Server:
    """Return an open server that hands every request to `serve`.

    `turn` is the one that the connections to upstreams have: then what a turn has to do
    is known from both sides.
    """
    turn = turn or Turn(asyncio.get_running_loop())
    return await Http1Server(serve, refuse=refuse, bounds=bounds, turn=turn).open()
