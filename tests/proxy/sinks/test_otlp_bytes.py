import random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from opentelemetry.exporter.otlp.proto.common.trace_encoder import (
    encode_spans as encode_by_sdk,
)
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
)
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import Event, ReadableSpan
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from opentelemetry.trace import SpanContext, SpanKind, Status, StatusCode

from deuz_proxy.observe import names
from deuz_proxy.sinks.otlp_bytes import encode_spans
from deuz_proxy.sinks.spans import SpanBuilder
from deuz_testing.events import compiled, finished, overflown

RESOURCE = Resource({"service.name": "deuz-sidecar", "service.version": "1.2"}, "url")
SCOPE = InstrumentationScope(names.SCOPE, "1.2", "scope-url", {"a": "b"})
BUILDER = SpanBuilder(RESOURCE, SCOPE, names.NEWEST, random.Random(3).getrandbits)

texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=300)
scalars = (
    texts
    | st.booleans()
    | st.integers(-(1 << 63), (1 << 63) - 1)
    | st.floats(allow_nan=False)
)
attributes = st.dictionaries(
    texts.filter(bool), scalars | st.lists(texts, max_size=4).map(tuple), max_size=8
)
times = st.integers(0, (1 << 64) - 1)
contexts = st.builds(
    SpanContext,
    st.integers(1, (1 << 128) - 1),
    st.integers(1, (1 << 64) - 1),
    st.booleans(),
)
spans = st.builds(
    ReadableSpan,
    name=texts,
    context=contexts,
    parent=st.none() | contexts,
    resource=st.sampled_from([RESOURCE, Resource({})]),
    attributes=attributes,
    events=st.lists(st.builds(Event, texts, attributes, times), max_size=3),
    kind=st.sampled_from(SpanKind),
    status=st.sampled_from(StatusCode).map(Status),
    start_time=times,
    end_time=times,
    instrumentation_scope=st.sampled_from([SCOPE, None]),
)


def parsed(raw: bytes) -> ExportTraceServiceRequest:
    request = ExportTraceServiceRequest()
    request.ParseFromString(raw)
    return request


@pytest.mark.parametrize(
    "event",
    [finished(), finished(status=502, outcome="truncated"), overflown()],
    ids=["ok", "truncated", "overflown"],
)
def test_request_s_spans_are_what_the_sdk_would_send(event: object) -> None:
    made = BUILDER.build(finished(compile=compiled())) + BUILDER.build(event)  # type: ignore[arg-type]  # Of three kinds.

    assert parsed(encode_spans(made)) == encode_by_sdk(made)


@given(st.lists(spans, max_size=1))
def test_any_span_is_what_the_sdk_would_send(some: list[ReadableSpan]) -> None:
    assert parsed(encode_spans(some)) == encode_by_sdk(some)


def test_spans_of_one_resource_and_scope_share_a_group() -> None:
    made = BUILDER.build(overflown(compile=compiled()))

    request = ExportTraceServiceRequest()
    request.ParseFromString(encode_spans(made))

    assert [len(group.scope_spans) for group in request.resource_spans] == [1]
    assert len(request.resource_spans[0].scope_spans[0].spans) == 5
