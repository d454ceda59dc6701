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

    __slots__ = ("_clock", "_marks", "started")

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        # Whose the time is from each of these moments on; added up once, at the end.
        self._marks: list[tuple[str | None, float]] = []
        self.started = clock()

    def enter(self, stage: str | None) -> None:
        """Count from now on as this stage's; as nobody's, if None."""
        self._marks.append((stage, self._clock()))

    def waiting(self) -> AbstractContextManager[object]:
        """Take the time inside out of the stage around it; one wait at a time."""
        return self

    def __enter__(self) -> "Watch":
        """Begin to wait: the time is nobody's."""
        self._marks.append((None, self._clock()))
        return self

    def __exit__(self, *_: object) -> None:
        """Go on with the stage around it."""
        around = self._marks[-2][0] if len(self._marks) > 1 else None
        self._marks.append((around, self._clock()))

    def elapsed(self) -> float:
        """Return the seconds since the request came in."""
        return self._clock() - self.started

    def stages(self) -> tuple[tuple[str, float], ...]:
        """Return the seconds added by the stages that ended, and their `total`."""
        seconds: dict[str, float] = {}
        left, since, total = None, 0.0, 0.0
        for stage, now in self._marks:
            if left is not None:
                # A clock may step back.
                own = now - since if now > since else 0.0
                seconds[left] = seconds[left] + own if left in seconds else own
                total += own
            left, since = stage, now
        return (*seconds.items(), ("total", total))
