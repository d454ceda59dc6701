import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import (
    ExportMetricsServiceRequest,
)
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
)
from opentelemetry.proto.resource.v1.resource_pb2 import Resource
from opentelemetry.proto.trace.v1.trace_pb2 import Span

from deuz_proxy.sinks.otlp_bytes import (
    ITEM,
    AttributeValue,
    Envelope,
    write_attributes,
    write_message,
    write_number,
    write_text,
    write_varint,
)
from deuz_testing.otlp import read_attributes

texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=300)
scalars = (
    texts
    | st.booleans()
    | st.integers(-(1 << 63), (1 << 63) - 1)
    | st.floats(allow_nan=False)
)
values = scalars | st.lists(texts, max_size=4).map(tuple)
said = st.dictionaries(texts, values, max_size=8)


def typed(value: object) -> tuple[type, object]:
    """Return the value so that True is not 1, and -0.0 not 0.0."""
    if isinstance(value, float):
        return float, struct.pack("<d", value)
    return type(value), value


@given(said)
def test_any_attributes_are_read_as_they_were_written(
    attributes: dict[str, AttributeValue],
) -> None:
    read = read_attributes(
        Resource.FromString(write_attributes(1, attributes)).attributes
    )

    listed = {k: list(v) if isinstance(v, tuple) else v for k, v in attributes.items()}
    assert list(read) == list(listed)
    assert [typed(v) for v in read.values()] == [typed(v) for v in listed.values()]


def test_attribute_that_is_not_known_is_left_off() -> None:
    written = write_attributes(1, {"a": None, "b": ""})

    assert read_attributes(Resource.FromString(written).attributes) == {"b": ""}


@pytest.mark.parametrize("number", [0, 1, 127, 128, 300, 16_383, 16_384, (1 << 64) - 1])
def test_number_is_read_as_it_was_written(number: int) -> None:
    span = Span.FromString(write_varint(10 << 3) + write_varint(number & 0xFFFF_FFFF))

    assert span.dropped_attributes_count == number & 0xFFFF_FFFF
    assert len(write_varint(number)) == max(1, -(-number.bit_length() // 7))


def test_what_the_protocol_takes_for_granted_is_not_written() -> None:
    assert write_text(5, "") == b""
    assert write_number(6, 0) == b""


def test_text_and_number_land_in_their_fields() -> None:
    span = Span.FromString(write_text(5, "größer") + write_number(6, 3))

    assert (span.name, span.kind) == ("größer", 3)


def test_spans_and_metrics_have_the_same_envelope() -> None:
    envelope = Envelope({"service.name": "x"}, "scope", "1.2")
    items = [write_message(ITEM, write_text(5, name)) for name in ("a", "b")]

    spans = ExportTraceServiceRequest.FromString(envelope.seal(items)).resource_spans
    named = envelope.seal([write_message(ITEM, write_text(1, "c"))])
    metrics = ExportMetricsServiceRequest.FromString(named).resource_metrics

    for (group,) in (spans, metrics):
        assert read_attributes(group.resource.attributes) == {"service.name": "x"}
    (scope_spans,), (scope_metrics,) = spans[0].scope_spans, metrics[0].scope_metrics
    assert [span.name for span in scope_spans.spans] == ["a", "b"]
    assert [metric.name for metric in scope_metrics.metrics] == ["c"]
    for scope in (scope_spans.scope, scope_metrics.scope):
        assert (scope.name, scope.version) == ("scope", "1.2")


def test_message_may_be_long() -> None:
    resource = Resource.FromString(write_message(1, write_text(1, "k" * 40_000)))

    assert resource.attributes[0].key == "k" * 40_000
