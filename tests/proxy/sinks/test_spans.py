import random
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from opentelemetry.trace import SpanKind, StatusCode

from deuz_compiler import Verdict
from deuz_proxy.observe import names
from deuz_proxy.observe.events import Placement, RequestFinished
from deuz_proxy.sinks.spans import SpanBuilder, SpanSink
from deuz_testing.events import (
    STARTED_AT,
    TRACE,
    compiled,
    finished,
    overflown,
    started,
)

BUILDER = SpanBuilder(
    Resource({}),
    InstrumentationScope(names.SCOPE),
    names.NEWEST,
    random.Random(3).getrandbits,
)


def spans_of(event: RequestFinished) -> dict[str, ReadableSpan]:
    return {span.name: span for span in BUILDER.build(event)}


def server_of(event: RequestFinished) -> ReadableSpan:
    return BUILDER.build(event)[-1]


def span_id(span: ReadableSpan) -> int:
    context = span.get_span_context()
    assert context is not None
    return context.span_id


def parent_id(span: ReadableSpan) -> int:
    assert span.parent is not None
    return span.parent.span_id


def test_server_span_continues_the_caller_s_trace() -> None:
    span = server_of(finished())

    assert span.name == "POST /v1/chat/completions"
    assert span.kind is SpanKind.SERVER
    assert span.context is not None
    assert span.context.trace_id == TRACE.trace_id
    assert span_id(span) == TRACE.server_span_id
    assert parent_id(span) == TRACE.parent_span_id
    assert span.parent is not None
    assert span.parent.is_remote


def test_request_without_a_caller_s_trace_has_a_root_span() -> None:
    assert server_of(finished(trace=replace(TRACE, parent_span_id=0))).parent is None


def test_call_is_below_the_server_span_with_the_id_the_upstream_was_told() -> None:
    call = spans_of(finished())["chat gpt-x"]

    assert call.kind is SpanKind.CLIENT
    assert span_id(call) == TRACE.client_span_id
    assert parent_id(call) == TRACE.server_span_id


def test_compile_is_an_internal_child() -> None:
    span = spans_of(finished(compile=compiled()))["deuz.context.compile"]

    assert span.kind is SpanKind.INTERNAL
    assert parent_id(span) == TRACE.server_span_id
    assert span.start_time == pytest.approx((STARTED_AT + 0.1) * 1e9, abs=1e3)


def test_spans_cover_the_time_that_things_took() -> None:
    spans = spans_of(finished())
    server, call = spans["POST /v1/chat/completions"], spans["chat gpt-x"]

    assert server.start_time == STARTED_AT * 1e9
    assert server.end_time == (STARTED_AT + 2) * 1e9
    assert call.start_time == (STARTED_AT + 0.25) * 1e9
    assert call.end_time == pytest.approx((STARTED_AT + 1.95) * 1e9, abs=1e3)


def test_recovered_request_has_a_span_for_each_call_with_an_id_of_its_own() -> None:
    spans = BUILDER.build(overflown(compile=compiled()))

    assert [span.name for span in spans] == [
        "deuz.context.compile",
        "chat gpt-x",
        "chat mini",
        "chat gpt-x",
        "POST /v1/chat/completions",
    ]
    assert len({span_id(span) for span in spans}) == 5


def test_only_the_call_that_answered_has_the_usage() -> None:
    rejected, summary, retry = BUILDER.build(overflown())[:3]

    name = "gen_ai.usage.output_tokens"
    counts = [(span.attributes or {}).get(name) for span in (rejected, summary, retry)]
    assert counts == [None, 70, 50]


def test_refused_request_has_no_call() -> None:
    event = finished(outcome="refused", status=503, upstream_calls=())

    assert [span.kind for span in BUILDER.build(event)] == [SpanKind.SERVER]


@pytest.mark.parametrize("trace", [None, replace(TRACE, is_sampled=False)])
def test_unsampled_request_makes_no_span(trace: Any) -> None:
    assert BUILDER.build(finished(trace=trace, compile=compiled())) == ()


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({}, StatusCode.UNSET),
        ({"status": 404, "outcome": "upstream_error"}, StatusCode.UNSET),
        ({"status": 502, "outcome": "upstream_error"}, StatusCode.ERROR),
        ({"outcome": "truncated"}, StatusCode.ERROR),
        ({"outcome": "client_closed"}, StatusCode.UNSET),
    ],
)
def test_server_span_failed_when_the_server_did(
    changes: dict[str, object], code: StatusCode
) -> None:
    assert server_of(finished(**changes)).status.status_code is code


def test_torn_stream_fails_the_call_and_a_complete_one_does_not() -> None:
    torn = spans_of(finished(outcome="truncated"))["chat gpt-x"]
    complete = spans_of(finished())["chat gpt-x"]

    assert torn.status.status_code is StatusCode.ERROR
    assert complete.status.status_code is StatusCode.UNSET


def test_verdict_overflow_and_compaction_are_events_of_the_server_span() -> None:
    verdict = Verdict("broken", "tools", "tool_added", "client", lost_tokens=7)

    span = server_of(overflown(verdict=verdict))

    said = {event.name: dict(event.attributes or {}) for event in span.events}
    assert said["deuz.prefix.verdict"]["cause"] == "tool_added"
    assert said["deuz.overflow"] == {
        "stage": "rejected",
        "outcome": "recovered",
        "limit_tokens": 8_000,
        "requested_tokens": 9_500,
    }
    assert said["deuz.compaction"] == {
        "layer": "prune-tool-results",
        "trigger": "overflow",
        "tokens_before": 9_500,
        "tokens_after": 6_000,
    }


@pytest.mark.parametrize(
    "outcome", ["ok", "client_closed", "truncated", "upstream_error", "refused"]
)
def test_each_outcome_ends_with_exactly_one_server_span(outcome: str) -> None:
    offers = InMemorySpanExporter()
    sink = SpanSink(SimpleSpanProcessor(offers))

    sink(started())
    sink(finished(outcome=outcome))

    (offer,) = offers.get_finished_spans()
    servers = [s for s in BUILDER.made_of(offer) if s.kind is SpanKind.SERVER]
    assert len(servers) == 1
    assert (servers[0].attributes or {})["deuz.outcome"] == outcome
    assert servers[0].end_time
    assert sink.offered == 1


@pytest.mark.parametrize("trace", [None, replace(TRACE, is_sampled=False)])
def test_unsampled_request_is_not_offered(trace: Any) -> None:
    offers = InMemorySpanExporter()
    sink = SpanSink(SimpleSpanProcessor(offers))

    sink(finished(trace=trace))

    assert offers.get_finished_spans() == ()
    assert sink.offered == 0


def test_what_is_no_offer_makes_no_spans() -> None:
    assert BUILDER.made_of(ReadableSpan("other")) == ()


ALLOWED = {
    SpanKind.SERVER: names.SERVER_ATTRIBUTES,
    SpanKind.CLIENT: names.CLIENT_ATTRIBUTES,
    SpanKind.INTERNAL: names.COMPILE_ATTRIBUTES,
}


def is_allowed(kind: SpanKind, name: str) -> bool:
    is_source = name.startswith(names.SOURCE_PREFIX) and name.endswith(
        names.SOURCE_PARTS
    )
    return name in ALLOWED[kind] or (kind is SpanKind.INTERNAL and is_source)


def test_spans_have_attributes_of_the_catalogue_only() -> None:
    spans = BUILDER.build(overflown(compile=compiled(), passthrough="observe"))

    said = {(span.kind, name) for span in spans for name in span.attributes or {}}
    assert [name for kind, name in said if not is_allowed(kind, name)] == []


# Strings that spans may show: names, ids made by us, and words of closed sets.
SHOWN = {
    "request_id",
    "route",
    "upstream",
    "wire",
    "mode",
    "model",
    "response_model",
    "response_id",
    "outcome",
    "passthrough",
    "conversation",
    "usage_status",
    "server_address",
    "purpose",
    "verdict",
    "segment",
    "cause",
    "owner",
    "stage",
    "layer",
    "trigger",
    "refresh_reason",
    "fallback",
    "estimator",
    "manifest_digest",
}


def canaried(value: Any, name: str = "") -> Any:
    """Return the value with a canary in every string that spans may not show."""
    if isinstance(value, str):
        return value if name in SHOWN else f"CANARY {name}"
    if isinstance(value, tuple):
        return tuple(canaried(item, name) for item in value)
    if isinstance(value, msgspec.Struct):
        changes = {
            name: canaried(getattr(value, name), name)
            for name in value.__struct_fields__
        }
        return replace(value, **changes)
    return value


def test_string_that_no_rule_allows_is_in_no_span() -> None:
    """A new field with text would have to be named above before it can get out."""
    placed = Placement(1, ("record-9",), 30, True)
    event = overflown(compile=compiled(), error="x", placements=(placed,))

    spans = BUILDER.build(canaried(event))

    assert len(spans) == 5
    shown = "".join(span.to_json() for span in spans)
    assert "CANARY" not in shown
    assert "record-9" not in shown
