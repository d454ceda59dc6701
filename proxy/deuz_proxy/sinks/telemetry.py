"""Everything that leaves over OTLP, opened at the start and closed within a grace.

Rules:
- `listeners` are for the event loop's thread; all sending happens in other threads.
- Closing sends what is queued, gives up when the grace is over, and tells what was
  lost.
"""

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from time import monotonic

from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.sdk.util.instrumentation import InstrumentationScope

from deuz_proxy.observe import catalog, names
from deuz_proxy.observe.events import Listener
from deuz_proxy.observe.trace import NewId
from deuz_proxy.sinks.genai import GenAiSink
from deuz_proxy.sinks.otlp import (
    CountedExporter,
    MetricPusher,
    Targets,
    metric_exporter,
    service_resource,
    span_exporter,
)
from deuz_proxy.sinks.otlp_logs import QuietLogs
from deuz_proxy.sinks.otlp_metrics import Snapshot
from deuz_proxy.sinks.prometheus import PrometheusSink
from deuz_proxy.sinks.spans import SpanBuilder, SpanSink


@dataclass(frozen=True, slots=True)
class Identity:
    """What every span of this process shares."""

    version: str
    new_id: NewId
    conventions: names.Conventions = names.NEWEST


@dataclass(frozen=True, slots=True)
class SpanCounts:
    """Requests so far whose spans were to go out; the rest is pending or lost."""

    offered: int
    delivered: int
    failed: int

    @property
    def undelivered(self) -> int:
        """What is queued, under way or lost; after closing, all of it is lost."""
        return self.offered - self.delivered


class Telemetry:
    """The running export. Made by `open_telemetry`, closed once."""

    def __init__(
        self,
        spans: "_Spans | None",
        metrics: "_Metrics | None",
        logs: QuietLogs,
    ) -> None:
        self._spans = spans
        self._metrics = metrics
        self._logs = logs
        parts = (spans and spans.sink, metrics and metrics.genai)
        self.listeners: tuple[Listener, ...] = tuple(part for part in parts if part)

    def counts(self) -> SpanCounts:
        """Return how many requests were handed over and what became of them."""
        if self._spans is None:
            return SpanCounts(0, 0, 0)
        exporter = self._spans.exporter
        return SpanCounts(self._spans.sink.offered, exporter.delivered, exporter.failed)

    def close(self, grace_seconds: float) -> SpanCounts:
        """Send what is left, for no longer than the grace; blocks, so not in the loop.

        Returns:
            The counts, final now: what is undelivered is lost.
        """
        deadline = monotonic() + grace_seconds
        closers = [_start(part.close) for part in (self._spans, self._metrics) if part]
        for closer in closers:
            closer.join(max(0.0, deadline - monotonic()))
        counts = self.counts()
        if any(closer.is_alive() for closer in closers):
            # What hangs is left to end with the process, and must stay quiet till then.
            if self._spans is not None:
                _start(self._spans.exporter.shutdown)
        else:
            self._logs.close()
        return counts


def open_telemetry(
    targets: Targets, prometheus: PrometheusSink, identity: Identity
) -> Telemetry:
    """Start the export of spans and of the metrics that the other sink counts."""
    logs = QuietLogs(monotonic)
    resource = service_resource(identity.version)
    scope = InstrumentationScope(names.SCOPE, identity.version)
    spans = metrics = None
    if targets.traces is not None:
        builder = SpanBuilder(resource, scope, identity.conventions, identity.new_id)
        exporter = span_exporter(targets.traces)
        spans = _Spans(CountedExporter(exporter, builder.made_of))
    if targets.metrics is not None:
        genai = GenAiSink(prometheus.bounds, identity.conventions)
        registered = (
            (prometheus.registry, catalog.METRICS),
            (genai.registry, genai.metrics),
        )
        snapshot = Snapshot(
            registered,
            resource,
            scope,
            started_ns=time.time_ns(),
            is_delta=targets.is_delta,
        )
        pusher = MetricPusher(
            lambda: snapshot.take(time.time_ns()),
            metric_exporter(targets.metrics),
            targets.interval_seconds,
        )
        metrics = _Metrics(genai, pusher)
    return Telemetry(spans, metrics, logs)


class _Spans:
    def __init__(self, exporter: CountedExporter) -> None:
        self.exporter = exporter
        self._processor = BatchSpanProcessor(exporter)
        self.sink = SpanSink(self._processor)

    def close(self) -> None:
        self._processor.shutdown()  # type: ignore[no-untyped-call]  # The SDK's.


@dataclass(frozen=True, slots=True)
class _Metrics:
    genai: GenAiSink
    pusher: MetricPusher

    def close(self) -> None:
        self.pusher.close()


def _start(work: Callable[[], None]) -> threading.Thread:
    # Daemons: an export that hangs must not outlive the grace.
    thread = threading.Thread(target=work, name="deuz-telemetry-close", daemon=True)
    thread.start()
    return thread
