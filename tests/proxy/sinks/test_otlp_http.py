import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
)
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SpanExportResult
from opentelemetry.trace import SpanContext

from deuz_proxy.sinks.otlp_http import LeanSpanExporter

SPAN = ReadableSpan("chat x", context=SpanContext(1, 2, is_remote=False))


class Collector(HTTPServer):
    status = 200

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Answer)
        self.bodies: list[bytes] = []


class Answer(BaseHTTPRequestHandler):
    server: Collector

    def do_POST(self) -> None:  # The library's name.
        length = int(self.headers["content-length"])
        self.server.bodies.append(self.rfile.read(length))
        self.send_response(self.server.status)
        self.end_headers()

    def log_message(self, *_: object) -> None:
        """Stay quiet."""


@pytest.fixture
def collector() -> Iterator[Collector]:
    with Collector() as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield server
        server.shutdown()
        thread.join()


def url(collector: Collector) -> str:
    return f"http://127.0.0.1:{collector.server_port}/v1/traces"


def test_spans_arrive_as_a_request_of_the_protocol(collector: Collector) -> None:
    exporter = LeanSpanExporter(url(collector), timeout=30)

    result = exporter.export([SPAN])
    exporter.shutdown()  # type: ignore[no-untyped-call]  # The SDK's.

    assert result is SpanExportResult.SUCCESS
    request = ExportTraceServiceRequest()
    request.ParseFromString(collector.bodies[0])
    (span,) = request.resource_spans[0].scope_spans[0].spans
    assert span.name == "chat x"


def test_refused_batch_has_failed(collector: Collector) -> None:
    collector.status = 400
    exporter = LeanSpanExporter(url(collector), timeout=30)

    assert exporter.export([SPAN]) is SpanExportResult.FAILURE
    exporter.shutdown()  # type: ignore[no-untyped-call]  # The SDK's.


def test_sdk_still_has_the_client_that_is_used() -> None:
    exporter = OTLPSpanExporter("http://127.0.0.1:9/v1/traces", timeout=1)

    assert callable(exporter._client.export)
    exporter.shutdown()  # type: ignore[no-untyped-call]  # The SDK's.


def test_sdk_encodes_where_its_client_has_another_name(collector: Collector) -> None:
    exporter = LeanSpanExporter(url(collector), timeout=30)
    sender = exporter._client
    del exporter._client

    with pytest.raises(AttributeError):
        # The SDK's own way is taken, and it looks for its client.
        exporter.export([SPAN])
    sender.shutdown()
