import asyncio
import random
import threading
from collections.abc import Iterator
from concurrent import futures

import grpc  # type: ignore[import-untyped]  # It has no stubs.
import pytest
from opentelemetry.proto.collector.trace.v1 import trace_service_pb2_grpc
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)

from deuz_proxy.observe import names
from deuz_proxy.observe.catalog import METRICS
from deuz_proxy.observe.events import RequestFinished
from deuz_proxy.sinks.families import Bounds
from deuz_proxy.sinks.otlp import Protocol, resolve_targets
from deuz_proxy.sinks.prometheus import PrometheusSink
from deuz_proxy.sinks.telemetry import Identity, Telemetry, open_telemetry
from deuz_testing.events import (
    PREDICTION,
    TRACE,
    compiled,
    finished,
    ledger_used,
    overflown,
)
from deuz_testing.otlp import (
    heard_at_root,
    read_attributes,
    refusing_endpoint,
    running_collector,
    silent_collector,
    text_of,
)
from deuz_testing.waiting import WAIT_SECONDS

GRACE_SECONDS = 1.0


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    for name in ("OTEL_SERVICE_NAME", "OTEL_RESOURCE_ATTRIBUTES"):
        monkeypatch.delenv(name, raising=False)
    yield
    # Exports that were abandoned end by themselves; the next test must not hear them.
    for thread in threading.enumerate():
        if thread.name.startswith("deuz-"):
            thread.join(WAIT_SECONDS)


class Exporting:
    """A sidecar's sinks, as the application would hold them."""

    def __init__(
        self,
        endpoint: str,
        *,
        conventions: names.Conventions = names.NEWEST,
        protocol: Protocol = "http/protobuf",
        **variables: str,
    ) -> None:
        self.prometheus = PrometheusSink(Bounds(frozenset({"chat"})))
        said = {"OTEL_BSP_SCHEDULE_DELAY": "20"} | variables
        targets = resolve_targets(said, endpoint=endpoint, protocol=protocol)
        assert targets is not None
        new_id = random.Random(1).getrandbits
        identity = Identity("0.1.0", new_id, conventions)
        self.telemetry: Telemetry = open_telemetry(targets, self.prometheus, identity)

    def tell(self, event: RequestFinished) -> None:
        self.prometheus(event)
        for listener in self.telemetry.listeners:
            listener(event)


def test_collector_gets_the_spans_of_a_request_in_one_trace() -> None:
    with running_collector() as collector:
        exporting = Exporting(collector.endpoint)
        exporting.tell(finished(compile=compiled()))

        counts = exporting.telemetry.close(WAIT_SECONDS)

    spans = {span.name: span for span in collector.spans()}
    server = spans["POST /v1/chat/completions"]
    assert set(spans) == {server.name, "chat gpt-x", "deuz.context.compile"}
    assert {span.trace_id.hex() for span in collector.spans()} == {
        f"{TRACE.trace_id:032x}"
    }
    assert server.parent_span_id.hex() == f"{TRACE.parent_span_id:016x}"
    assert spans["chat gpt-x"].parent_span_id == server.span_id
    assert spans["deuz.context.compile"].parent_span_id == server.span_id
    assert counts.undelivered == 0
    assert collector.resource()["service.name"] == "deuz-sidecar"


def test_compile_s_attributes_arrive() -> None:
    with running_collector() as collector:
        exporting = Exporting(collector.endpoint)
        exporting.tell(finished(compile=compiled()))
        exporting.telemetry.close(WAIT_SECONDS)

    (span,) = [s for s in collector.spans() if s.name == "deuz.context.compile"]
    said = read_attributes(span.attributes)
    assert said["deuz.context.selected"] == 1
    assert said["deuz.context.source.docs.tokens"] == 300


def test_gzip_and_headers_of_the_environment_are_used() -> None:
    with running_collector() as collector:
        exporting = Exporting(
            collector.endpoint,
            OTEL_EXPORTER_OTLP_COMPRESSION="gzip",
            OTEL_EXPORTER_OTLP_HEADERS="x-team=red",
        )
        exporting.tell(finished())
        exporting.telemetry.close(WAIT_SECONDS)

    assert collector.headers["content-encoding"] == "gzip"
    assert collector.headers["x-team"] == "red"
    assert collector.spans()


def test_spans_are_sent_while_the_process_runs() -> None:
    with running_collector() as collector:
        exporting = Exporting(collector.endpoint)
        exporting.tell(finished())

        assert collector.arrived.wait(WAIT_SECONDS)
        exporting.telemetry.close(WAIT_SECONDS)


def test_otlp_metrics_show_what_prometheus_shows() -> None:
    with running_collector() as collector:
        exporting = Exporting(collector.endpoint)
        exporting.tell(
            overflown(compile=compiled(), group="held_out", prediction=PREDICTION)
        )
        exporting.prometheus(ledger_used())
        exporting.telemetry.close(WAIT_SECONDS)

    metrics = collector.last_metrics()
    requests = metrics["deuz.requests"].sum
    assert requests.is_monotonic
    assert [point.as_double for point in requests.data_points] == [1.0]
    said = read_attributes(requests.data_points[0].attributes)
    assert said["outcome"] == "ok"
    quiet = {"deuz.faults", "deuz.prefix.breaks", "deuz.prefix.lost_tokens"}
    known = {metric.otlp for metric in METRICS}
    assert known - set(metrics) == quiet
    assert "gen_ai.client.inference.duration" in metrics


def test_older_names_leave_instead_of_the_newer_ones() -> None:
    with running_collector() as collector:
        exporting = Exporting(collector.endpoint, conventions=names.OLDER)
        exporting.tell(finished())
        exporting.telemetry.close(WAIT_SECONDS)

    exported = set(collector.last_metrics())
    assert {"gen_ai.client.token.usage", "gen_ai.client.operation.duration"} <= exported
    assert not [name for name in exported if name.startswith("gen_ai.client.inference")]


def test_without_metrics_target_nothing_listens_for_them() -> None:
    with running_collector() as collector:
        targets = resolve_targets(
            {"OTEL_METRICS_EXPORTER": "none"}, endpoint=collector.endpoint
        )
        assert targets is not None
        identity = Identity("", random.Random(1).getrandbits)
        telemetry = open_telemetry(targets, PrometheusSink(Bounds()), identity)
        telemetry.close(WAIT_SECONDS)

    assert len(telemetry.listeners) == 1
    assert collector.metrics == []


def test_without_traces_target_no_span_is_counted() -> None:
    with running_collector() as collector:
        targets = resolve_targets(
            {"OTEL_TRACES_EXPORTER": "none"}, endpoint=collector.endpoint
        )
        assert targets is not None
        identity = Identity("", random.Random(1).getrandbits)
        telemetry = open_telemetry(targets, PrometheusSink(Bounds()), identity)

        counts = telemetry.close(WAIT_SECONDS)

    assert counts.offered == 0
    assert collector.traces == []


async def _dead_collector_costs_nothing(endpoint: str) -> None:
    """Tell enough for several batches; who waits for one of them waits for minutes."""
    exporting = Exporting(endpoint, OTEL_EXPORTER_OTLP_TIMEOUT="600")
    event = finished(compile=compiled())

    async with asyncio.timeout(WAIT_SECONDS):
        for _ in range(2_000):
            exporting.tell(event)
            await asyncio.sleep(0)
        counts = await asyncio.to_thread(exporting.telemetry.close, GRACE_SECONDS)

    assert counts.offered == 2_000
    assert counts.delivered == 0
    assert counts.undelivered == 2_000


async def test_refusing_collector_costs_requests_nothing() -> None:
    await _dead_collector_costs_nothing(refusing_endpoint())


async def test_silent_collector_costs_requests_nothing() -> None:
    with silent_collector() as endpoint:
        await _dead_collector_costs_nothing(endpoint)


def test_queue_is_bounded_while_the_collector_is_silent() -> None:
    with silent_collector() as endpoint:
        exporting = Exporting(
            endpoint,
            OTEL_BSP_MAX_QUEUE_SIZE="100",
            OTEL_BSP_MAX_EXPORT_BATCH_SIZE="10",
        )
        for _ in range(500):
            exporting.tell(finished())

        assert exporting.telemetry._spans is not None
        # One batch is with the collector, taken from it early or late.
        assert 90 <= len(exporting.telemetry._spans._queue) <= 100
        exporting.telemetry.close(0.1)


def test_failing_collector_is_complained_of_briefly() -> None:
    with heard_at_root() as heard, running_collector(answer_status=400) as collector:
        exporting = Exporting(collector.endpoint)
        for _ in range(5):
            exporting.tell(finished(path="/v1/chat/completions?key=CANARY"))
            collector.arrived.clear()
            assert collector.arrived.wait(WAIT_SECONDS)

        counts = exporting.telemetry.close(WAIT_SECONDS)

    assert counts.failed == counts.offered == 5
    assert 1 <= len(heard) <= 2
    assert collector.endpoint not in text_of(heard)
    assert "CANARY" not in text_of(heard)


def test_grpc_collector_gets_spans() -> None:
    received: list[ExportTraceServiceRequest] = []
    arrived = threading.Event()

    class Service(trace_service_pb2_grpc.TraceServiceServicer):
        def Export(  # noqa: N802  # The protocol's name.
            self, request: ExportTraceServiceRequest, context: object
        ) -> ExportTraceServiceResponse:
            received.append(request)
            arrived.set()
            return ExportTraceServiceResponse()

    server = grpc.server(futures.ThreadPoolExecutor(max_workers=1))
    add_service = trace_service_pb2_grpc.add_TraceServiceServicer_to_server
    add_service(Service(), server)  # type: ignore[no-untyped-call]  # Generated code.
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    try:
        exporting = Exporting(f"http://127.0.0.1:{port}", protocol="grpc")
        exporting.tell(finished())
        assert arrived.wait(WAIT_SECONDS)
        exporting.telemetry.close(GRACE_SECONDS)
    finally:
        server.stop(None).wait()

    spans = received[0].resource_spans[0].scope_spans[0].spans
    assert {span.name for span in spans} == {"chat gpt-x", "POST /v1/chat/completions"}
