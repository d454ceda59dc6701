"""Spans as the bytes of an OTLP request, written without objects in between.

Rules:
- The same request as the SDK's own encoder writes: a test compares them field by field.
- The SDK makes an object for each attribute, which is a quarter of the sidecar's time
  for a small request; most attributes are the same from span to span, so their bytes
  are remembered.

Source: opentelemetry-proto 1.x, trace.proto and common.proto (field numbers).
"""

import struct
from collections.abc import Iterable, Sequence
from functools import lru_cache

from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from opentelemetry.trace import SpanContext
from opentelemetry.util.types import Attributes, AttributeValue

# SpanFlags: the parent's remoteness is known; and: it is remote.
_KNOWS_REMOTE, _IS_REMOTE = 0x100, 0x200
_SHORT = 0x80
_FIXED64 = struct.Struct("<Q").pack
_FIXED32 = struct.Struct("<I").pack
_DOUBLE = struct.Struct("<d").pack
_UNSIGNED = (1 << 64) - 1


def encode_spans(spans: Sequence[ReadableSpan]) -> bytes:
    """Return an `ExportTraceServiceRequest` with these spans.

    Spans of one resource and scope that follow each other share one group.
    """
    groups: list[tuple[Resource, InstrumentationScope | None, list[bytes]]] = []
    for span in spans:
        resource, scope = span.resource, span.instrumentation_scope
        if not groups or groups[-1][:2] != (resource, scope):
            groups.append((resource, scope, []))
        groups[-1][2].append(_message(2, _span(span)))
    return b"".join(_message(1, _resource_spans(*group)) for group in groups)


def _resource_spans(
    resource: Resource, scope: InstrumentationScope | None, spans: Iterable[bytes]
) -> bytes:
    said = b""
    if scope is not None:
        said = _text(1, scope.name) + _text(2, scope.version or "")
        said += _attributes(3, scope.attributes)
    head = _message(1, said)
    tail = _text(3, (scope and scope.schema_url) or "")
    return b"".join(
        (
            _message(1, _attributes(1, resource.attributes)),
            _message(2, b"".join((head, *spans, tail))),
            _text(3, resource.schema_url or ""),
        )
    )


def _span(span: ReadableSpan) -> bytes:
    context, parent = span.context, span.parent
    if context is None:
        return b""
    pieces = [
        b"\x0a\x10" + context.trace_id.to_bytes(16, "big"),
        b"\x12\x08" + context.span_id.to_bytes(8, "big"),
        b"\x22\x08" + parent.span_id.to_bytes(8, "big") if parent else b"",
        _text(5, span.name),
        # The SDK counts kinds from 0, the protocol from 1.
        _number(6, span.kind.value + 1),
        b"\x39" + _FIXED64(span.start_time or 0),
        b"\x41" + _FIXED64(span.end_time or 0),
        _attributes(9, span.attributes),
    ]
    for event in span.events:
        said = b"\x09" + _FIXED64(event.timestamp) + _text(2, event.name)
        pieces.append(_message(11, said + _attributes(3, event.attributes)))
    pieces.append(_message(15, _number(3, span.status.status_code.value)))
    pieces.append(b"\x85\x01" + _FIXED32(_flags(parent)))
    return b"".join(pieces)


def _flags(parent: SpanContext | None) -> int:
    return _KNOWS_REMOTE | (_IS_REMOTE if parent and parent.is_remote else 0)


def _attributes(field: int, attributes: Attributes) -> bytes:
    pieces = []
    for key, value in (attributes or {}).items():
        # Numbers differ from span to span: they would only push the others out.
        encode = _remembered if type(value) is str else _attribute
        pieces.append(encode(field, key, value))
    return b"".join(pieces)


def _attribute(field: int, key: str, value: AttributeValue) -> bytes:
    return _message(field, _text(1, key) + _message(2, _value(value)))


_remembered = lru_cache(maxsize=4096)(_attribute)


def _value(value: AttributeValue) -> bytes:
    """Return an `AnyValue`. The empty text is a value too, and is written out."""
    if isinstance(value, str):
        raw = value.encode()
        return b"\x0a" + _varint(len(raw)) + raw
    if isinstance(value, bool):
        return b"\x10\x01" if value else b"\x10\x00"
    if isinstance(value, int):
        return b"\x18" + _varint(value & _UNSIGNED)
    if isinstance(value, float):
        return b"\x21" + _DOUBLE(value)
    # Nothing else is ever put into an attribute here but a list of such values.
    listed = value if isinstance(value, Sequence) else ()
    return _message(5, b"".join(_message(1, _value(each)) for each in listed))


def _message(field: int, content: bytes) -> bytes:
    return _varint(field << 3 | 2) + _varint(len(content)) + content


def _text(field: int, text: str) -> bytes:
    return _message(field, text.encode()) if text else b""


def _number(field: int, number: int) -> bytes:
    return _varint(field << 3) + _varint(number) if number else b""


def _varint(number: int) -> bytes:
    if number < _SHORT:
        return _ONE_BYTE[number]
    groups = bytearray()
    while number >= _SHORT:
        groups.append(number & 0x7F | _SHORT)
        number >>= 7
    groups.append(number)
    return bytes(groups)


_ONE_BYTE = tuple(bytes((number,)) for number in range(_SHORT))
