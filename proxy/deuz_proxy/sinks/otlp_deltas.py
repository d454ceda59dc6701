"""Turns cumulative points into what was added since the last picture.

Rules:
- Only where it is asked for: `OTEL_EXPORTER_OTLP_METRICS_TEMPORALITY_PREFERENCE` is
  `delta` or `lowmemory`. Gauges stay as they are.
- A picture that is lost on its way is lost for good: that is what deltas mean.
- One thread uses it, the exporting one.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace


@dataclass(frozen=True, slots=True)
class Point:
    """One series in one picture.

    `value` is a number, or the sum of a histogram, which has `counts` too: one for each
    bucket and one above them.
    """

    labels: tuple[tuple[str, str], ...]
    started_ns: int
    taken_ns: int
    value: float
    counts: tuple[int, ...] = ()


class Deltas:
    """Remembers the last picture's points."""

    def __init__(self) -> None:
        self._before: dict[tuple[object, ...], Point] = {}

    def since_last(self, name: str, points: Iterable[Point]) -> list[Point]:
        """Return the points of a metric as differences."""
        return [self._changed(name, point) for point in points]

    def _changed(self, name: str, point: Point) -> Point:
        key = (name, *point.labels)
        before = self._before.get(key)
        self._before[key] = point
        if before is None:
            return point
        pairs = zip(point.counts, before.counts, strict=True)
        return replace(
            point,
            started_ns=before.taken_ns,
            value=point.value - before.value,
            counts=tuple(after - earlier for after, earlier in pairs),
        )
