"""The way to a store that may fail: a deadline, a breaker, and word of every outcome.

Rules:
- Whoever asks waits for the deadline at most, whatever the store does.
- Reading and writing have a gate each: a full disk must not hide what is there.
- What a store raises becomes `StoreFailed` here; its own words may hold an address.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

from deuz_proxy.errors import StoreFailed
from deuz_proxy.observe.events import LedgerUsed, Listener
from deuz_proxy.stores.breaker import Breaker

Result = TypeVar("Result")


class Gate:
    """Lets one kind of operation (`read`, `commit`) through to a store.

    `store` is its name in metrics, `faults` what it raises when it fails.
    """

    def __init__(
        self,
        store: str,
        op: str,
        *,
        faults: tuple[type[Exception], ...],
        deadline_seconds: float,
        clock: Callable[[], float],
        tell: Listener,
    ) -> None:
        self._store = store
        self._op = op
        self._faults = faults
        self._deadline_seconds = deadline_seconds
        self._tell = tell
        self._breaker = Breaker(clock)
        self._entries = 0
        self._bytes = 0

    async def ask(self, work: Callable[[], Awaitable[Result]]) -> Result:
        """Return what the store answers.

        Raises:
            StoreFailed: it failed, was late, or is left alone for a while.
        """
        if not self._breaker.may_ask():
            raise self._failed("open")
        try:
            async with asyncio.timeout(self._deadline_seconds):
                answer = await work()
        except TimeoutError as fault:
            self._breaker.fail()
            raise self._failed("late") from fault
        except self._faults as fault:
            self._breaker.fail()
            # Not `from fault`: a driver's words may name the address and its password.
            raise self._failed("failed") from type(fault)()
        self._breaker.succeed()
        return answer

    async def ask_for_long(
        self, work: Callable[[], Awaitable[Result]], *, op: str
    ) -> Result:
        """Return what the store answers, however long it takes; no request waits.

        Raises:
            StoreFailed: it failed.
        """
        try:
            return await work()
        except self._faults as fault:
            self.say(op, 0, (self._entries, self._bytes), status="failed")
            error = StoreFailed(store=self._store, operation=op)
            raise error from type(fault)()

    def say(
        self, op: str, count: int, totals: tuple[int, int], *, status: str = "ok"
    ) -> None:
        """Tell of an operation, with the entries and bytes held after it."""
        self._entries, self._bytes = totals
        self._tell(
            LedgerUsed(
                op=op,
                status=status,
                store=self._store,
                count=count,
                entries=self._entries,
                bytes=self._bytes,
                is_available=not self._breaker.is_open,
            )
        )

    def _failed(self, status: str) -> StoreFailed:
        self.say(self._op, 0, (self._entries, self._bytes), status=status)
        return StoreFailed(store=self._store, operation=self._op)
