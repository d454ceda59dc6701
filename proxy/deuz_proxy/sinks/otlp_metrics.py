"""Turns the registries behind the listeners into OTLP metrics, when it is time to send.

Rules:
- One set of counters feeds `/metrics` and OTLP: both show the same numbers, and a
  request costs nothing more for the second.
- Sums and histograms are cumulative since the sink was made, unless deltas are asked.
- This runs in the exporting thread, which reads numbers that may be a moment old.

Source: opentelemetry-proto 1.x, metrics.proto (field numbers).
"""

import struct
from collections.abc import Iterable, Iterator

from prometheus_client import CollectorRegistry
from prometheus_client.samples import Sample

from deuz_proxy.observe.catalog import Metric
from deuz_proxy.observe.names import ERROR_TYPE
from deuz_proxy.observe.vocabulary import NONE
from deuz_proxy.sinks.otlp_bytes import (
    ITEM,
    Envelope,
    pack_double,
    pack_fixed64,
    write_attributes,
    write_message,
    write_number,
    write_text,
)
from deuz_proxy.sinks.otlp_deltas import Deltas, Point

Registered = tuple[CollectorRegistry, tuple[Metric, ...]]

_DELTA, _CUMULATIVE = 1, 2
_FIELDS = {"gauge": 5, "counter": 7, "histogram": 9}


class Snapshot:
    """Takes the picture of all registries that one export sends."""

    def __init__(
        self,
        registered: Iterable[Registered],
        envelope: Envelope,
        *,
        started_ns: int,
        is_delta: bool = False,
    ) -> None:
        self._registered = tuple(registered)
        self._envelope = envelope
        self._started_ns = started_ns
        self._deltas = Deltas() if is_delta else None

    def take(self, now_ns: int) -> bytes:
        """Return the request with every metric that has a series, at this moment."""
        return self._envelope.seal(
            write_message(
                ITEM,
                self._metric(
                    metric, list(_points(metric, samples, self._started_ns, now_ns))
                ),
            )
            for registry, metrics in self._registered
            for metric, samples in _families(registry, metrics)
        )

    def _metric(self, metric: Metric, points: list[Point]) -> bytes:
        temporality = write_number(2, _CUMULATIVE)
        if self._deltas is not None and metric.kind != "gauge":
            points = self._deltas.since_last(metric.name, points)
            temporality = write_number(2, _DELTA)
        write = _write_counts if metric.kind == "histogram" else _write_value
        said = b"".join(write_message(1, write(metric, point)) for point in points)
        if metric.kind != "gauge":
            said += temporality
        if metric.kind == "counter":
            said += write_number(3, int(True))
        return b"".join(
            (
                write_text(1, metric.otlp),
                write_text(2, metric.help),
                write_text(3, metric.unit),
                write_message(_FIELDS[metric.kind], said),
            )
        )


def _families(
    registry: CollectorRegistry, metrics: tuple[Metric, ...]
) -> Iterator[tuple[Metric, list[Sample]]]:
    known = {metric.name.removesuffix("_total"): metric for metric in metrics}
    for family in registry.collect():
        metric = known.get(family.name)
        if metric is not None and family.samples:
            yield metric, family.samples


def _points(
    metric: Metric, samples: list[Sample], started_ns: int, now_ns: int
) -> Iterator[Point]:
    cumulative: list[int] = []
    for sample in samples:
        # One histogram comes as its buckets in order, then the count, then the sum.
        if sample.name.endswith("_bucket"):
            cumulative.append(int(sample.value))
        elif metric.kind != "histogram" or sample.name.endswith("_sum"):
            labels, counts = _labels(metric, sample.labels), _differences(cumulative)
            yield Point(labels, started_ns, now_ns, sample.value, counts)
            cumulative = []


def _differences(cumulative: list[int]) -> tuple[int, ...]:
    before = (0, *cumulative)
    return tuple(
        upper - lower for upper, lower in zip(cumulative, before, strict=False)
    )


def _labels(metric: Metric, labels: dict[str, str]) -> tuple[tuple[str, str], ...]:
    # A call without an error has no error type, rather than one that says so.
    return tuple(
        (label.otlp or label.name, labels[label.name])
        for label in metric.labels
        if labels[label.name] != NONE or label.otlp != ERROR_TYPE
    )


def _write_value(metric: Metric, point: Point) -> bytes:
    # A gauge has no beginning.
    started_ns = 0 if metric.kind == "gauge" else point.started_ns
    if isinstance(point.value, int):
        value = b"\x31" + pack_fixed64(point.value)
    else:
        value = b"\x21" + pack_double(point.value)
    span = _span(started_ns, point.taken_ns)
    return span + value + write_attributes(7, dict(point.labels))


def _write_counts(metric: Metric, point: Point) -> bytes:
    counts, bounds = point.counts, metric.buckets
    return b"".join(
        (
            _span(point.started_ns, point.taken_ns),
            b"\x21" + pack_fixed64(sum(counts)),
            b"\x29" + pack_double(point.value),
            write_message(6, struct.pack(f"<{len(counts)}Q", *counts)),
            write_message(7, struct.pack(f"<{len(bounds)}d", *bounds)),
            write_attributes(9, dict(point.labels)),
        )
    )


def _span(started_ns: int, taken_ns: int) -> bytes:
    started = b"\x11" + pack_fixed64(started_ns) if started_ns else b""
    return started + b"\x19" + pack_fixed64(taken_ns)
