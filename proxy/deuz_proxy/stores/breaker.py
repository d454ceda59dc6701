"""Leaving a store alone that does not answer, and trying it again now and then.

Rules:
- One success closes it; failures in a row open it, and the pauses grow.
- While it is open, one caller at a time may try: the others are not made to wait.
"""

from collections.abc import Callable

PATIENCE = 3
"""Failures in a row before it opens: one late answer is no dead store."""

FIRST_PAUSE_SECONDS = 0.5
LONGEST_PAUSE_SECONDS = 15.0


class Breaker:
    """A circuit breaker. `clock` is monotonic; used from the loop's thread only."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._failures = 0
        self._pause_seconds = FIRST_PAUSE_SECONDS
        self._try_at = 0.0

    @property
    def is_open(self) -> bool:
        """Whether the store is left alone, but for a try now and then."""
        return self._failures >= PATIENCE

    def may_ask(self) -> bool:
        """Tell whether the store is to be asked; if it is open, this is the one try."""
        if not self.is_open:
            return True
        now = self._clock()
        if now < self._try_at:
            return False
        self._try_at = now + self._pause_seconds
        return True

    def succeed(self) -> None:
        """Take note of an answer."""
        self._failures = 0
        self._pause_seconds = FIRST_PAUSE_SECONDS

    def fail(self) -> None:
        """Take note of a failure, or of none in time."""
        self._failures += 1
        if not self.is_open:
            return
        if self._failures > PATIENCE:
            self._pause_seconds = min(self._pause_seconds * 2, LONGEST_PAUSE_SECONDS)
        self._try_at = self._clock() + self._pause_seconds
