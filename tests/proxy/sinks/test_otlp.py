import sys
from uuid import UUID

import pytest

from deuz_proxy.sinks.otlp import Target, Targets, resolve_targets, service_resource
from deuz_proxy.sinks.span_batches import BatchLimits

HERE = "http://collector:4318"
BASE = {"OTEL_EXPORTER_OTLP_ENDPOINT": HERE}


def traces(targets: Targets | None) -> Target:
    assert targets is not None
    assert targets.traces is not None
    return targets.traces


def test_nothing_is_sent_without_an_endpoint() -> None:
    assert resolve_targets({}) is None
    assert resolve_targets({"OTEL_SERVICE_NAME": "x"}, endpoint="") is None


def metrics(targets: Targets | None) -> Target:
    assert targets is not None
    assert targets.metrics is not None
    return targets.metrics


def test_environment_s_endpoint_serves_both_signals_below_it() -> None:
    targets = resolve_targets({"OTEL_EXPORTER_OTLP_ENDPOINT": f"{HERE}/"})

    assert traces(targets).url == f"{HERE}/v1/traces"
    assert metrics(targets).url == f"{HERE}/v1/metrics"


def test_configured_endpoint_goes_before_the_environment_s() -> None:
    said = BASE | {"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://own:1/x"}

    targets = resolve_targets(said, endpoint="http://mine:1")

    assert traces(targets).url == "http://mine:1/v1/traces"


def test_one_signal_s_own_endpoint_is_the_whole_address() -> None:
    own = {"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://own:1/x"}

    targets = resolve_targets(BASE | own)

    assert traces(targets).url == "http://own:1/x"
    assert metrics(targets).url == f"{HERE}/v1/metrics"


def test_grpc_endpoint_has_no_path() -> None:
    assert traces(resolve_targets({}, endpoint=HERE, protocol="grpc")).url == HERE


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


@pytest.mark.parametrize(
    ("said", "seconds"), [("", 3.0), ("30", 30.0), ("nonsense", 3.0), ("-1", 3.0)]
)
def test_time_limit_is_short_unless_the_environment_says_otherwise(
    said: str, seconds: float
) -> None:
    targets = resolve_targets(BASE | {"OTEL_EXPORTER_OTLP_TIMEOUT": said})

    assert traces(targets).timeout_seconds == seconds


def test_headers_of_the_config_go_over_those_of_the_environment() -> None:
    said = BASE | {
        "OTEL_EXPORTER_OTLP_HEADERS": "X-Team=red%20one, x-key=theirs,broken"
    }

    targets = resolve_targets(said, headers={"X-Key": "ours"})

    assert traces(targets).headers == {"x-team": "red one", "x-key": "ours"}
    assert "ours" not in repr(targets)


def test_one_signal_s_own_variable_goes_before_that_for_both() -> None:
    said = BASE | {
        "OTEL_EXPORTER_OTLP_COMPRESSION": "GZIP",
        "OTEL_EXPORTER_OTLP_METRICS_COMPRESSION": "none",
        "OTEL_EXPORTER_OTLP_CERTIFICATE": "ca.pem",
        "OTEL_EXPORTER_OTLP_CLIENT_CERTIFICATE": "us.pem",
        "OTEL_EXPORTER_OTLP_CLIENT_KEY": "key.pem",
        "OTEL_EXPORTER_OTLP_TRACES_CLIENT_KEY": "own.pem",
    }

    targets = resolve_targets(said)

    assert traces(targets).compression == "gzip"
    assert metrics(targets).compression == "none"
    found = traces(targets)
    assert (found.certificate, found.client_certificate) == ("ca.pem", "us.pem")
    assert (found.client_key, metrics(targets).client_key) == ("own.pem", "key.pem")


@pytest.mark.parametrize(
    ("url", "said", "is_insecure"),
    [
        ("http://c:4317", "", True),
        ("http://c:4317", "false", False),
        ("https://c:4317", "", False),
        ("https://c:4317", "true", False),
        ("c:4317", "", False),
        ("c:4317", "True", True),
    ],
)
def test_grpc_is_secure_unless_the_address_or_the_environment_says_not(
    url: str, said: str, *, is_insecure: bool
) -> None:
    targets = resolve_targets(
        {"OTEL_EXPORTER_OTLP_INSECURE": said}, endpoint=url, protocol="grpc"
    )

    assert traces(targets).is_insecure is is_insecure


def test_environment_sets_the_limits_of_batches() -> None:
    targets = resolve_targets(BASE | {"OTEL_BSP_MAX_QUEUE_SIZE": "100"})

    assert targets is not None
    assert targets.batches == BatchLimits(5.0, 100, 100)


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

    attributes = service_resource("1.2")

    assert attributes["service.name"] == "deuz-sidecar"
    assert attributes["service.version"] == "1.2"


def test_environment_s_service_name_wins(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_SERVICE_NAME", "billing-sidecar")
    monkeypatch.setenv("OTEL_RESOURCE_ATTRIBUTES", "deployment.environment=prod")

    attributes = service_resource("1.2")

    assert attributes["service.name"] == "billing-sidecar"
    assert attributes["deployment.environment"] == "prod"


def test_an_instance_has_an_id_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    # Without one, replicas would overwrite each other's sums. The SDK makes it.
    monkeypatch.delenv("OTEL_RESOURCE_ATTRIBUTES", raising=False)

    instance = service_resource("1.2")["service.instance.id"]

    assert UUID(str(instance)).version == 4


def test_environment_s_instance_wins(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_RESOURCE_ATTRIBUTES", "service.instance.id=pod-1")

    assert service_resource("1.2")["service.instance.id"] == "pod-1"


@pytest.mark.parametrize("heavy", ["grpc", "requests", "google"])
def test_what_is_not_used_is_not_loaded(heavy: str) -> None:
    import subprocess

    code = (
        "import sys; from deuz_proxy.sinks import telemetry; "
        f"sys.exit(any(name.split('.')[0] == {heavy!r} for name in sys.modules))"
    )
    result = subprocess.run([sys.executable, "-c", code], check=False, timeout=60)

    assert result.returncode == 0
