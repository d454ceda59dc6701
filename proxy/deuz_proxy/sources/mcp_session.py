"""One session with a server of the Model Context Protocol, kept by a task of its own.

Rules:
- The server is started when it is first needed, once for all who ask at the same time,
  and started again after it died. Who waits for it may give up; the start goes on.
- A session that failed is ended and not used again.
- No task is left when the session is closed.
"""

import asyncio
import logging
from collections.abc import Callable

import httpx2
from mcp import Client
from mcp.client import Transport
from mcp.types import Implementation

from deuz_proxy import __version__
from deuz_proxy.errors import SourceFailed

Connect = Callable[[Callable[[], None]], Transport]

_ANSWER_SECONDS = 60.0
# A server by `npx` may have to be fetched first.
_START_SECONDS = 60.0
_CLOSE_SECONDS = 8.0
# What these log may quote questions and answers.
_TALKATIVE = ("mcp", "httpx2", "httpcore2")


class Session:
    """Starts, keeps and ends the connection. `connect` gets what to call at its end."""

    def __init__(self, source: str, connect: Connect) -> None:
        self._source = source
        self._connect = connect
        self._tasks = asyncio.TaskGroup()
        self._running: asyncio.Task[None] | None = None
        self._ready: asyncio.Future[Client] | None = None
        self._ending = asyncio.Event()
        self._is_open = False

    async def open(self) -> None:
        """Begin to start the server; nobody waits for it here."""
        for name in _TALKATIVE:
            logging.getLogger(name).setLevel(logging.CRITICAL + 1)
        await self._tasks.__aenter__()
        self._is_open = True
        # Not for nobody: who asks first finds it under way.
        _ = self._start()

    async def client(self) -> Client:
        """Return the client of a live session, once there is one.

        Raises:
            SourceFailed: it cannot be started, or this is closed.
        """
        if not self._is_open:
            raise SourceFailed(source=self._source, reason="closed")
        return await asyncio.shield(self._ready or self._start())

    def lose(self, client: Client) -> None:
        """End the session of this client: something in it went wrong."""
        ready = self._ready
        if ready is not None and ready.done() and ready.result() is client:
            self._ending.set()
            self._ready = None

    async def close(self) -> None:
        """End the session and its server. May be called twice."""
        if not self._is_open:
            return
        self._is_open = False
        self._ending.set()
        is_starting = self._ready is not None and not self._ready.done()
        if is_starting and self._running is not None:
            # It waits for a server that may never answer.
            self._running.cancel()
        async with asyncio.timeout(_CLOSE_SECONDS):
            await self._tasks.__aexit__(None, None, None)

    def _start(self) -> asyncio.Future[Client]:
        self._ready = asyncio.get_running_loop().create_future()
        self._ending = asyncio.Event()
        self._running = self._tasks.create_task(self._run(self._ready, self._ending))
        return self._ready

    async def _run(self, ready: asyncio.Future[Client], ending: asyncio.Event) -> None:
        """Hold the session until it is to end: the task that opens it closes it."""

        def end() -> None:
            ending.set()
            # At once: ending takes its time, and nobody should ask the dead one.
            if self._ready is ready:
                self._ready = None

        try:
            async with asyncio.timeout(_START_SECONDS) as starting:
                async with Client(
                    self._connect(end),
                    client_info=Implementation(
                        name="deuz-sidecar", version=__version__
                    ),
                    read_timeout_seconds=_ANSWER_SECONDS,
                    cache=None,
                ) as client:
                    starting.reschedule(None)
                    ready.set_result(client)
                    await ending.wait()
        except Exception as fault:  # noqa: BLE001  # A server may be anybody's code.
            if not ready.done():
                ready.set_exception(_failure(self._source, fault))
                # Nobody may be waiting any more.
                ready.exception()
        finally:
            ready.cancel()
            if self._ready is ready:
                self._ready = None


def _failure(source: str, fault: Exception) -> SourceFailed:
    away = (OSError, httpx2.TransportError)
    is_away = isinstance(fault, away)
    if isinstance(fault, ExceptionGroup):
        # The libraries' own task groups wrap what went wrong in them.
        is_away = fault.subgroup(away) is not None
    reason = "unreachable" if is_away else "protocol"
    failure = SourceFailed(source=source, reason=reason)
    failure.__cause__ = fault
    return failure
