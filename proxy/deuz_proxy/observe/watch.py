"""What one request costs the sidecar, stage by stage.

Rules:
- A stage's time is what the sidecar added: waiting for client or upstream is taken out.
- One request owns its watch; it is read once, when the request is through.
"""

from collections.abc import Callable
from contextlib import AbstractContextManager


class Watch:
    """A stopwatch with named stages. Used by the one task that serves the request."""

    __slots__ = ("_waiting", "clock", "seconds", "started", "waited")

    def __init__(self, clock: Callable[[], float]) -> None:
        self.clock = clock
        self.seconds: dict[str, float] = {}
        self.waited = 0.0
        self._waiting = _Waiting(self)
        self.started = clock()

    def stage(self, name: str) -> AbstractContextManager[None]:
        """Count the time inside as the stage's, less what was waited for others."""
        return _Stage(self, name)

    def waiting(self) -> AbstractContextManager[None]:
        """Take the time inside out of the stage around it; one wait at a time."""
        return self._waiting

    def elapsed(self) -> float:
        """Return the seconds since the request came in."""
        return self.clock() - self.started

    def stages(self) -> tuple[tuple[str, float], ...]:
        """Return the seconds added, by stage, and their `total`."""
        total = sum(self.seconds.values())
        return (*self.seconds.items(), ("total", total))


# Classes, not generators: these are entered a dozen times in each request.
class _Stage(AbstractContextManager[None]):
    __slots__ = ("_name", "_start", "_waited", "_watch")

    def __init__(self, watch: Watch, name: str) -> None:
        self._watch = watch
        self._name = name
        # Made where it is entered: a second reading of the clock would tell nothing.
        self._waited = watch.waited
        self._start = watch.clock()

    def __enter__(self) -> None:
        pass

    def __exit__(self, *_: object) -> None:
        watch, name = self._watch, self._name
        own = watch.clock() - self._start - (watch.waited - self._waited)
        own = max(own, 0.0)
        seconds = watch.seconds
        seconds[name] = seconds[name] + own if name in seconds else own


class _Waiting(AbstractContextManager[None]):
    __slots__ = ("_start", "_watch")

    def __init__(self, watch: Watch) -> None:
        self._watch = watch

    def __enter__(self) -> None:
        self._start = self._watch.clock()

    def __exit__(self, *_: object) -> None:
        watch = self._watch
        watch.waited += watch.clock() - self._start
