import pytest
from opentelemetry.proto.trace.v1.trace_pb2 import ScopeSpans

from deuz_compiler import Usage
from deuz_proxy.observe import names
from deuz_proxy.observe.events import RequestFinished, UpstreamCall
from deuz_proxy.sinks.own_attributes import (
    CALL_KEYS,
    REQUEST_KEYS,
    own_call,
    own_request,
)
from deuz_proxy.sinks.span_items import Own, write_in_python
from deuz_testing.events import STARTED_AT, finished, overflown
from deuz_testing.otlp import read_attributes

CALL = UpstreamCall(STARTED_AT + 0.25, 1.7, 200, None)

Said = dict[str, object]


def read(own: Own) -> Said:
    """Return what is written as a span's attributes, none of them twice."""
    written = write_in_python((bytes(16), 1, 0, b""), (STARTED_AT, 2.0), b"", own, ())
    (span,) = ScopeSpans.FromString(written).spans
    attributes = span.attributes
    said = read_attributes(attributes)
    assert len(said) == len(attributes)
    return said


def request_said(**changes: object) -> Said:
    return own_said(finished(**changes))


def own_said(event: RequestFinished) -> Said:
    return read((REQUEST_KEYS, own_request(event)))


def call_said(
    event: RequestFinished,
    call: UpstreamCall,
    conventions: names.Conventions = names.NEWEST,
    *,
    is_answer: bool = True,
) -> Said:
    keys = CALL_KEYS[conventions.cache_write]
    return read((keys, own_call(event, call, is_answer=is_answer)))


def answered(conventions: names.Conventions = names.NEWEST, **changes: object) -> Said:
    event = finished(**changes)
    return call_said(event, event.upstream_calls[-1], conventions)


def test_request_tells_its_ids_sizes_and_overhead() -> None:
    assert request_said(request_id="r" * 600) == {
        "deuz.request.id": "r" * 600,
        "deuz.conversation.id": "c-1",
        "http.request.body.size": 2_000,
        "http.response.body.size": 4_000,
        "deuz.overhead": pytest.approx(0.0005),
    }


def test_prefix_change_of_ours_is_told_only_when_there_is_one() -> None:
    assert request_said(sidecar_mutations=2)["deuz.prefix.sidecar_mutations"] == 2
    assert "deuz.prefix.sidecar_mutations" not in request_said(sidecar_mutations=0)


def test_request_of_no_conversation_names_none() -> None:
    event = finished(conversation=None)

    assert "deuz.conversation.id" not in own_said(event)
    assert "gen_ai.conversation.id" not in call_said(event, CALL)


def test_input_tokens_include_cached_ones() -> None:
    said = answered(
        usage=Usage(input_uncached=5, cache_read=128_955, cache_write=1_253)
    )

    assert said["gen_ai.usage.input_tokens"] == 130_213
    assert said["gen_ai.usage.cache_read.input_tokens"] == 128_955
    assert said["gen_ai.usage.cache_write.input_tokens"] == 1_253


def test_zero_that_was_reported_is_told() -> None:
    said = answered(usage=Usage(input_uncached=5, cache_read=0))

    assert said["gen_ai.usage.cache_read.input_tokens"] == 0


def test_absent_usage_leaves_the_attributes_off() -> None:
    said = answered(usage=None)

    assert not [name for name in said if name.startswith("gen_ai.usage")]


def test_older_names_replace_the_newer() -> None:
    said = answered(names.OLDER, usage=Usage(input_uncached=1, cache_write=9))

    assert said["gen_ai.usage.cache_creation.input_tokens"] == 9
    assert "gen_ai.usage.cache_write.input_tokens" not in said


def test_answer_tells_its_id_and_reasoning() -> None:
    said = answered()

    assert said["gen_ai.conversation.id"] == "c-1"
    assert said["gen_ai.response.id"] == "resp-1"
    assert said["gen_ai.usage.reasoning.output_tokens"] == 20


def test_long_response_id_is_cut_and_readable() -> None:
    said = answered(response_id="\udc00" * 5_000)

    assert said["gen_ai.response.id"] == "?" * 256


def test_first_chunk_is_timed_from_the_call_not_from_the_request() -> None:
    assert answered()["gen_ai.response.time_to_first_chunk"] == pytest.approx(0.25)


def test_buffered_answer_has_no_first_chunk() -> None:
    said = answered(is_streamed=False)

    assert "gen_ai.response.time_to_first_chunk" not in said


def test_compacted_is_told_only_when_true() -> None:
    assert "gen_ai.conversation.compacted" not in answered()
    event = overflown()
    said = call_said(event, event.upstream_calls[-1], is_answer=True)
    assert said["gen_ai.conversation.compacted"] is True


def test_summary_has_its_own_usage_and_no_answer() -> None:
    event = overflown()

    said = call_said(event, event.upstream_calls[1], is_answer=False)

    assert said == {"gen_ai.conversation.id": "c-1", "gen_ai.usage.output_tokens": 70}


def test_rejected_call_has_no_usage() -> None:
    event = overflown()

    said = call_said(event, event.upstream_calls[0], is_answer=False)

    assert said == {"gen_ai.conversation.id": "c-1"}


def test_call_that_is_no_inference_says_nothing_of_its_own() -> None:
    event = finished(path="/v1/models", method="GET", model=None, usage=None)

    assert call_said(event, CALL) == {}
