"""Turns the registries behind the listeners into OTLP metrics, when it is time to send.

Rules:
- One set of counters feeds `/metrics` and OTLP: both show the same numbers, and a
  request costs nothing more for the second.
- Sums and histograms are cumulative since the sink was made, unless deltas are asked.
- This runs in the exporting thread; prometheus-client's values have their own locks.
"""

from collections.abc import Iterable, Iterator
from typing import cast

from opentelemetry.sdk.metrics.export import (
    AggregationTemporality,
    Gauge,
    Histogram,
    HistogramDataPoint,
    MetricsData,
    NumberDataPoint,
    ResourceMetrics,
    ScopeMetrics,
    Sum,
)
from opentelemetry.sdk.metrics.export import Metric as Exported
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from prometheus_client import CollectorRegistry
from prometheus_client.samples import Sample

from deuz_proxy.observe.catalog import Metric
from deuz_proxy.observe.names import ERROR_TYPE
from deuz_proxy.observe.vocabulary import NONE
from deuz_proxy.sinks.otlp_deltas import Deltas

Registered = tuple[CollectorRegistry, tuple[Metric, ...]]

_CUMULATIVE = AggregationTemporality.CUMULATIVE
# The classes demand numbers; the protocol knows "not measured", which None becomes.
_UNMEASURED = cast("float", None)


class Snapshot:
    """Takes the picture of all registries that one export sends."""

    def __init__(
        self,
        registered: Iterable[Registered],
        resource: Resource,
        scope: InstrumentationScope,
        *,
        started_ns: int,
        is_delta: bool = False,
    ) -> None:
        self._registered = tuple(registered)
        self._resource = resource
        self._scope = scope
        self._started_ns = started_ns
        self._deltas = Deltas() if is_delta else None

    def take(self, now_ns: int) -> MetricsData:
        """Return every metric that has a series, at this moment."""
        span = (self._started_ns, now_ns)
        exported = [
            found
            for registry, metrics in self._registered
            for found in _exported(registry, metrics, span)
        ]
        if self._deltas is not None:
            exported = self._deltas.since_last(exported)
        scope = ScopeMetrics(self._scope, exported, "")
        return MetricsData([ResourceMetrics(self._resource, [scope], "")])


def _exported(
    registry: CollectorRegistry, metrics: tuple[Metric, ...], span: tuple[int, int]
) -> Iterator[Exported]:
    known = {metric.name.removesuffix("_total"): metric for metric in metrics}
    for family in registry.collect():
        metric = known.get(family.name)
        samples = [s for s in family.samples if not s.name.endswith("_created")]
        if metric is not None and samples:
            data = _data(metric, samples, span)
            yield Exported(metric.otlp, metric.help, metric.unit, data)


def _data(
    metric: Metric, samples: list[Sample], span: tuple[int, int]
) -> Sum | Gauge | Histogram:
    if metric.kind == "histogram":
        points = list(_histogram_points(metric, samples, span))
        return Histogram(points, _CUMULATIVE)
    numbers = [
        NumberDataPoint(_attributes(metric, sample.labels), *span, sample.value)
        for sample in samples
    ]
    if metric.kind == "gauge":
        return Gauge(numbers)
    return Sum(numbers, _CUMULATIVE, is_monotonic=True)


def _histogram_points(
    metric: Metric, samples: list[Sample], span: tuple[int, int]
) -> Iterator[HistogramDataPoint]:
    started_ns, now_ns = span
    bounds = metric.buckets
    cumulative: list[int] = []
    # One series comes as its buckets in order, then the count, then the sum.
    for sample in samples:
        if sample.name.endswith("_bucket"):
            cumulative.append(int(sample.value))
        elif sample.name.endswith("_sum"):
            yield HistogramDataPoint(
                attributes=_attributes(metric, sample.labels),
                start_time_unix_nano=started_ns,
                time_unix_nano=now_ns,
                count=cumulative[-1],
                sum=sample.value,
                bucket_counts=_differences(cumulative),
                explicit_bounds=bounds,
                min=_UNMEASURED,
                max=_UNMEASURED,
            )
            cumulative = []


def _differences(cumulative: list[int]) -> list[int]:
    before = [0, *cumulative[:-1]]
    return [upper - lower for upper, lower in zip(cumulative, before, strict=True)]


def _attributes(metric: Metric, labels: dict[str, str]) -> dict[str, str]:
    # A call without an error has no error type, rather than one that says so.
    return {
        label.otlp or label.name: labels[label.name]
        for label in metric.labels
        if labels[label.name] != NONE or label.otlp != ERROR_TYPE
    }
