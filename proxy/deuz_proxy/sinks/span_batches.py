"""Spans of finished requests wait here until they are sent, in batches.

Rules:
- Handing over never waits. Spans are written where requests finish, a few requests at
  once: a thread that writes hundreds takes the interpreter from each request meanwhile.
- Another thread sends, and writes only what too few came for.
- The queue is bounded; where it is full the oldest request goes, counted as lost.
- A request that is not sampled costs nothing.
- The limits are those that the SDKs' batches have, by the same variables.
"""

import threading
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from deuz_proxy.observe.events import Event, RequestFinished
from deuz_proxy.sinks.otlp_logs import QuietLog
from deuz_proxy.sinks.otlp_send import Sending

# Some 20 µs each; more at once would be felt by the request that comes next, and one by
# one the same code is found in no cache.
_WRITTEN_AT_ONCE = 8


@dataclass(frozen=True, slots=True)
class BatchLimits:
    """How long requests wait at most, how many of them, and how many go at once."""

    delay_seconds: float = 5.0
    queued: int = 2048
    at_once: int = 512


def batch_limits(environment: Mapping[str, str]) -> BatchLimits:
    """Return what `OTEL_BSP_*` say; what cannot be read there is as if not set."""
    usual = BatchLimits()
    queued = _positive(environment, "OTEL_BSP_MAX_QUEUE_SIZE", usual.queued)
    at_once = _positive(
        environment, "OTEL_BSP_MAX_EXPORT_BATCH_SIZE", min(usual.at_once, queued)
    )
    delay_ms = int(usual.delay_seconds * 1000)
    delay_ms = _positive(environment, "OTEL_BSP_SCHEDULE_DELAY", delay_ms)
    return BatchLimits(delay_ms / 1000, queued, min(at_once, queued))


class SpanBatches:
    """A listener. `offered` is the event loop's, the other counts the thread's.

    `write` returns the bytes of a request's spans, `seal` what is sent of several.
    """

    def __init__(
        self,
        write: Callable[[RequestFinished], bytes],
        seal: Callable[[Iterable[bytes]], bytes],
        sender: Sending,
        limits: BatchLimits,
        log: QuietLog,
    ) -> None:
        self._write = write
        self._seal = seal
        self._sender = sender
        self._limits = limits
        self._written_at_once = min(_WRITTEN_AT_ONCE, limits.at_once)
        self._log = log
        self._fresh: deque[RequestFinished] = deque()
        self._writing = threading.Lock()
        # Bytes of one request each; none where they could not be written.
        self._queue: deque[bytes] = deque(maxlen=limits.queued)
        self._is_due = threading.Event()
        self._is_closing = False
        self._is_given_up = False
        self.offered = 0
        self.delivered = 0
        self.failed = 0
        self._lost = 0
        # A daemon: a collector that never answers must not keep the process alive.
        self._thread = threading.Thread(
            target=self._run, name="deuz-spans", daemon=True
        )
        self._thread.start()

    def __call__(self, event: Event) -> None:
        """Offer a finished request."""
        if type(event) is not RequestFinished:
            return
        trace = event.trace
        if trace is None or not trace.is_sampled:
            return
        self._fresh.append(event)
        # In this order: the thread must not take one under way for lost.
        self.offered += 1
        if len(self._fresh) < self._written_at_once:
            return
        # Where the thread writes just now, these are left to the next request.
        if self._writing.acquire(blocking=False):
            try:
                self._write_fresh()
            finally:
                self._writing.release()
        if len(self._queue) >= self._limits.at_once and not self._is_due.is_set():
            self._is_due.set()

    def close(self) -> None:
        """Send what waits; blocks until that is through, or given up."""
        self._is_closing = True
        self._is_due.set()
        self._thread.join()

    def give_up(self) -> None:
        """Send nothing more and end the thread as soon as it can."""
        self._is_given_up = True
        self._sender.give_up()

    def _run(self) -> None:
        while not self._is_closing:
            is_full = self._is_due.wait(self._limits.delay_seconds)
            self._is_due.clear()
            # After the delay whatever there is goes; what comes meanwhile can wait.
            self._send_from(self._limits.at_once if is_full else 1)
        with self._writing:
            self._write_fresh()
        while self._queue and not self._is_given_up:
            self._send_batch()
        self._sender.close()

    def _send_from(self, least: int) -> None:
        with self._writing:
            self._write_fresh()
        while len(self._queue) >= least and not self._is_given_up:
            self._send_batch()
            least = self._limits.at_once

    def _write_fresh(self) -> None:
        """Write what waits for it; by one thread at a time."""
        for _ in range(len(self._fresh)):
            try:
                written = self._write(self._fresh[0])
            except Exception as fault:  # noqa: BLE001  # One bad request must not be the last.
                self._log.complain("traces", type(fault).__name__)
                written = b""
            # In this order, for the same reason: in both for a moment, never in none.
            self._queue.append(written)
            self._fresh.popleft()

    def _send_batch(self) -> None:
        self._tell_lost()
        count = min(len(self._queue), self._limits.at_once)
        batch = [self._queue.popleft() for _ in range(count)]
        written = [each for each in batch if each]
        try:
            is_through = bool(written) and self._sender.send(self._seal(written))
        except Exception as fault:  # noqa: BLE001  # Nor must one bad batch.
            self._log.complain("traces", type(fault).__name__)
            is_through = False
        delivered = len(written) if is_through else 0
        self.delivered += delivered
        self.failed += count - delivered

    def _tell_lost(self) -> None:
        offered = self.offered
        waiting = len(self._queue) + len(self._fresh)
        lost = offered - self.delivered - self.failed - waiting
        if lost > self._lost:
            self._log.complain("traces", "queue_full")
            self._lost = lost


def _positive(environment: Mapping[str, str], name: str, usual: int) -> int:
    said = environment.get(name, "").strip()
    return int(said) if said.isdecimal() and int(said) else usual
