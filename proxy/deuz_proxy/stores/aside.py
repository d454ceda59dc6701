"""Work off the request's way: one thing after the other, in the order given.

Rules:
- Nobody waits for it, so what fails in it costs no request; who gave it has to count.
- What waits is bounded: behind a store that is slow, the newest is not taken.
"""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress

MOST_WAITING = 1024
Work = Callable[[], Awaitable[object]]


class Aside:
    """One task that does what it is given. Used from the loop's thread only."""

    def __init__(self) -> None:
        self._waiting: asyncio.Queue[Work] = asyncio.Queue(MOST_WAITING)
        self._tasks = asyncio.TaskGroup()
        self._worker: asyncio.Task[None] | None = None

    async def open(self) -> "Aside":
        """Begin."""
        await self._tasks.__aenter__()
        self._worker = self._tasks.create_task(self._run())
        return self

    def add(self, work: Work) -> bool:
        """Have it done; False: too much is waiting, and it will not be."""
        try:
            self._waiting.put_nowait(work)
        except asyncio.QueueFull:
            return False
        return True

    async def close(self, *, grace_seconds: float) -> None:
        """Do what is waiting, within the grace. May be called twice."""
        if self._worker is None:
            return
        with suppress(TimeoutError):
            async with asyncio.timeout(grace_seconds):
                await self._waiting.join()
        self._worker.cancel()
        self._worker = None
        await self._tasks.__aexit__(None, None, None)

    async def settle(self) -> None:
        """Return when nothing is waiting."""
        await self._waiting.join()

    async def _run(self) -> None:
        while True:
            work = await self._waiting.get()
            # Whatever it is, the next is not to suffer for it.
            with suppress(Exception):
                await work()
            self._waiting.task_done()
