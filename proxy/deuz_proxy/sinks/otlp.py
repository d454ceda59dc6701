"""Where telemetry goes over OTLP: what config and environment say, resolved once.

Rules:
- Nothing is sent unless an endpoint is configured; `OTEL_SDK_DISABLED` overrules it.
- The configuration's endpoint goes before the environment's; what the usual `OTEL_*`
  variables say beside it counts, one signal's own before that for both.
- What cannot be read there is as if not set: telemetry must not keep us from starting.

Source: OpenTelemetry specification, "OTLP Exporter" and "SDK environment variables".
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal
from urllib.parse import urlsplit

from opentelemetry.sdk.resources import SERVICE_NAME, Resource
from opentelemetry.util.re import parse_env_headers

from deuz_proxy.sinks.otlp_bytes import AttributeValue
from deuz_proxy.sinks.span_batches import BatchLimits, batch_limits

Protocol = Literal["http/protobuf", "grpc"]
Signal = Literal["traces", "metrics"]

SERVICE = "deuz-sidecar"
# A collector is a neighbour: what takes longer than this will not come.
TIMEOUT_SECONDS = 3.0
_INTERVAL_SECONDS = 60.0  # The SDKs' own default.
_TEMPORALITY = "OTEL_EXPORTER_OTLP_METRICS_TEMPORALITY_PREFERENCE"


@dataclass(frozen=True, slots=True)
class Target:
    """Where one kind of telemetry goes, and how; an empty text is "not set"."""

    signal: Signal
    protocol: Protocol
    url: str
    timeout_seconds: float = TIMEOUT_SECONDS
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    compression: str = ""
    is_insecure: bool = True
    certificate: str = ""
    client_certificate: str = ""
    client_key: str = ""


@dataclass(frozen=True, slots=True)
class Targets:
    """Where spans and metrics go; None is "nowhere"."""

    traces: Target | None
    metrics: Target | None
    interval_seconds: float = _INTERVAL_SECONDS
    is_delta: bool = False
    batches: BatchLimits = field(default_factory=BatchLimits)


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
    configured = (endpoint or "", protocol)
    own = {name.lower(): value for name, value in (headers or {}).items()}
    traces = _target("traces", environment, configured, own)
    metrics = _target("metrics", environment, configured, own)
    if traces is None and metrics is None:
        return None
    preference = environment.get(_TEMPORALITY, "").strip().lower()
    is_delta = preference in ("delta", "lowmemory")
    interval = environment.get("OTEL_METRIC_EXPORT_INTERVAL", "")
    interval_seconds = _positive(interval, _INTERVAL_SECONDS * 1000) / 1000
    return Targets(
        traces,
        metrics,
        interval_seconds=interval_seconds,
        is_delta=is_delta,
        batches=batch_limits(environment),
    )


def service_resource(version: str) -> dict[str, AttributeValue]:
    """Return who we are: the environment's names, `deuz-sidecar` if it has none."""
    found = Resource.create({"service.version": version} if version else {})
    said: dict[str, AttributeValue] = {
        name: value if isinstance(value, str | bool | int | float) else str(value)
        for name, value in found.attributes.items()
    }
    if str(said.get(SERVICE_NAME, "")).startswith("unknown_service"):
        said[SERVICE_NAME] = SERVICE
    return said


def _target(
    signal: Signal,
    environment: Mapping[str, str],
    configured: tuple[str, Protocol],
    headers: dict[str, str],
) -> Target | None:
    if environment.get(f"OTEL_{signal.upper()}_EXPORTER", "").strip().lower() == "none":
        return None
    variables = _Variables(environment, signal)
    url, protocol = configured
    if not url:
        protocol = variables.protocol(protocol)
    url = variables.endpoint(url, protocol)
    if not url:
        return None
    return Target(
        signal,
        protocol,
        url,
        timeout_seconds=variables.timeout_seconds(),
        headers=variables.headers() | headers,
        compression=variables.read("COMPRESSION").lower(),
        is_insecure=_is_insecure(url, variables.read("INSECURE").lower()),
        certificate=variables.read("CERTIFICATE"),
        client_certificate=variables.read("CLIENT_CERTIFICATE"),
        client_key=variables.read("CLIENT_KEY"),
    )


@dataclass(frozen=True, slots=True)
class _Variables:
    """What the environment says of one signal's export."""

    environment: Mapping[str, str]
    signal: Signal

    def read(self, name: str) -> str:
        return self._own(name) or self._common(name)

    def endpoint(self, configured: str, protocol: Protocol) -> str:
        own = "" if configured else self._own("ENDPOINT")
        base = configured or self._common("ENDPOINT")
        # One signal's own address is complete, the one for both is where paths begin.
        if own or not base or protocol == "grpc":
            return own or base
        return f"{base.rstrip('/')}/v1/{self.signal}"

    def protocol(self, usual: Protocol) -> Protocol:
        said = self.read("PROTOCOL").lower()
        if not said:
            return usual
        return "grpc" if said == "grpc" else "http/protobuf"

    def headers(self) -> dict[str, str]:
        return dict(parse_env_headers(self.read("HEADERS"), liberal=True))

    def timeout_seconds(self) -> float:
        return _positive(self.read("TIMEOUT"), TIMEOUT_SECONDS)

    def _own(self, name: str) -> str:
        variable = f"OTEL_EXPORTER_OTLP_{self.signal.upper()}_{name}"
        return self.environment.get(variable, "").strip()

    def _common(self, name: str) -> str:
        return self.environment.get(f"OTEL_EXPORTER_OTLP_{name}", "").strip()


def _is_insecure(url: str, said: str) -> bool:
    """Return whether a gRPC channel is a plain one; an https address never is."""
    scheme = urlsplit(url).scheme
    if scheme == "https":
        return False
    return said == "true" if said else scheme == "http"


def _positive(said: str, usual: float) -> float:
    try:
        number = float(said)
    except ValueError:
        return usual
    return number if 0 < number < math.inf else usual
