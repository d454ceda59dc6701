"""The way to a collector over gRPC, by grpcio alone.

Rules:
- Loaded only where it is configured: grpcio takes 20 MB and starts threads of its own.
- What was written goes out as it is: no message is built from it again.

Source: OTLP specification 1.x, "OTLP/gRPC" (which statuses are passing).
"""

from pathlib import Path
from urllib.parse import urlsplit

import grpc  # type: ignore[import-untyped]  # It has no stubs.

from deuz_proxy.sinks.otlp import Target
from deuz_proxy.sinks.otlp_send import Outcome

_METHODS = {
    "traces": "/opentelemetry.proto.collector.trace.v1.TraceService/Export",
    "metrics": "/opentelemetry.proto.collector.metrics.v1.MetricsService/Export",
}
_PASSING = frozenset(
    {
        grpc.StatusCode.CANCELLED,
        grpc.StatusCode.DEADLINE_EXCEEDED,
        grpc.StatusCode.RESOURCE_EXHAUSTED,
        grpc.StatusCode.ABORTED,
        grpc.StatusCode.OUT_OF_RANGE,
        grpc.StatusCode.UNAVAILABLE,
        grpc.StatusCode.DATA_LOSS,
    }
)


class GrpcWay:
    """One channel to a collector."""

    def __init__(self, target: Target) -> None:
        self._target = target
        self._metadata = tuple(target.headers.items())
        self._channel: grpc.Channel | None = None

    def attempt(self, body: bytes, timeout_seconds: float) -> Outcome:
        """Call once; every failure is an outcome."""
        try:
            if self._channel is None:
                self._channel = _open_channel(self._target)
            # Without serializers bytes are taken and given.
            export = self._channel.unary_unary(_METHODS[self._target.signal])
            export(body, timeout=timeout_seconds, metadata=self._metadata)
        except grpc.RpcError as fault:
            code = fault.code()
            if code is grpc.StatusCode.UNAVAILABLE:
                # The channel would rest for longer and longer; a new one tries at once.
                self.close()
            return Outcome(
                is_through=False, word=code.name, is_passing=code in _PASSING
            )
        except (OSError, ValueError) as fault:
            return Outcome(is_through=False, word=type(fault).__name__)
        return Outcome(is_through=True)

    def close(self) -> None:
        """Close the channel; the next try opens another."""
        if self._channel is not None:
            self._channel.close()
            self._channel = None


def _open_channel(target: Target) -> grpc.Channel:
    url = urlsplit(target.url)
    address = url.netloc or target.url
    compression = (
        grpc.Compression.Gzip
        if target.compression == "gzip"
        else grpc.Compression.NoCompression
    )
    if target.is_insecure:
        return grpc.insecure_channel(address, compression=compression)
    return grpc.secure_channel(address, _credentials(target), compression=compression)


def _credentials(target: Target) -> grpc.ChannelCredentials:
    return grpc.ssl_channel_credentials(
        _read(target.certificate),
        _read(target.client_key),
        _read(target.client_certificate),
    )


def _read(path: str) -> bytes | None:
    return Path(path).read_bytes() if path else None
