"""What one request costs the sidecar, stage by stage.

Rules:
- A stage's time is what the sidecar added: waiting for client or upstream is taken out.
- One request owns its watch; it is read once, when the request is through.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager


class Watch:
    """A stopwatch with named stages. Used by the one task that serves the request."""

    __slots__ = ("_clock", "_seconds", "_waited", "started")

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._seconds: dict[str, float] = {}
        self._waited = 0.0
        self.started = clock()

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        """Count the time inside as the stage's, less what was waited for others."""
        start, waited = self._clock(), self._waited
        try:
            yield
        finally:
            own = self._clock() - start - (self._waited - waited)
            self._seconds[name] = self._seconds.get(name, 0.0) + max(0.0, own)

    @contextmanager
    def waiting(self) -> Iterator[None]:
        """Take the time inside out of the stage around it."""
        start = self._clock()
        try:
            yield
        finally:
            self._waited += self._clock() - start

    def elapsed(self) -> float:
        """Return the seconds since the request came in."""
        return self._clock() - self.started

    def stages(self) -> tuple[tuple[str, float], ...]:
        """Return the seconds added, by stage, and their `total`."""
        total = sum(self._seconds.values())
        return (*self._seconds.items(), ("total", total))
