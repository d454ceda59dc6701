"""The worker processes of a keeper: started, heard, told, and started again.

Rules:
- A worker is a fresh interpreter, not a fork: a running loop cannot be forked.
- One that ends unasked is started again, at once the first time, then with pauses that
  double. What it did not tell any more is counted as lost, by route.
- A new config is prepared by all before it is taken by any.
- Nothing of a worker outlives its keeper: a channel that closes ends it.
"""

import asyncio
import contextlib
import logging
import socket
import sys
from collections import Counter, deque
from collections.abc import Mapping
from functools import partial

from msgspec.structs import replace

from deuz_proxy.edge.worker_channel import (
    Begin,
    Channel,
    Drain,
    Listening,
    Message,
    Prepare,
    Refused,
    Take,
)
from deuz_proxy.errors import WorkerFailed
from deuz_proxy.observe.encoding import LineUnreadable, decode_event
from deuz_proxy.observe.events import (
    Event,
    EventsLost,
    FaultCaught,
    Listener,
    RequestFinished,
    RequestStarted,
    WorkerEnded,
    WorkerStarted,
)
from deuz_proxy.observe.vocabulary import OTHER

_FIRST_PAUSE_SECONDS, _LONGEST_PAUSE_SECONDS = 0.5, 30.0
# Whoever served for so long did not fail for a reason that is there from the start.
_STEADY_SECONDS = 60.0
_PREPARE_SECONDS = 30.0
# Beyond the grace: to close sources and stores, and to send the last events.
_CLOSE_SECONDS = 5.0
# The rest of what a process told is there when it is gone.
_REST_SECONDS = 2.0

_log = logging.getLogger("deuz_proxy")


class Workers:
    """A fixed number of worker processes. Opened once, closed once."""

    def __init__(
        self,
        count: int,
        begin: Begin,
        *,
        notice: Listener,
        environ: Mapping[str, str],
    ) -> None:
        self._begin = begin
        self._notice = notice
        self._environ = environ
        self._config = self._prepared = begin.config
        self._slots = [_Slot(number, notice) for number in range(count)]
        self._draining = asyncio.Event()
        self._tasks = asyncio.TaskGroup()

    @property
    def listening(self) -> int:
        """How many accept requests."""
        return sum(slot.is_listening for slot in self._slots)

    def describe(self) -> list[dict[str, object]]:
        """Describe each worker in numbers, for JSON."""
        return [slot.describe() for slot in self._slots]

    async def open(self) -> None:
        """Start all and return once they listen; to be closed also where it fails.

        Raises:
            WorkerFailed: one could not begin.
        """
        await self._tasks.__aenter__()
        firsts = []
        for slot in self._slots:
            firsts.append(slot.expect())
            self._tasks.create_task(self._keep(slot))
        reasons = [reason for reason in await asyncio.gather(*firsts) if reason]
        if reasons:
            raise WorkerFailed(reason=reasons[0])

    async def prepare(self, config: bytes) -> None:
        """Let all build what a new config needs; nothing changes yet.

        Raises:
            WorkerFailed: one could not; the others will not take it.
        """
        self._prepared = config
        serving = [slot for slot in self._slots if slot.is_listening]
        answers = [slot.prepare(config) for slot in serving]
        async with asyncio.timeout(_PREPARE_SECONDS):
            reasons = [found for found in await asyncio.gather(*answers) if found]
        if reasons:
            raise WorkerFailed(reason=reasons[0])

    async def take(self) -> None:
        """Let all put in force what they prepared, and wait until they did."""
        self._config = self._prepared
        serving = [slot for slot in self._slots if slot.is_listening]
        answers = [slot.take(self._config) for slot in serving]
        async with asyncio.timeout(_PREPARE_SECONDS):
            await asyncio.gather(*answers)

    async def close(self, *, grace_seconds: float) -> None:
        """Let all drain within the grace, and end."""
        self._draining.set()
        for slot in self._slots:
            slot.send(Drain())
        loop = asyncio.get_running_loop()
        ending = loop.call_later(grace_seconds + _CLOSE_SECONDS, self._kill)
        await self._tasks.__aexit__(None, None, None)
        ending.cancel()

    def _kill(self) -> None:
        for slot in self._slots:
            slot.kill()

    async def _keep(self, slot: "_Slot") -> None:
        """Run the slot's process, and the next one, until the keeper drains."""
        loop, failures = asyncio.get_running_loop(), 0
        while not self._draining.is_set():
            started = loop.time()
            how = await self._run(slot)
            if self._draining.is_set():
                return
            failures = 1 if loop.time() > started + _STEADY_SECONDS else failures + 1
            pause = pause_seconds(failures)
            _log.warning(
                "worker %d %s; started again in %.1f s", slot.number, how, pause
            )
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(pause):
                    await self._draining.wait()

    async def _run(self, slot: "_Slot") -> str:
        """Run one process to its end; return how it ended, in words."""
        try:
            process = await self._start(slot)
        except OSError as fault:
            slot.end(f"cannot be started: {fault.strerror}", is_failure=True)
            return f"cannot be started: {fault.strerror}"
        if self._draining.is_set():
            slot.send(Drain())
        code = await process.wait()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_REST_SECONDS):
                await slot.silent.wait()
        how = f"ended with code {code}"
        slot.end(how, is_failure=not self._draining.is_set())
        return how

    async def _start(self, slot: "_Slot") -> asyncio.subprocess.Process:
        loop = asyncio.get_running_loop()
        ours, theirs = socket.socketpair()
        try:
            slot.process = await asyncio.create_subprocess_exec(
                sys.executable,
                # What lies in the working directory is not ours to import.
                "-P",
                "-m",
                "deuz_proxy.worker",
                str(theirs.fileno()),
                stdin=asyncio.subprocess.DEVNULL,
                pass_fds=(theirs.fileno(),),
                env=dict(self._environ),
            )
        except OSError:
            ours.close()
            raise
        finally:
            theirs.close()
        slot.begin(self._config)
        _, slot.channel = await loop.create_unix_connection(
            lambda: Channel(partial(self._take, slot), slot.silent.set, slot.hear),
            sock=ours,
        )
        slot.send(replace(self._begin, config=self._config))
        return slot.process

    def _take(self, slot: "_Slot", message: Message) -> None:
        if isinstance(message, Listening):
            slot.is_listening = True
            self._notice(WorkerStarted(slot.number))
        slot.answer(message.reason if isinstance(message, Refused) else None)
        # It began before a config was taken that came meanwhile.
        if isinstance(message, Listening) and slot.config is not self._config:
            _ = slot.take(self._config)


class _Slot:
    """The place of one worker: its process now, and what is known of it."""

    def __init__(self, number: int, notice: Listener) -> None:
        self.number = number
        self._notice = notice
        self._in_flight: Counter[str] = Counter()
        # One for each question: a worker answers all of them, in this order.
        self._asked: deque[asyncio.Future[str | None]] = deque()
        self._prepared: bytes | None = None
        self.process: asyncio.subprocess.Process | None = None
        self.channel: Channel | None = None
        self.config: bytes | None = None
        self.is_listening = False
        self.silent = asyncio.Event()
        self._requests = 0
        self._failures = 0

    def describe(self) -> dict[str, object]:
        """Describe the place in numbers: over all processes that had it."""
        return {
            "worker": self.number,
            "process": self.process.pid if self.process else None,
            "is_serving": self.is_listening,
            "requests": self._requests,
            "in_flight": self._in_flight.total(),
            "failures": self._failures,
        }

    def begin(self, config: bytes) -> None:
        """Forget the process before this one."""
        self.config, self._prepared = config, None
        self.silent = asyncio.Event()

    def send(self, message: Message) -> None:
        """Send to the process, if there is one."""
        if self.channel is not None:
            self.channel.send(message)

    def expect(self) -> "asyncio.Future[str | None]":
        """Return what the answer to what is asked now will be: None, or why not."""
        answer: asyncio.Future[str | None] = asyncio.get_running_loop().create_future()
        self._asked.append(answer)
        return answer

    def answer(self, reason: str | None) -> None:
        """Settle what was asked first; told is a refusal that nobody waits for."""
        expected = self._asked.popleft() if self._asked else None
        if expected is not None and not expected.done():
            expected.set_result(reason)
        elif reason is not None:
            _log.warning("worker %d did not take the config: %s", self.number, reason)
            self._notice(FaultCaught(OTHER, "reload", WorkerFailed.code))

    def prepare(self, config: bytes) -> "asyncio.Future[str | None]":
        """Let it prepare a config; return its answer to come."""
        self._prepared = config
        self.send(Prepare(config))
        return self.expect()

    def take(self, config: bytes) -> "asyncio.Future[str | None]":
        """Let it put a config in force, prepared or not; return its answer to come."""
        if self._prepared is not config:
            self.send(Prepare(config))
            self.expect().cancel()
        self.send(Take())
        self.config, self._prepared = config, None
        return self.expect()

    def hear(self, line: bytes) -> None:
        """Tell one event of the worker."""
        try:
            event = decode_event(line)
        except LineUnreadable:
            event = EventsLost(1)
        self._count(event)
        self._notice(event)

    def end(self, how: str, *, is_failure: bool) -> None:
        """Tell that the process is gone, with all that it will not tell any more."""
        if self.channel is not None:
            self.channel.transport.close()
        lost = tuple((route, -n) for route, n in self._in_flight.items() if n)
        if lost:
            self._notice(EventsLost(sum(abs(n) for _, n in lost), lost))
        self._notice(WorkerEnded(self.number, is_failure, self.is_listening))
        self._failures += is_failure
        self._in_flight.clear()
        self.process = self.channel = None
        for expected in self._asked:
            if not expected.done():
                # To prepare is nothing: the next process begins with what is in force.
                expected.set_result(None if self.is_listening else how)
        self._asked.clear()
        self.is_listening = False

    def kill(self) -> None:
        """End the process at once."""
        if self.process is not None:
            with contextlib.suppress(ProcessLookupError):
                self.process.kill()

    def _count(self, event: Event) -> None:
        if isinstance(event, RequestStarted):
            self._in_flight[event.route] += 1
        elif isinstance(event, RequestFinished):
            self._in_flight[event.route] -= 1
            self._requests += 1
        elif isinstance(event, EventsLost):
            for route, change in event.in_flight:
                self._in_flight[route] += change


def pause_seconds(failures: int) -> float:
    """Return how long to wait behind so many failures in a row."""
    doubled = min(failures - 1, 10)
    return min(_FIRST_PAUSE_SECONDS * 2.0**doubled, _LONGEST_PAUSE_SECONDS)
