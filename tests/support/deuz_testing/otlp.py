"""Collectors for tests: one that keeps what it gets, and one that never answers."""

import gzip
import logging
import socket
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import (
    ExportMetricsServiceRequest,
)
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
)
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue
from opentelemetry.proto.metrics.v1.metrics_pb2 import Metric
from opentelemetry.proto.trace.v1.trace_pb2 import Span

from deuz_testing.ports import free_port


@dataclass
class Collector:
    """What arrived, newest last; `headers` are those of the last request."""

    endpoint: str = ""
    traces: list[ExportTraceServiceRequest] = field(default_factory=list)
    metrics: list[ExportMetricsServiceRequest] = field(default_factory=list)
    headers: dict[str, str] = field(default_factory=dict)
    arrived: threading.Event = field(default_factory=threading.Event)

    def spans(self) -> list[Span]:
        """Return every span that arrived."""
        return [
            span
            for request in self.traces
            for resource in request.resource_spans
            for scope in resource.scope_spans
            for span in scope.spans
        ]

    def resource(self) -> dict[str, object]:
        """Return the attributes of the newest resource."""
        return read_attributes(self.traces[-1].resource_spans[0].resource.attributes)

    def last_metrics(self) -> dict[str, Metric]:
        """Return the newest picture, by metric name."""
        return {
            metric.name: metric
            for resource in self.metrics[-1].resource_metrics
            for scope in resource.scope_metrics
            for metric in scope.metrics
        }

    def take(self, path: str, headers: dict[str, str], body: bytes) -> None:
        """Keep one request."""
        if headers.get("content-encoding") == "gzip":
            body = gzip.decompress(body)
        self.headers = headers
        if path == "/v1/traces":
            self.traces.append(ExportTraceServiceRequest.FromString(body))
        elif path == "/v1/metrics":
            self.metrics.append(ExportMetricsServiceRequest.FromString(body))
        self.arrived.set()


@contextmanager
def running_collector(answer_status: int = 200) -> Iterator[Collector]:
    """Listen for OTLP over HTTP on a free port of the loopback."""
    collector = Collector()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            headers = {key.lower(): value for key, value in self.headers.items()}
            collector.take(self.path, headers, body)
            self.send_response(answer_status)
            self.send_header("content-length", "0")
            self.end_headers()

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002
            """Keep the tests' output quiet."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
    thread.start()
    collector.endpoint = f"http://127.0.0.1:{server.server_port}"
    try:
        yield collector
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


@contextmanager
def silent_collector() -> Iterator[str]:
    """Accept connections and never answer; yields the endpoint."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        # The kernel accepts for us: connected, and then nothing.
        listener.listen(64)
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"


def refusing_endpoint() -> str:
    """Return an endpoint whose port refuses connections."""
    return f"http://127.0.0.1:{free_port()}"


@contextmanager
def heard_at_root() -> Iterator[list[logging.LogRecord]]:
    """Collect what reaches the root logger's handlers, as an operator's log would.

    Not `caplog`: that one listens to loggers that do not propagate as well.
    """
    heard: list[logging.LogRecord] = []

    class Keep(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            heard.append(record)

    handler = Keep()
    root = logging.getLogger()
    root.addHandler(handler)
    try:
        yield heard
    finally:
        root.removeHandler(handler)


def text_of(records: list[logging.LogRecord]) -> str:
    """Return the records as a log would show them, tracebacks included."""
    return "\n".join(logging.Formatter().format(record) for record in records)


def read_attributes(pairs: Iterable[KeyValue]) -> dict[str, object]:
    """Return protobuf attributes as plain values."""
    return {pair.key: _plain(pair.value) for pair in pairs}


def _plain(value: AnyValue) -> object:
    kind = value.WhichOneof("value")
    if kind == "array_value":
        return [_plain(item) for item in value.array_value.values]
    return getattr(value, kind) if kind else None
