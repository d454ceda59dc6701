from collections.abc import Iterator
from concurrent import futures
from dataclasses import replace
from pathlib import Path

import grpc  # type: ignore[import-untyped]  # It has no stubs.
import pytest

from deuz_proxy.sinks.otlp import Target
from deuz_proxy.sinks.otlp_grpc import GrpcWay
from deuz_proxy.sinks.otlp_send import Outcome
from deuz_testing.otlp import refusing_endpoint
from deuz_testing.tls import certificate

__all__ = ["certificate"]

THROUGH = Outcome(is_through=True)
TRACES = "/opentelemetry.proto.collector.trace.v1.TraceService/Export"
METRICS = "/opentelemetry.proto.collector.metrics.v1.MetricsService/Export"


class Collector(grpc.GenericRpcHandler):  # type: ignore[misc]  # It has no stubs.
    """Keeps what was called with which metadata and bytes; ends calls with `code`."""

    def __init__(self) -> None:
        self.heard: list[tuple[str, dict[str, str], bytes]] = []
        self.code: grpc.StatusCode | None = None
        self.port = 0
        self.secure_port = 0

    def service(self, details: grpc.HandlerCallDetails) -> grpc.RpcMethodHandler:
        def answer(body: bytes, context: grpc.ServicerContext) -> bytes:
            metadata = dict(details.invocation_metadata)
            self.heard.append((details.method, metadata, body))
            if self.code is not None:
                context.abort(self.code, "CANARY")
            return b""

        return grpc.unary_unary_rpc_method_handler(answer)


@pytest.fixture
def collector(certificate: Path) -> Iterator[Collector]:
    kept = Collector()
    server = grpc.server(futures.ThreadPoolExecutor(max_workers=1))
    server.add_generic_rpc_handlers((kept,))
    pair = [(certificate / name).read_bytes() for name in ("key.pem", "cert.pem")]
    kept.port = server.add_insecure_port("127.0.0.1:0")
    credentials = grpc.ssl_server_credentials([tuple(pair)])
    kept.secure_port = server.add_secure_port("localhost:0", credentials)
    server.start()
    yield kept
    server.stop(None).wait()


def target(port: int) -> Target:
    return Target("traces", "grpc", f"http://127.0.0.1:{port}", is_insecure=True)


def attempt(to: Target, body: bytes = b"") -> Outcome:
    way = GrpcWay(to)
    try:
        return way.attempt(body, 30)
    finally:
        way.close()


@pytest.mark.parametrize("scheme", ["http://", ""])
def test_bytes_arrive_as_they_were_written(collector: Collector, scheme: str) -> None:
    to = replace(target(0), url=f"{scheme}127.0.0.1:{collector.port}")

    assert attempt(to, b"\x00not a message") == THROUGH
    method, _, body = collector.heard[0]
    assert (method, body) == (TRACES, b"\x00not a message")


def test_metrics_have_a_method_of_their_own(collector: Collector) -> None:
    assert attempt(replace(target(collector.port), signal="metrics")) == THROUGH
    assert collector.heard[0][0] == METRICS


def test_headers_and_compression_go_along(collector: Collector) -> None:
    to = replace(target(collector.port), headers={"x-key": "s"}, compression="gzip")

    assert attempt(to, b"x" * 999) == THROUGH
    _, metadata, body = collector.heard[0]
    assert metadata["x-key"] == "s"
    assert body == b"x" * 999


@pytest.mark.parametrize(
    ("code", "is_passing"),
    [
        (grpc.StatusCode.UNAVAILABLE, True),
        (grpc.StatusCode.RESOURCE_EXHAUSTED, True),
        (grpc.StatusCode.UNAUTHENTICATED, False),
        (grpc.StatusCode.INVALID_ARGUMENT, False),
    ],
)
def test_status_says_whether_it_is_passing(
    collector: Collector, code: grpc.StatusCode, *, is_passing: bool
) -> None:
    collector.code = code

    outcome = attempt(target(collector.port))

    assert outcome == Outcome(is_through=False, word=code.name, is_passing=is_passing)


def test_collector_that_cannot_be_reached_is_passing_and_is_found_when_it_is_there(
    collector: Collector,
) -> None:
    way = GrpcWay(replace(target(0), url=refusing_endpoint()))
    first = way.attempt(b"", 30)
    assert (first.word, first.is_passing) == ("UNAVAILABLE", True)

    collector.code = grpc.StatusCode.UNAVAILABLE
    back = GrpcWay(target(collector.port))
    assert not back.attempt(b"", 30).is_through
    collector.code = None

    # At once: a channel that failed would rest for a second first.
    assert back.attempt(b"", 0.5) == THROUGH
    way.close()
    back.close()


def test_certificate_of_the_config_proves_the_collector(
    collector: Collector, certificate: Path
) -> None:
    url = f"https://localhost:{collector.secure_port}"
    secure = replace(target(0), url=url, is_insecure=False)
    trusting = replace(secure, certificate=str(certificate / "cert.pem"))

    assert attempt(trusting, b"spans") == THROUGH
    assert not attempt(secure, b"spans").is_through
    assert [body for _, _, body in collector.heard] == [b"spans"]


def test_missing_certificate_is_an_outcome() -> None:
    missing = replace(target(9), is_insecure=False, certificate="/nowhere.pem")

    assert attempt(missing) == Outcome(is_through=False, word="FileNotFoundError")
