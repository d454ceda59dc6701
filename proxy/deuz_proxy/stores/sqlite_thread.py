"""A thread that owns one SQLite connection: the loop never waits for a disk.

Rules:
- Jobs run one after the other, in the order given; each has its answer as a future.
- What nobody waits for any more is not begun; more than a few hundred jobs are not
  taken: a disk that hangs must not fill the memory.
- A thread that hangs does not keep the process from ending.
"""

import asyncio
import sqlite3
import threading
from collections.abc import Callable
from queue import SimpleQueue
from typing import Any, TypeVar

_MOST_WAITING = 512
Result = TypeVar("Result")
Job = tuple[asyncio.Future[Any], Callable[[sqlite3.Connection], Any]]


class SqliteThread:
    """Runs jobs on a connection of its own. Used from the loop's thread only."""

    def __init__(self, connection: sqlite3.Connection, name: str) -> None:
        self._connection = connection
        self._jobs: SimpleQueue[Job | None] = SimpleQueue()
        self._loop = asyncio.get_running_loop()
        self._is_closed = False
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def submit(
        self, work: Callable[[sqlite3.Connection], Result]
    ) -> asyncio.Future[Result]:
        """Return the future answer of a job.

        Raises:
            sqlite3.OperationalError: too many wait already, or it is closed.
        """
        if self._is_closed or self._jobs.qsize() >= _MOST_WAITING:
            raise sqlite3.OperationalError("no more jobs are taken")
        future: asyncio.Future[Result] = self._loop.create_future()
        self._jobs.put((future, work))
        return future

    async def close(self, *, grace_seconds: float) -> None:
        """Let the jobs end within the grace. May be called twice."""
        if not self._is_closed:
            self._is_closed = True
            self._jobs.put(None)
        await asyncio.to_thread(self._thread.join, grace_seconds)

    def _run(self) -> None:
        while (job := self._jobs.get()) is not None:
            future, work = job
            if not future.cancelled():
                self._answer(future, work)
        self._connection.close()

    def _answer(
        self,
        future: asyncio.Future[Any],
        work: Callable[[sqlite3.Connection], Any],
    ) -> None:
        answer, fault = None, None
        try:
            answer = work(self._connection)
        except Exception as raised:  # noqa: BLE001  # It is the caller's.
            fault = raised
        try:
            self._loop.call_soon_threadsafe(_settle, future, answer, fault)
        except RuntimeError:
            return  # The loop has ended, and whoever waited with it.


def _settle(
    future: asyncio.Future[Any], answer: object, fault: Exception | None
) -> None:
    if future.done():
        return
    if fault is None:
        future.set_result(answer)
    else:
        future.set_exception(fault)
