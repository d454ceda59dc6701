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

from deuz_proxy.observe import catalog, names
from deuz_proxy.observe.events import Listener
from deuz_proxy.observe.trace import NewId
from deuz_proxy.sinks.genai import GenAiSink
from deuz_proxy.sinks.metric_pusher import MetricPusher
from deuz_proxy.sinks.otlp import Target, Targets, service_resource
from deuz_proxy.sinks.otlp_bytes import Envelope
from deuz_proxy.sinks.otlp_http import FindProxy, HttpWay, no_proxy
from deuz_proxy.sinks.otlp_logs import QuietLog
from deuz_proxy.sinks.otlp_metrics import Snapshot
from deuz_proxy.sinks.otlp_send import Sender, Way
from deuz_proxy.sinks.prometheus import PrometheusSink
from deuz_proxy.sinks.span_batches import SpanBatches
from deuz_proxy.sinks.span_items import load_writer
from deuz_proxy.sinks.spans import SpanWriter


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
    """The running export. Made by `open_telemetry`, closed once.

    Its `listeners` need to hear of finished requests only.
    """

    def __init__(self, spans: SpanBatches | None, metrics: "_Metrics | None") -> None:
        self._spans = spans
        self._metrics = metrics
        parts = (spans, metrics and metrics.genai)
        # As methods: an instance is called by way of its class, which takes longer.
        self.listeners: tuple[Listener, ...] = tuple(
            [part.__call__ for part in parts if part]
        )

    def counts(self) -> SpanCounts:
        """Return how many requests were handed over and what became of them."""
        if self._spans is None:
            return SpanCounts(0, 0, 0)
        spans = self._spans
        return SpanCounts(spans.offered, spans.delivered, spans.failed)

    def close(self, grace_seconds: float) -> SpanCounts:
        """Send what is left, for no longer than the grace; blocks, so not in the loop.

        Returns:
            The counts, final now: what is undelivered is lost.
        """
        deadline = monotonic() + grace_seconds
        parts = [part for part in (self._spans, self._metrics) if part]
        closers = [_start(part.close) for part in parts]
        for closer in closers:
            closer.join(max(0.0, deadline - monotonic()))
        counts = self.counts()
        # What hangs is left to end with the process, or with its next answer.
        for part in parts:
            part.give_up()
        return counts


def open_telemetry(
    targets: Targets,
    prometheus: PrometheusSink,
    identity: Identity,
    *,
    find_proxy: FindProxy = no_proxy,
) -> Telemetry:
    """Start the export of spans and of the metrics that the other sink counts."""
    log = QuietLog(monotonic)
    resource = service_resource(identity.version)
    envelope = Envelope(resource, names.SCOPE, identity.version)
    spans = metrics = None
    if targets.traces is not None:
        writer = SpanWriter(identity.conventions, identity.new_id, load_writer())
        sender = _sender(targets.traces, find_proxy, log)
        spans = SpanBatches(writer.write, envelope.seal, sender, targets.batches, log)
    if targets.metrics is not None:
        genai = GenAiSink(prometheus.bounds, identity.conventions)
        registered = (
            (prometheus.registry, catalog.METRICS),
            (genai.registry, genai.metrics),
        )
        snapshot = Snapshot(
            registered,
            envelope,
            started_ns=time.time_ns(),
            is_delta=targets.is_delta,
        )
        pusher = MetricPusher(
            lambda: snapshot.take(time.time_ns()),
            _sender(targets.metrics, find_proxy, log),
            targets.interval_seconds,
            log,
        )
        metrics = _Metrics(genai, pusher)
    return Telemetry(spans, metrics)


@dataclass(frozen=True, slots=True)
class _Metrics:
    genai: GenAiSink
    pusher: MetricPusher

    def close(self) -> None:
        self.pusher.close()

    def give_up(self) -> None:
        self.pusher.give_up()


def _sender(target: Target, find_proxy: FindProxy, log: QuietLog) -> Sender:
    return Sender(
        _way(target, find_proxy),
        signal=target.signal,
        timeout_seconds=target.timeout_seconds,
        log=log,
    )


def _way(target: Target, find_proxy: FindProxy) -> Way:
    if target.protocol != "grpc":
        return HttpWay(target, find_proxy)
    # Lazily: grpcio takes 20 MB and starts threads of its own.
    from deuz_proxy.sinks.otlp_grpc import GrpcWay  # noqa: PLC0415

    return GrpcWay(target)


def _start(work: Callable[[], None]) -> threading.Thread:
    # Daemons: an export that hangs must not outlive the grace.
    thread = threading.Thread(target=work, name="deuz-telemetry-close", daemon=True)
    thread.start()
    return thread
