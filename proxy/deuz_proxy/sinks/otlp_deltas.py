"""Turns cumulative metrics into what was added since the last picture.

Rules:
- Only where it is asked for: `OTEL_EXPORTER_OTLP_METRICS_TEMPORALITY_PREFERENCE` is
  `delta` or `lowmemory`. Gauges stay as they are.
- A picture that is lost on its way is lost for good: that is what deltas mean.
- One thread uses it, the exporting one.
"""

from collections.abc import Iterable
from dataclasses import replace

from opentelemetry.sdk.metrics.export import (
    AggregationTemporality,
    Histogram,
    HistogramDataPoint,
    Metric,
    NumberDataPoint,
    Sum,
)

Key = tuple[object, ...]
Point = NumberDataPoint | HistogramDataPoint

_DELTA = AggregationTemporality.DELTA


class Deltas:
    """Remembers the last picture's points."""

    def __init__(self) -> None:
        self._before: dict[Key, Point] = {}

    def since_last(self, metrics: Iterable[Metric]) -> list[Metric]:
        """Return the metrics with sums and histograms as differences."""
        return [self._changed(metric) for metric in metrics]

    def _changed(self, metric: Metric) -> Metric:
        data = metric.data
        if isinstance(data, Sum):
            numbers = [self._number(metric.name, point) for point in data.data_points]
            return replace(metric, data=Sum(numbers, _DELTA, data.is_monotonic))
        if isinstance(data, Histogram):
            counts = [self._counts(metric.name, point) for point in data.data_points]
            return replace(metric, data=Histogram(counts, _DELTA))
        return metric

    def _number(self, name: str, point: NumberDataPoint) -> NumberDataPoint:
        before = self._swap(name, point)
        if not isinstance(before, NumberDataPoint):
            return point
        return replace(
            point,
            value=point.value - before.value,
            start_time_unix_nano=before.time_unix_nano,
        )

    def _counts(self, name: str, point: HistogramDataPoint) -> HistogramDataPoint:
        before = self._swap(name, point)
        if not isinstance(before, HistogramDataPoint):
            return point
        pairs = zip(point.bucket_counts, before.bucket_counts, strict=True)
        return replace(
            point,
            count=point.count - before.count,
            sum=point.sum - before.sum,
            bucket_counts=[after - earlier for after, earlier in pairs],
            start_time_unix_nano=before.time_unix_nano,
        )

    def _swap(self, name: str, point: Point) -> Point | None:
        key = (name, *(point.attributes or {}).items())
        before = self._before.get(key)
        self._before[key] = point
        return before
