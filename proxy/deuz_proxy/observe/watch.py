"""What one request costs the sidecar, stage by stage, and whom it asked for it.

Rules:
- A stage's time is what the sidecar added: waiting for client or upstream is taken out.
- One stage at a time: one begins where the one before it ends, or behind a pause.
- One request owns its watch; it is read once, when the request is through.
- A call to the upstream is noted once it was answered, or failed: whatever becomes of
  the request then, it was made and is paid for.
- Nearly all requests go one way, which is added up at once: with a loop it takes five
  times as long.
"""

from collections.abc import Callable
from contextlib import AbstractContextManager

from deuz_proxy.observe.events import UpstreamCall

# Its waits are the upstream's answer and the relay; what is told of comes behind.
_USUAL: list[str | None] = ["admit", "recall", "compile", "forward", None, "forward"]
_USUAL += ["settle", None, "settle"]
_USUAL_NAMES = "admit", "recall", "compile", "forward", "settle", "total"


class Watch(AbstractContextManager["Watch"]):
    """A stopwatch with named stages. Used by the one task that serves the request."""

    __slots__ = ("_clock", "_stages", "_times", "calls", "started")

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        # Whose the time is from each of these moments on; added up once, at the end.
        self._stages: list[str | None] = []
        self._times: list[float] = []
        self.calls: list[UpstreamCall] = []
        self.started = clock()

    def enter(self, stage: str | None) -> None:
        """Count from now on as this stage's; as nobody's, if None."""
        self._stages.append(stage)
        self._times.append(self._clock())

    def waiting(self) -> AbstractContextManager[object]:
        """Take the time inside out of the stage around it; one wait at a time."""
        return self

    def __enter__(self) -> "Watch":
        """Begin to wait: the time is nobody's."""
        self._stages.append(None)
        self._times.append(self._clock())
        return self

    def __exit__(self, *_: object) -> None:
        """Go on with the stage around it."""
        stages = self._stages
        stages.append(stages[-2] if len(stages) > 1 else None)
        self._times.append(self._clock())

    def elapsed(self) -> float:
        """Return the seconds since the request came in."""
        return self._clock() - self.started

    def stages(self) -> tuple[tuple[str, ...], tuple[float, ...]]:
        """Return the stages that ended and the seconds they added, last the `total`."""
        if self._stages != _USUAL:
            return self._stages_of_any()
        admit, recall, place, send, sent, again, keep, relay, _ = self._times
        if not admit <= recall <= place <= send <= sent <= again <= keep <= relay:
            return self._stages_of_any()
        total = sent - admit + relay - again
        forward = sent - send + keep - again
        parts = recall - admit, place - recall, send - place, forward, relay - keep
        return _USUAL_NAMES, (*parts, total)

    def _stages_of_any(self) -> tuple[tuple[str, ...], tuple[float, ...]]:
        seconds: dict[str, float] = {}
        left, since = None, 0.0
        for stage, now in zip(self._stages, self._times, strict=True):
            if left is not None:
                # A clock may step back.
                own = now - since if now > since else 0.0
                seconds[left] = seconds[left] + own if left in seconds else own
            left, since = stage, now
        return (*seconds, "total"), (*seconds.values(), sum(seconds.values()))
