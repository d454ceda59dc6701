"""Sends what was written for a collector, and tries again where that may help.

Rules:
- The thread that sends waits, nobody else; one time limit bounds all its tries.
- Tried again is what the protocol says is passing: a busy or restarting collector, one
  that cannot be reached. What was refused stays refused.
- Closing ends a wait between two tries at once.

Source: OTLP specification 1.x, "Failures".
"""

import random
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from deuz_proxy.sinks.otlp_logs import QuietLog

MOST_TRIES = 6
_FIRST_WAIT_SECONDS = 1.0


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of one try; `word` says why it failed, never where it went."""

    is_through: bool
    word: str = ""
    is_passing: bool = False
    wait_seconds: float | None = None
    """How long the collector asked to wait."""


class Way(Protocol):
    """One protocol's way to a collector; used by one thread."""

    def attempt(self, body: bytes, timeout_seconds: float) -> Outcome:
        """Try once; what fails is an outcome."""

    def close(self) -> None:
        """Let go of connections."""


class Sending(Protocol):
    """What a thread with something to send needs of a `Sender`."""

    def send(self, body: bytes) -> bool:
        """Return whether it got through."""

    def give_up(self) -> None:
        """Wait for no further try."""

    def close(self) -> None:
        """Let go of connections."""


class Sender:
    """Sends one signal's requests, from the one thread that owns it."""

    def __init__(
        self,
        way: Way,
        *,
        signal: str,
        timeout_seconds: float,
        log: QuietLog,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._way = way
        self._signal = signal
        self._timeout_seconds = timeout_seconds
        self._log = log
        self._clock = clock
        self._closing = threading.Event()

    def send(self, body: bytes) -> bool:
        """Return whether it got through; blocks no longer than the time limit."""
        deadline = self._clock() + self._timeout_seconds
        outcome = self._way.attempt(body, self._timeout_seconds)
        for number in range(MOST_TRIES - 1):
            wait = _wait_seconds(outcome, number)
            if wait is None or wait > deadline - self._clock():
                break
            if self._closing.wait(wait):
                break
            outcome = self._way.attempt(body, max(deadline - self._clock(), 0.001))
        if not outcome.is_through:
            self._log.complain(self._signal, outcome.word)
        return outcome.is_through

    def give_up(self) -> None:
        """Wake a wait for the next try; there will be none. From any thread."""
        self._closing.set()

    def close(self) -> None:
        """Let go of the connections; from the thread that sends."""
        self._closing.set()
        self._way.close()


def _wait_seconds(outcome: Outcome, number: int) -> float | None:
    """Return how long to wait before another try; None where there is none."""
    if outcome.is_through or not outcome.is_passing:
        return None
    if outcome.wait_seconds is not None:
        return outcome.wait_seconds
    # Some spread: many sidecars lose the same collector at once.
    return _FIRST_WAIT_SECONDS * 2.0**number * random.uniform(0.8, 1.2)  # noqa: S311  # No secret.
