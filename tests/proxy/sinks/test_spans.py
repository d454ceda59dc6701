import random
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace
from opentelemetry.proto.trace.v1.trace_pb2 import ScopeSpans, Span, Status

from deuz_compiler import Verdict
from deuz_proxy.observe import names
from deuz_proxy.observe.events import Overflow, Placement, RequestFinished
from deuz_proxy.sinks.attributes import Asked, Served
from deuz_proxy.sinks.span_items import load_writer
from deuz_proxy.sinks.spans import SpanWriter
from deuz_testing.events import STARTED_AT, TRACE, compiled, finished, overflown
from deuz_testing.otlp import read_attributes

WRITER = SpanWriter(names.NEWEST, random.Random(3).getrandbits, load_writer())
SERVER, CLIENT = Span.SPAN_KIND_SERVER, Span.SPAN_KIND_CLIENT
INTERNAL = Span.SPAN_KIND_INTERNAL
OK, ERROR = Status.STATUS_CODE_UNSET, Status.STATUS_CODE_ERROR
PARENT_IS_KNOWN, PARENT_IS_REMOTE = 0x100, 0x200


def written(event: RequestFinished) -> list[Span]:
    return list(ScopeSpans.FromString(WRITER.write(event)).spans)


def spans_of(event: RequestFinished) -> dict[str, Span]:
    return {span.name: span for span in written(event)}


def server_of(event: RequestFinished) -> Span:
    return written(event)[-1]


def number(span_id: bytes) -> int:
    assert len(span_id) == 8
    return int.from_bytes(span_id, "big")


def said_by(span: Span) -> dict[str, object]:
    said = read_attributes(span.attributes)
    assert len(said) == len(span.attributes)
    return said


def test_server_span_continues_the_caller_s_trace() -> None:
    span = server_of(finished())

    assert span.name == "POST /v1/chat/completions"
    assert span.kind == SERVER
    assert span.trace_id.hex() == f"{TRACE.trace_id:032x}"
    assert number(span.span_id) == TRACE.server_span_id
    assert number(span.parent_span_id) == TRACE.parent_span_id
    assert span.flags == PARENT_IS_KNOWN | PARENT_IS_REMOTE


def test_request_without_a_caller_s_trace_has_a_root_span() -> None:
    span = server_of(finished(trace=replace(TRACE, parent_span_id=0)))

    assert span.parent_span_id == b""
    assert span.flags == PARENT_IS_KNOWN


def test_call_is_below_the_server_span_with_the_id_the_upstream_was_told() -> None:
    call = spans_of(finished())["chat gpt-x"]

    assert call.kind == CLIENT
    assert call.trace_id.hex() == f"{TRACE.trace_id:032x}"
    assert number(call.span_id) == TRACE.client_span_id
    assert number(call.parent_span_id) == TRACE.server_span_id
    assert call.flags == PARENT_IS_KNOWN


def test_compile_is_an_internal_child() -> None:
    span = spans_of(finished(compile=compiled()))["deuz.context.compile"]

    assert span.kind == INTERNAL
    assert number(span.parent_span_id) == TRACE.server_span_id
    assert span.start_time_unix_nano == pytest.approx((STARTED_AT + 0.1) * 1e9, abs=1e3)


def test_spans_cover_the_time_that_things_took() -> None:
    spans = spans_of(finished())
    server, call = spans["POST /v1/chat/completions"], spans["chat gpt-x"]

    assert server.start_time_unix_nano == STARTED_AT * 1e9
    assert server.end_time_unix_nano == (STARTED_AT + 2) * 1e9
    assert call.start_time_unix_nano == (STARTED_AT + 0.25) * 1e9
    assert call.end_time_unix_nano == pytest.approx((STARTED_AT + 1.95) * 1e9, abs=1e3)


def test_recovered_request_has_a_span_for_each_call_with_an_id_of_its_own() -> None:
    spans = written(overflown(compile=compiled()))

    assert [span.name for span in spans] == [
        "deuz.context.compile",
        "chat gpt-x",
        "chat mini",
        "chat gpt-x",
        "POST /v1/chat/completions",
    ]
    assert len({number(span.span_id) for span in spans}) == 5


@pytest.mark.parametrize(
    ("outcome", "counts"), [("recovered", [None, 70, 50]), ("surfaced", [50, 70, None])]
)
def test_only_the_call_that_answered_has_the_usage(
    outcome: str, counts: list[int | None]
) -> None:
    event = overflown()
    seen = (replace(event.overflows[0], outcome=outcome),)

    rejected, summary, retry = written(replace(event, overflows=seen))[:3]

    name = "gen_ai.usage.output_tokens"
    assert [said_by(span).get(name) for span in (rejected, summary, retry)] == counts


def test_refused_request_has_no_call() -> None:
    event = finished(outcome="refused", status=503, upstream_calls=())

    assert [span.kind for span in written(event)] == [SERVER]


@pytest.mark.parametrize("trace", [None, replace(TRACE, is_sampled=False)])
def test_unsampled_request_makes_no_span(trace: Any) -> None:
    assert written(finished(trace=trace, compile=compiled())) == []


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({}, OK),
        ({"status": 404, "outcome": "upstream_error"}, OK),
        ({"status": 502, "outcome": "upstream_error"}, ERROR),
        ({"outcome": "truncated"}, ERROR),
        ({"outcome": "client_closed"}, OK),
    ],
)
def test_server_span_failed_when_the_server_did(
    changes: dict[str, object], code: int
) -> None:
    assert server_of(finished(**changes)).status.code == code


def test_torn_stream_fails_the_call_and_a_complete_one_does_not() -> None:
    torn = spans_of(finished(outcome="truncated"))["chat gpt-x"]
    complete = spans_of(finished())["chat gpt-x"]

    assert torn.status.code == ERROR
    assert complete.status.code == OK


def test_verdict_overflow_and_compaction_are_events_of_the_server_span() -> None:
    verdict = Verdict("broken", "tools", "tool_added", "client", lost_tokens=7)

    span = server_of(overflown(verdict=verdict))

    said = {event.name: read_attributes(event.attributes) for event in span.events}
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


def test_event_of_a_span_has_what_applies_and_the_time_of_the_end() -> None:
    verdict = Verdict("broken", "turn", "turn_edited", "client", 3, 120, 900)
    untold = Overflow("rejected", "surfaced", None, None)

    judged, overflow = server_of(finished(verdict=verdict, overflows=(untold,))).events

    assert read_attributes(judged.attributes) == {
        "verdict": "broken",
        "segment": "turn",
        "cause": "turn_edited",
        "owner": "client",
        "index": 3,
        "offset": 120,
        "lost_tokens": 900,
    }
    assert read_attributes(overflow.attributes) == {
        "stage": "rejected",
        "outcome": "surfaced",
    }
    assert judged.time_unix_nano == (STARTED_AT + 2) * 1e9


@pytest.mark.parametrize(
    "outcome", ["ok", "client_closed", "truncated", "upstream_error", "refused"]
)
def test_each_outcome_ends_with_exactly_one_server_span(outcome: str) -> None:
    spans = written(finished(outcome=outcome))

    (server,) = [span for span in spans if span.kind == SERVER]
    assert said_by(server)["deuz.outcome"] == outcome
    assert server.end_time_unix_nano


# A value that no other request here has, for each field that spans remember by.
OTHERS: dict[str, Any] = {
    "method": "PUT",
    "path": "/v1/responses",
    "status": 503,
    "outcome": "truncated",
    "error": "stream_idle",
    "route": "other",
    "upstream": "mirror",
    "wire": "anthropic",
    "mode": "compile",
    "group": "treated",
    "passthrough": "observe",
    "usage_status": "absent",
    "model": "gpt-y",
    "max_output_tokens": 7,
    "is_streamed": False,
    "response_model": "gpt-y-2026",
    "finish_reason": "length",
    "server_address": "mirror.example",
    "server_port": 8443,
}


@pytest.mark.parametrize("name", sorted({*Served._fields, *Asked._fields}))
def test_what_is_remembered_of_one_request_is_not_told_of_another(name: str) -> None:
    usual = written(finished(error="upstream_broken", outcome="refused"))
    changes = {"error": "upstream_broken", "outcome": "refused", name: OTHERS[name]}

    assert written(finished(**changes)) != usual


ALLOWED: dict[int, frozenset[str]] = {
    SERVER: names.SERVER_ATTRIBUTES,
    CLIENT: names.CLIENT_ATTRIBUTES,
    INTERNAL: names.COMPILE_ATTRIBUTES,
}


def is_allowed(kind: int, name: str) -> bool:
    is_source = name.startswith(names.SOURCE_PREFIX) and name.endswith(
        names.SOURCE_PARTS
    )
    return name in ALLOWED[kind] or (kind == INTERNAL and is_source)


def test_spans_have_attributes_of_the_catalogue_only() -> None:
    spans = written(overflown(compile=compiled(), passthrough="observe"))

    said = {(span.kind, name) for span in spans for name in said_by(span)}
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

    spans = written(canaried(event))

    assert len(spans) == 5
    shown = "".join(str(span) for span in spans)
    assert "CANARY" not in shown
    assert "record-9" not in shown
