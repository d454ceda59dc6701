"""What one request costs the sidecar, stage by stage.

Rules:
- A stage's time is what the sidecar added: waiting for client or upstream is taken out.
- One stage at a time: one begins where the one before it ends, or behind a pause.
- One request owns its watch; it is read once, when the request is through.
"""

from collections.abc import Callable
from contextlib import AbstractContextManager


class Watch(AbstractContextManager["Watch"]):
    """A stopwatch with named stages. Used by the one task that serves the request."""

    __slots__ = ("_clock", "_seconds", "_since", "_stage", "_waits_since", "started")

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._seconds: dict[str, float] = {}
        self._stage: str | None = None
        self.started = self._since = clock()

    def enter(self, stage: str | None) -> None:
        """Count from now on as this stage's; as nobody's, if None."""
        now, left = self._clock(), self._stage
        if left is not None:
            own = now - self._since
            seconds = self._seconds
            # A clock may step back.
            seconds[left] = seconds.get(left, 0.0) + (own if own > 0.0 else 0.0)
        self._stage, self._since = stage, now

    def waiting(self) -> AbstractContextManager[object]:
        """Take the time inside out of the stage around it; one wait at a time."""
        return self

    def __enter__(self) -> "Watch":
        """Begin to wait."""
        self._waits_since = self._clock()
        return self

    def __exit__(self, *_: object) -> None:
        """Go on: it is as if the stage had begun later by what was waited."""
        self._since += self._clock() - self._waits_since

    def elapsed(self) -> float:
        """Return the seconds since the request came in."""
        return self._clock() - self.started

    def stages(self) -> tuple[tuple[str, float], ...]:
        """Return the seconds added by the stages that ended, and their `total`."""
        seconds = self._seconds
        return (*seconds.items(), ("total", sum(seconds.values())))
