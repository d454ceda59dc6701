"""What one request costs the sidecar, stage by stage.

Rules:
- A stage's time is what the sidecar added: waiting for client or upstream is taken out.
- One request owns its watch; it is read once, when the request is through.
"""

from collections.abc import Callable
from contextlib import AbstractContextManager


class Watch:
    """A stopwatch with named stages. Used by the one task that serves the request."""

    __slots__ = ("clock", "seconds", "started", "waited")

    def __init__(self, clock: Callable[[], float]) -> None:
        self.clock = clock
        self.seconds: dict[str, float] = {}
        self.waited = 0.0
        self.started = clock()

    def stage(self, name: str) -> AbstractContextManager[None]:
        """Count the time inside as the stage's, less what was waited for others."""
        return _Stage(self, name)

    def waiting(self) -> AbstractContextManager[None]:
        """Take the time inside out of the stage around it."""
        return _Waiting(self)

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

    def __enter__(self) -> None:
        self._start = self._watch.clock()
        self._waited = self._watch.waited

    def __exit__(self, *_: object) -> None:
        watch = self._watch
        own = watch.clock() - self._start - (watch.waited - self._waited)
        watch.seconds[self._name] = watch.seconds.get(self._name, 0.0) + max(0.0, own)


class _Waiting(AbstractContextManager[None]):
    __slots__ = ("_start", "_watch")

    def __init__(self, watch: Watch) -> None:
        self._watch = watch

    def __enter__(self) -> None:
        self._start = self._watch.clock()

    def __exit__(self, *_: object) -> None:
        self._watch.waited += self._watch.clock() - self._start
