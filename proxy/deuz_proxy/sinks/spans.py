"""Finished requests become the bytes of their spans here.

Rules:
- Spans are made once, when the request is over: nothing is left open by a client that
  goes away, and ids are those that the request had from its start.
- What many requests say alike is written once and remembered: `Served`, `Asked` and
  `Called` name all the fields that it may depend on. The rest is written for each.
- That memory is bounded: traffic that never repeats itself costs time, not space.

Source: opentelemetry-proto 1.x, trace.proto (field numbers).
"""

from dataclasses import dataclass
from functools import lru_cache
from operator import attrgetter
from typing import Any

from deuz_proxy.observe import names
from deuz_proxy.observe.events import Compile, RequestFinished
from deuz_proxy.observe.redact import shown_path
from deuz_proxy.observe.trace import NewId, nonzero_id
from deuz_proxy.sinks import attributes
from deuz_proxy.sinks.attributes import Asked, Called
from deuz_proxy.sinks.otlp_bytes import (
    AttributeValue,
    write_attributes,
    write_message,
    write_number,
    write_text,
    write_varint,
)
from deuz_proxy.sinks.own_attributes import (
    CALL_KEYS,
    REQUEST_KEYS,
    own_call,
    own_request,
)
from deuz_proxy.sinks.span_items import SPAN_ATTRIBUTES, Events, Ids, WriteItem

# Values of the fields that a class names, in its order.
Fields = tuple[Any, ...]
Values = tuple[AttributeValue | None, ...]

# An application has some dozens of kinds of requests; one takes a kilobyte.
_KINDS_KEPT = 256
_FIRST_SERVER_ERROR = 500

_INTERNAL, _SERVER, _CLIENT = 1, 2, 3
_ERROR = 2
# Fields of a span, and of an event in it.
_NAME, _KIND, _EVENTS, _STATUS = 5, 6, 11, 15
_EVENT_NAME, _EVENT_ATTRIBUTES = 2, 3
_TIME_BYTES = 9

# Flags: whether the parent is remote is known, and it is or is not.
_LOCAL = b"\x85\x01\x00\x01\x00\x00"
_REMOTE = b"\x85\x01\x00\x03\x00\x00"

_EVENT_KEYS = {
    names.VERDICT_EVENT: names.VERDICT_ATTRIBUTES,
    names.OVERFLOW_EVENT: names.OVERFLOW_ATTRIBUTES,
    names.COMPACTION_EVENT: names.COMPACTION_ATTRIBUTES,
}
_read_overflow = attrgetter(*names.OVERFLOW_ATTRIBUTES)
_read_compaction = attrgetter(*names.COMPACTION_ATTRIBUTES)


@dataclass(frozen=True, slots=True, eq=False)
class _Alike:
    """What requests have in common: what their own spans say, and their calls' part."""

    server: bytes
    asked: Asked


@dataclass(frozen=True, slots=True)
class SpanWriter:
    """Writes the spans of requests. `new_id` makes the ids that no event has."""

    conventions: names.Conventions
    new_id: NewId
    write_item: WriteItem

    def write(self, event: RequestFinished) -> bytes:
        """Return a request's spans as an envelope's items, the server's span last.

        There is none of one that is not sampled.
        """
        trace = event.trace
        if trace is None or not trace.is_sampled:
            return b""
        alike = _alike_requests(attributes.read_alike(event))
        trace_id = trace.trace_id.to_bytes(16, "big")
        server_id, write_item = trace.server_span_id, self.write_item
        items: list[bytes] = []
        if event.compile is not None:
            ids = trace_id, self._new_span_id(), server_id, _LOCAL
            items.append(self._compiled(event.compile, ids))
        keys = CALL_KEYS[self.conventions.cache_write]
        answer = event.answer
        # The first call has the id that the upstream was told, if it was told one.
        span_id = trace.client_span_id
        for call in event.upstream_calls:
            is_answer = call is answer
            ids = trace_id, span_id or self._new_span_id(), server_id, _LOCAL
            times = call.started_at, call.duration_seconds
            said = _alike_calls(alike, attributes.read_called(call), is_answer)
            own = keys, own_call(event, call, is_answer=is_answer)
            items.append(write_item(ids, times, said, own, ()))
            span_id = 0
        above = trace.parent_span_id
        ids = trace_id, server_id, above, _REMOTE if above else _LOCAL
        times = event.at, event.duration_seconds
        own = REQUEST_KEYS, own_request(event)
        items.append(write_item(ids, times, alike.server, own, _events(event)))
        return b"".join(items)

    def _compiled(self, compiled: Compile, ids: Ids) -> bytes:
        said = attributes.compile_attributes(compiled)
        alike = _kind(names.COMPILE_SPAN, _INTERNAL, is_failed=False)
        alike += write_attributes(SPAN_ATTRIBUTES, said)
        times = compiled.started_at, compiled.duration_seconds
        return self.write_item(ids, times, alike, ((), ()), ())

    def _new_span_id(self) -> int:
        return nonzero_id(self.new_id, 64)


def _events(event: RequestFinished) -> Events:
    verdict = event.verdict
    said: Events = ()
    if verdict is not None:
        # In the order of `VERDICT_ATTRIBUTES`.
        values = (
            verdict.verdict,
            verdict.segment,
            verdict.cause,
            verdict.owner,
            verdict.index,
            verdict.offset,
            verdict.lost_tokens,
        )
        said = _event(names.VERDICT_EVENT, values)
    for overflow in event.overflows:
        said += _event(names.OVERFLOW_EVENT, _read_overflow(overflow))
    for layer in event.compactions:
        said += _event(names.COMPACTION_EVENT, _read_compaction(layer))
    return said


@lru_cache(maxsize=_KINDS_KEPT)
def _event(name: str, values: Values) -> tuple[bytes, bytes]:
    """Return what stands before an event's time, and what behind it."""
    told = dict(zip(_EVENT_KEYS[name], values, strict=True))
    said = write_text(_EVENT_NAME, name) + write_attributes(_EVENT_ATTRIBUTES, told)
    return write_varint(_EVENTS << 3 | 2) + write_varint(_TIME_BYTES + len(said)), said


@lru_cache(maxsize=_KINDS_KEPT)
def _alike_requests(fields: Fields) -> _Alike:
    """Return what all requests with these fields have in common.

    By the HTTP conventions a client's mistake is no failure of the server.
    """
    served, asked = attributes.served_and_asked(fields)
    path = shown_path(served.path, served.upstream)
    name = f"{attributes.known_method(served.method)} {path}"
    is_failed = served.status >= _FIRST_SERVER_ERROR or served.outcome == "truncated"
    said = write_attributes(SPAN_ATTRIBUTES, attributes.server_attributes(served))
    return _Alike(_kind(name, _SERVER, is_failed=is_failed) + said, asked)


@lru_cache(maxsize=_KINDS_KEPT)
def _alike_calls(
    alike: _Alike,
    called_fields: Fields,
    is_answer: bool,  # noqa: FBT001  # A cache's key.
) -> bytes:
    """Return what the spans of all calls with these fields have in common."""
    asked, called = alike.asked, Called(*called_fields)
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
