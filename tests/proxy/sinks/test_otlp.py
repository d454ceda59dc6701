import sys
import threading
from uuid import UUID

import pytest
from opentelemetry.sdk.metrics.export import (
    MetricExporter,
    MetricExportResult,
    MetricsData,
)
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SpanExportResult
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from deuz_proxy.observe import names
from deuz_proxy.sinks.otlp import (
    CountedExporter,
    MetricPusher,
    Target,
    Targets,
    metric_exporter,
    resolve_targets,
    service_resource,
    span_exporter,
)

HERE = "http://collector:4318"
BASE = {"OTEL_EXPORTER_OTLP_ENDPOINT": HERE}


def traces(targets: Targets | None) -> Target:
    assert targets is not None
    assert targets.traces is not None
    return targets.traces


def test_nothing_is_sent_without_an_endpoint() -> None:
    assert resolve_targets({}) is None
    assert resolve_targets({"OTEL_SERVICE_NAME": "x"}, endpoint="") is None


def test_environment_s_endpoint_serves_both_signals_and_is_left_to_the_sdk() -> None:
    targets = resolve_targets(BASE)

    assert traces(targets).url is None
    assert targets is not None
    assert targets.metrics is not None


def test_configured_endpoint_goes_before_the_environment_s() -> None:
    assert (
        traces(resolve_targets(BASE, endpoint="http://mine:1")).url == "http://mine:1"
    )


def test_endpoint_of_one_signal_sends_that_one_only() -> None:
    targets = resolve_targets({"OTEL_EXPORTER_OTLP_METRICS_ENDPOINT": HERE})

    assert targets is not None
    assert targets.traces is None
    assert targets.metrics is not None


@pytest.mark.parametrize("value", ["true", "TRUE", " True "])
def test_disabled_sdk_sends_nothing(value: str) -> None:
    assert resolve_targets({"OTEL_SDK_DISABLED": value}, endpoint=HERE) is None


def test_exporter_none_turns_one_signal_off() -> None:
    targets = resolve_targets({"OTEL_TRACES_EXPORTER": "none"}, endpoint=HERE)

    assert targets is not None
    assert targets.traces is None
    assert targets.metrics is not None


@pytest.mark.parametrize(
    ("environment", "protocol"),
    [
        ({}, "http/protobuf"),
        ({"OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"}, "grpc"),
        ({"OTEL_EXPORTER_OTLP_TRACES_PROTOCOL": "grpc"}, "grpc"),
        ({"OTEL_EXPORTER_OTLP_PROTOCOL": "http/json"}, "http/protobuf"),
    ],
)
def test_environment_chooses_the_protocol(
    environment: dict[str, str], protocol: str
) -> None:
    assert traces(resolve_targets(BASE | environment)).protocol == protocol


def test_configured_endpoint_has_the_configured_protocol() -> None:
    targets = resolve_targets({}, endpoint=HERE, protocol="grpc")

    assert traces(targets).protocol == "grpc"


def test_time_limit_is_short_unless_the_environment_says_otherwise() -> None:
    said = {"OTEL_EXPORTER_OTLP_TIMEOUT": "30"}

    assert traces(resolve_targets(BASE)).timeout_seconds == 3.0
    assert traces(resolve_targets(BASE | said)).timeout_seconds is None


@pytest.mark.parametrize(
    ("value", "seconds"), [("250", 0.25), ("nonsense", 60.0), ("0", 60.0), ("", 60.0)]
)
def test_environment_sets_the_interval(value: str, seconds: float) -> None:
    targets = resolve_targets(BASE | {"OTEL_METRIC_EXPORT_INTERVAL": value})

    assert targets is not None
    assert targets.interval_seconds == seconds


@pytest.mark.parametrize(
    ("value", "is_delta"),
    [("delta", True), ("LowMemory", True), ("cumulative", False), ("", False)],
)
def test_environment_may_ask_for_deltas(value: str, is_delta: bool) -> None:
    name = "OTEL_EXPORTER_OTLP_METRICS_TEMPORALITY_PREFERENCE"

    targets = resolve_targets(BASE | {name: value})

    assert targets is not None
    assert targets.is_delta is is_delta


def test_service_is_named_after_the_product(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OTEL_SERVICE_NAME", raising=False)
    monkeypatch.delenv("OTEL_RESOURCE_ATTRIBUTES", raising=False)

    attributes = service_resource("1.2").attributes

    assert attributes["service.name"] == "deuz-sidecar"
    assert attributes["service.version"] == "1.2"


def test_environment_s_service_name_wins(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_SERVICE_NAME", "billing-sidecar")
    monkeypatch.setenv("OTEL_RESOURCE_ATTRIBUTES", "deployment.environment=prod")

    attributes = service_resource("1.2").attributes

    assert attributes["service.name"] == "billing-sidecar"
    assert attributes["deployment.environment"] == "prod"


def test_an_instance_has_an_id_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    # Without one, replicas would overwrite each other's sums. The SDK makes it.
    monkeypatch.delenv("OTEL_RESOURCE_ATTRIBUTES", raising=False)

    instance = service_resource("1.2").attributes["service.instance.id"]

    assert UUID(str(instance)).version == 4


def test_environment_s_instance_wins(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_RESOURCE_ATTRIBUTES", "service.instance.id=pod-1")

    assert service_resource("1.2").attributes["service.instance.id"] == "pod-1"


def test_http_target_posts_below_the_base_url() -> None:
    exporter = span_exporter(Target("traces", "http/protobuf", f"{HERE}/", 1.0))

    assert exporter._endpoint == f"{HERE}/v1/traces"  # type: ignore[attr-defined]  # Not public.
    exporter.shutdown()


def test_metrics_have_a_path_of_their_own() -> None:
    exporter = metric_exporter(Target("metrics", "http/protobuf", HERE, 1.0))

    assert exporter._endpoint == f"{HERE}/v1/metrics"  # type: ignore[attr-defined]  # Not public.
    exporter.shutdown()


def test_grpc_target_has_an_exporter_for_each_signal() -> None:
    spans = span_exporter(Target("traces", "grpc", HERE, 1.0))
    metrics = metric_exporter(Target("metrics", "grpc", HERE, 1.0))

    assert type(spans).__module__.startswith("opentelemetry.exporter.otlp.proto.grpc")
    assert type(metrics).__module__.startswith("opentelemetry.exporter.otlp.proto.grpc")
    spans.shutdown()
    metrics.shutdown()


def test_grpc_is_loaded_only_when_it_is_used() -> None:
    import subprocess

    code = (
        "import sys; from deuz_proxy.sinks import telemetry; "
        "sys.exit(any(name.split('.')[0] == 'grpc' for name in sys.modules))"
    )
    result = subprocess.run([sys.executable, "-c", code], check=False, timeout=60)

    assert result.returncode == 0


class Failing(InMemorySpanExporter):
    def export(self, spans: object) -> SpanExportResult:
        return SpanExportResult.FAILURE


def two_of(offer: ReadableSpan) -> list[ReadableSpan]:
    return [offer, offer]


def test_delivered_and_failed_offers_are_counted() -> None:
    inner = InMemorySpanExporter()
    good, bad = CountedExporter(inner, two_of), CountedExporter(Failing(), two_of)
    batch = [ReadableSpan("a"), ReadableSpan("b")]

    good.export(batch)
    bad.export(batch)

    assert [span.name for span in inner.get_finished_spans()] == ["a", "a", "b", "b"]
    assert (good.delivered, good.failed) == (2, 0)
    assert (bad.delivered, bad.failed) == (0, 2)


def test_closed_exporter_refuses_without_trying() -> None:
    inner = InMemorySpanExporter()
    exporter = CountedExporter(inner, two_of)

    exporter.shutdown()
    exporter.shutdown()

    assert exporter.export([ReadableSpan("late")]) is SpanExportResult.FAILURE
    assert exporter.delivered == 0
    assert inner.get_finished_spans() == ()


class Recording(MetricExporter):
    def __init__(self) -> None:
        super().__init__()
        self.pictures: list[MetricsData] = []
        self.is_closed = False
        self.arrived = threading.Event()

    def export(
        self, metrics_data: MetricsData, timeout_millis: float = 1, **_: object
    ) -> MetricExportResult:
        self.pictures.append(metrics_data)
        self.arrived.set()
        if len(self.pictures) == 1:
            raise RuntimeError(names.SCOPE)
        return MetricExportResult.SUCCESS

    def shutdown(self, timeout_millis: float = 1, **_: object) -> None:
        self.is_closed = True

    def force_flush(self, timeout_millis: float = 1) -> bool:
        return True


def test_pusher_survives_a_failing_export_and_sends_a_last_picture() -> None:
    exporter = Recording()
    pusher = MetricPusher(lambda: MetricsData([]), exporter, 0.01)
    assert exporter.arrived.wait(10)

    pusher.close()

    assert len(exporter.pictures) >= 2
    assert exporter.is_closed
