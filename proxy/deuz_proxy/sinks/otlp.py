"""Sends spans and metrics to an OTLP endpoint, from threads of its own.

Rules:
- Nothing is sent unless an endpoint is configured; `OTEL_SDK_DISABLED` overrules it.
- The configuration's endpoint goes before the environment's; all else that the usual
  `OTEL_*` variables say is left to the SDK.
- A collector that is dead or silent costs threads of ours time, never a request: queues
  are bounded, time limits short, and closing ends with its grace whatever happens.
"""

import logging
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from opentelemetry.sdk.metrics.export import MetricExporter, MetricsData
from opentelemetry.sdk.resources import SERVICE_NAME, Resource
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult

Protocol = Literal["http/protobuf", "grpc"]

SERVICE = "deuz-sidecar"
# A collector is a neighbour: what takes longer than this will not come.
TIMEOUT_SECONDS = 3.0
_INTERVAL_SECONDS = 60.0  # The SDK's own default.
_ANY_ENDPOINT = "OTEL_EXPORTER_OTLP_ENDPOINT"
_TEMPORALITY = "OTEL_EXPORTER_OTLP_METRICS_TEMPORALITY_PREFERENCE"
_log = logging.getLogger("deuz_proxy.telemetry")


@dataclass(frozen=True, slots=True)
class Target:
    """Where one kind of telemetry goes. Without a URL the SDK reads its variables."""

    signal: Literal["traces", "metrics"]
    protocol: Protocol
    url: str | None
    timeout_seconds: float | None
    headers: Mapping[str, str] | None = None


@dataclass(frozen=True, slots=True)
class Targets:
    """Where spans and metrics go; None is "nowhere"."""

    traces: Target | None
    metrics: Target | None
    interval_seconds: float = _INTERVAL_SECONDS
    is_delta: bool = False


def resolve_targets(
    environment: Mapping[str, str],
    *,
    endpoint: str | None = None,
    protocol: Protocol = "http/protobuf",
    headers: Mapping[str, str] | None = None,
) -> Targets | None:
    """Return where telemetry goes; None if no endpoint is configured or all is off.

    `headers` go with every export, over those of the environment.
    """
    if environment.get("OTEL_SDK_DISABLED", "").strip().lower() == "true":
        return None
    configured = (endpoint or None, protocol)
    traces = _target("traces", environment, configured)
    metrics = _target("metrics", environment, configured)
    if traces is None and metrics is None:
        return None
    if headers:
        traces = traces and replace(traces, headers=headers)
        metrics = metrics and replace(metrics, headers=headers)
    preference = environment.get(_TEMPORALITY, "").strip().lower()
    is_delta = preference in ("delta", "lowmemory")
    return Targets(traces, metrics, _interval_seconds(environment), is_delta)


def service_resource(version: str) -> Resource:
    """Return who we are: the environment's names, `deuz-sidecar` if it has none."""
    found = Resource.create({"service.version": version} if version else {})
    name = str(found.attributes.get(SERVICE_NAME, ""))
    if name.startswith("unknown_service"):
        return found.merge(Resource({SERVICE_NAME: SERVICE}))
    return found


def span_exporter(target: Target) -> SpanExporter:
    """Return the exporter of spans for a target."""
    if target.protocol == "grpc":
        # Lazily: grpcio takes 20 MB and starts threads of its own.
        from opentelemetry.exporter.otlp.proto.grpc import trace_exporter  # noqa: PLC0415

        return trace_exporter.OTLPSpanExporter(
            target.url, headers=_pairs(target), timeout=target.timeout_seconds
        )
    from deuz_proxy.sinks.otlp_http import LeanSpanExporter  # noqa: PLC0415

    return LeanSpanExporter(
        _http_url(target), headers=_pairs(target), timeout=target.timeout_seconds
    )


def metric_exporter(target: Target) -> MetricExporter:
    """Return the SDK's exporter of metrics for a target."""
    if target.protocol == "grpc":
        from opentelemetry.exporter.otlp.proto.grpc import metric_exporter as over_grpc  # noqa: PLC0415

        return over_grpc.OTLPMetricExporter(
            target.url, headers=_pairs(target), timeout=target.timeout_seconds
        )
    from opentelemetry.exporter.otlp.proto.http import metric_exporter as over_http  # noqa: PLC0415

    return over_http.OTLPMetricExporter(
        _http_url(target), headers=_pairs(target), timeout=target.timeout_seconds
    )


def _pairs(target: Target) -> dict[str, str] | None:
    return dict(target.headers) if target.headers else None


class CountedExporter(SpanExporter):
    """Exports what `spans_of` makes of the offers, and counts what got through.

    `delivered` and `failed` count offers; they are written by the exporting thread
    only. It can be told to give up.
    """

    def __init__(
        self,
        exporter: SpanExporter,
        spans_of: Callable[[ReadableSpan], Iterable[ReadableSpan]],
    ) -> None:
        self._exporter = exporter
        self._spans_of = spans_of
        self._is_closed = threading.Event()
        self.delivered = 0
        self.failed = 0

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        """Send a batch of offers, unless closing has begun to take too long."""
        if self._is_closed.is_set():
            return SpanExportResult.FAILURE
        made = [span for offer in spans for span in self._spans_of(offer)]
        result = self._exporter.export(made)
        if result is SpanExportResult.SUCCESS:
            self.delivered += len(spans)
        else:
            self.failed += len(spans)
        return result

    def shutdown(self) -> None:
        """Refuse what comes now and wake an export that waits to try again."""
        if not self._is_closed.is_set():
            self._is_closed.set()
            self._exporter.shutdown()

    def force_flush(self, timeout_millis: int = 30_000) -> bool:
        """Nothing is kept here."""
        return self._exporter.force_flush(timeout_millis)


class MetricPusher:
    """Sends a picture of the metrics every so often, and a last one when closed."""

    def __init__(
        self,
        take: Callable[[], MetricsData],
        exporter: MetricExporter,
        interval_seconds: float,
    ) -> None:
        self._take = take
        self._exporter = exporter
        self._interval_seconds = interval_seconds
        self._is_closing = threading.Event()
        # A daemon: a collector that never answers must not keep the process alive.
        self._thread = threading.Thread(
            target=self._run, name="deuz-metrics", daemon=True
        )
        self._thread.start()

    def close(self) -> None:
        """Ask for the last picture and wait until it is sent."""
        self._is_closing.set()
        self._thread.join()
        self._exporter.shutdown()

    def _run(self) -> None:
        while not self._is_closing.wait(self._interval_seconds):
            self._push()
        self._push()

    def _push(self) -> None:
        try:
            self._exporter.export(self._take())
        except Exception as fault:  # noqa: BLE001  # One bad picture must not be the last.
            _log.warning("telemetry: metrics were not sent: %s", type(fault).__name__)


def _target(
    signal: Literal["traces", "metrics"],
    environment: Mapping[str, str],
    configured: tuple[str | None, Protocol],
) -> Target | None:
    upper = signal.upper()
    if environment.get(f"OTEL_{upper}_EXPORTER", "otlp").strip().lower() == "none":
        return None
    own_endpoint = f"OTEL_EXPORTER_OTLP_{upper}_ENDPOINT"
    url, protocol = configured
    if url is None:
        if not (environment.get(own_endpoint) or environment.get(_ANY_ENDPOINT)):
            return None
        protocol = _protocol(upper, environment, protocol)
    limits = (f"OTEL_EXPORTER_OTLP_{upper}_TIMEOUT", "OTEL_EXPORTER_OTLP_TIMEOUT")
    is_limited = any(environment.get(name) for name in limits)
    return Target(signal, protocol, url, None if is_limited else TIMEOUT_SECONDS)


def _protocol(
    upper: str, environment: Mapping[str, str], default: Protocol
) -> Protocol:
    for name in (
        f"OTEL_EXPORTER_OTLP_{upper}_PROTOCOL",
        "OTEL_EXPORTER_OTLP_PROTOCOL",
    ):
        if said := environment.get(name, "").strip().lower():
            return "grpc" if said == "grpc" else "http/protobuf"
    return default


def _interval_seconds(environment: Mapping[str, str]) -> float:
    try:
        milliseconds = float(environment.get("OTEL_METRIC_EXPORT_INTERVAL", ""))
    except ValueError:
        return _INTERVAL_SECONDS
    return milliseconds / 1000 if milliseconds > 0 else _INTERVAL_SECONDS


def _http_url(target: Target) -> str | None:
    if target.url is None:
        return None
    return f"{target.url.rstrip('/')}/v1/{target.signal}"
