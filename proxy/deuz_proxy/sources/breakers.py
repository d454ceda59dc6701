"""Which sources are asked: one that keeps failing rests, so that nobody waits for it.

Rules:
- Failures in a row open the breaker; lateness is one, an empty answer is none.
- After its rest a source is tried by one request; the others go on without it. A failed
  try doubles the rest, up to 16-fold; an answer ends it.
- A request that was given up by its client tells nothing of the source.
- One owner, the event loop.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass

_FAILURES = ("late", "failed")
# Not ready, or nobody waited: neither a failure nor an answer.
_TELLS_NOTHING = (None, "skipped")
_LONGEST_FACTOR = 16


@dataclass(slots=True)
class _Breaker:
    """One source: failures in a row, and until when it rests."""

    failures: int = 0
    rests: int = 0
    resting_until: float = 0.0
    is_tried: bool = False

    @property
    def is_open(self) -> bool:
        return self.rests > 0


class Breakers:
    """The breakers of all sources, by id. `clock` is monotonic."""

    def __init__(
        self,
        sources: Iterable[str],
        *,
        rest_after: int,
        rest_seconds: float,
        clock: Callable[[], float],
    ) -> None:
        self._breakers = {source: _Breaker() for source in sources}
        self._rest_after = rest_after
        self._rest_seconds = rest_seconds
        self._clock = clock

    def admit(self, source: str) -> bool:
        """Tell whether the source is asked now; who is told so has to `note` it."""
        breaker = self._breakers.setdefault(source, _Breaker())
        if not breaker.is_open:
            return True
        if breaker.is_tried or self._clock() < breaker.resting_until:
            return False
        breaker.is_tried = True
        return True

    def note(self, source: str, status: str | None) -> None:
        """Take note of how the source answered; None: nobody waited for it."""
        breaker = self._breakers.setdefault(source, _Breaker())
        was_tried, breaker.is_tried = breaker.is_tried, False
        if status in _FAILURES:
            breaker.failures += 1
            self._rest(breaker, was_tried=was_tried)
        elif status not in _TELLS_NOTHING:
            self._breakers[source] = _Breaker()

    def _rest(self, breaker: _Breaker, *, was_tried: bool) -> None:
        # Answers to requests sent before the rest began do not prolong it.
        is_first = not breaker.is_open and 0 < self._rest_after <= breaker.failures
        if not (is_first or was_tried):
            return
        breaker.rests += 1
        factor = min(2 ** (breaker.rests - 1), _LONGEST_FACTOR)
        breaker.resting_until = self._clock() + self._rest_seconds * factor
