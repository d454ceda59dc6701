"""Finished requests become the bytes of their spans here.

Rules:
- Spans are made once, when the request is over: nothing is left open by a client that
  goes away, and ids are those that the request had from its start.
- What many requests say alike is written once and remembered: `Served`, `Asked` and
  `Called` name all the fields that it may depend on. The rest is written for each.
- That memory is bounded: traffic that never repeats itself costs time, not space.

Source: opentelemetry-proto 1.x, trace.proto (field numbers).
"""

import struct
from dataclasses import dataclass
from functools import lru_cache
from operator import attrgetter
from typing import Any

from deuz_proxy.observe import names
from deuz_proxy.observe.events import Compile, RequestFinished, UpstreamCall
from deuz_proxy.observe.redact import shown_path
from deuz_proxy.observe.trace import NewId, nonzero_id
from deuz_proxy.sinks import attributes
from deuz_proxy.sinks.attributes import Asked, Called, Served
from deuz_proxy.sinks.otlp_bytes import (
    AttributeValue,
    Pieces,
    write_attributes,
    write_message,
    write_number,
    write_text,
    write_varint,
)
from deuz_proxy.sinks.own_attributes import (
    SPAN_ATTRIBUTES,
    add_own_call,
    add_own_request,
)

# Values of the fields that a class names, in its order.
Fields = tuple[Any, ...]
Values = tuple[AttributeValue | None, ...]

# An application has some dozens of kinds of requests; one takes a kilobyte.
_KINDS_KEPT = 256
_NANOSECONDS = 1e9
_FIRST_SERVER_ERROR = 500

_INTERNAL, _SERVER, _CLIENT = 1, 2, 3
_ERROR = 2
# Fields of a span, and of an event in it.
_NAME, _KIND, _EVENTS, _STATUS = 5, 6, 11, 15
_EVENT_NAME, _EVENT_ATTRIBUTES = 2, 3
_TIME_BYTES = 9

# Heads of ids: of 16 bytes, and of 8.
_TRACE_ID, _SPAN_ID, _PARENT_ID = b"\x0a\x10", b"\x12\x08", b"\x22\x08"
_pack_times = struct.Struct("<BQBQ").pack
# Flags: whether the parent is remote is known, and it is or is not.
_LOCAL = b"\x85\x01\x00\x01\x00\x00"
_REMOTE = b"\x85\x01\x00\x03\x00\x00"

_EVENT_KEYS = {
    names.VERDICT_EVENT: names.VERDICT_ATTRIBUTES,
    names.OVERFLOW_EVENT: names.OVERFLOW_ATTRIBUTES,
    names.COMPACTION_EVENT: names.COMPACTION_ATTRIBUTES,
}
_read_verdict = attrgetter(*names.VERDICT_ATTRIBUTES)
_read_overflow = attrgetter(*names.OVERFLOW_ATTRIBUTES)
_read_compaction = attrgetter(*names.COMPACTION_ATTRIBUTES)


@dataclass(frozen=True, slots=True)
class SpanWriter:
    """Writes the spans of requests. `new_id` makes the ids that no event has."""

    conventions: names.Conventions
    new_id: NewId

    def write(self, event: RequestFinished) -> tuple[bytes, ...]:
        """Return the spans of a sampled request, the server's span last."""
        trace = event.trace
        if trace is None or not trace.is_sampled:
            return ()
        trace_id = trace.trace_id.to_bytes(16, "big")
        server_id = _id(trace.server_span_id)
        spans = []
        if event.compile is not None:
            said = _below(server_id, trace_id, self._new_span_id())
            said.append(_compile(event.compile))
            spans.append(b"".join(said))
        answer = _answer_of(event.upstream_calls)
        asked = attributes.read_asked(event)
        for index, call in enumerate(event.upstream_calls):
            # The first call has the id that the upstream was told, if it was told one.
            span_id = self._new_span_id() if index else _id(trace.client_span_id)
            said = _below(server_id, trace_id, span_id)
            is_answer = call is answer
            called = attributes.read_called(call)
            times = _times(call.started_at, call.duration_seconds)
            said += times, _alike_calls(asked, called, is_answer)
            add_own_call(said, event, call, self.conventions, is_answer=is_answer)
            spans.append(b"".join(said))
        said = [_TRACE_ID, trace_id, _SPAN_ID, server_id]
        said += _caller(trace.parent_span_id)
        _add_server(said, event)
        spans.append(b"".join(said))
        return tuple(spans)

    def _new_span_id(self) -> bytes:
        return _id(nonzero_id(self.new_id, 64))


def _id(number: int) -> bytes:
    return number.to_bytes(8, "big")


def _below(server_id: bytes, trace_id: bytes, span_id: bytes) -> Pieces:
    """Return the start of a span whose parent is the server's."""
    return [_TRACE_ID, trace_id, _SPAN_ID, span_id, _PARENT_ID, server_id, _LOCAL]


def _caller(span_id: int) -> tuple[bytes, ...]:
    return (_PARENT_ID, _id(span_id), _REMOTE) if span_id else (_LOCAL,)


def _answer_of(calls: tuple[UpstreamCall, ...]) -> UpstreamCall | None:
    """Return the call whose answer went to the client: the last that is no summary."""
    for call in reversed(calls):
        if call.purpose != "summarize":
            return call
    return None


def _add_server(said: Pieces, event: RequestFinished) -> None:
    times = _times(event.at, event.duration_seconds)
    said += times, _alike_requests(attributes.read_served(event))
    add_own_request(said, event)
    # An event is told of at the end: the last eight bytes of the times.
    at = b"\x09" + times[-8:]
    if event.verdict is not None:
        head, judged = _event(names.VERDICT_EVENT, _read_verdict(event.verdict))
        said += head, at, judged
    for overflow in event.overflows:
        head, told = _event(names.OVERFLOW_EVENT, _read_overflow(overflow))
        said += head, at, told
    for layer in event.compactions:
        head, told = _event(names.COMPACTION_EVENT, _read_compaction(layer))
        said += head, at, told


def _compile(compiled: Compile) -> bytes:
    said = write_attributes(SPAN_ATTRIBUTES, attributes.compile_attributes(compiled))
    times = _times(compiled.started_at, compiled.duration_seconds)
    return times + _kind(names.COMPILE_SPAN, _INTERNAL, is_failed=False) + said


@lru_cache(maxsize=_KINDS_KEPT)
def _event(name: str, values: Values) -> tuple[bytes, bytes]:
    """Return what stands before an event's time, and what behind it."""
    told = dict(zip(_EVENT_KEYS[name], values, strict=True))
    said = write_text(_EVENT_NAME, name) + write_attributes(_EVENT_ATTRIBUTES, told)
    return write_varint(_EVENTS << 3 | 2) + write_varint(_TIME_BYTES + len(said)), said


@lru_cache(maxsize=_KINDS_KEPT)
def _alike_requests(fields: Fields) -> bytes:
    """Return what the server's spans of all requests with these fields have in common.

    By the HTTP conventions a client's mistake is no failure of the server.
    """
    served = Served(*fields)
    path = shown_path(served.path, served.upstream)
    name = f"{attributes.known_method(served.method)} {path}"
    is_failed = served.status >= _FIRST_SERVER_ERROR or served.outcome == "truncated"
    said = write_attributes(SPAN_ATTRIBUTES, attributes.server_attributes(served))
    return _kind(name, _SERVER, is_failed=is_failed) + said


@lru_cache(maxsize=_KINDS_KEPT)
def _alike_calls(
    asked_fields: Fields,
    called_fields: Fields,
    is_answer: bool,  # noqa: FBT001  # A cache's key.
) -> bytes:
    """Return what the spans of all calls with these fields have in common."""
    asked, called = Asked(*asked_fields), Called(*called_fields)
    error = attributes.call_error(asked, called, is_answer=is_answer)
    said = attributes.call_attributes(asked, called, is_answer=is_answer)
    name = attributes.call_name(asked, called)
    kind = _kind(name, _CLIENT, is_failed=error is not None)
    return kind + write_attributes(SPAN_ATTRIBUTES, said)


def _kind(name: str, kind: int, *, is_failed: bool) -> bytes:
    status = write_number(3, _ERROR) if is_failed else b""
    return b"".join(
        (
            write_text(_NAME, name),
            write_number(_KIND, kind),
            write_message(_STATUS, status),
        )
    )


def _times(started_at: float, seconds: float) -> bytes:
    started = int(started_at * _NANOSECONDS)
    ended = int((started_at + seconds) * _NANOSECONDS)
    return _pack_times(0x39, started, 0x41, ended)
