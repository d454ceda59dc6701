"""Answers of the Responses API, streamed or whole."""

import msgspec
import pytest

from deuz_compiler.wires.metering import ReplyFacts
from deuz_compiler.wires.reply import error_body, error_event, open_meter
from deuz_compiler.wires.usage import Usage

RESPONSE = '"response":{"id":"resp_1","object":"response","model":"gpt-x"'
USAGE = (
    '"usage":{"input_tokens":100,"input_tokens_details":{"cached_tokens":64,'
    '"cache_write_tokens":16},"output_tokens":9,"output_tokens_details":'
    '{"reasoning_tokens":4},"total_tokens":109}'
)
COUNTED = Usage(input_uncached=20, cache_read=64, cache_write=16, output=9, reasoning=4)


def event(kind: str, rest: str) -> bytes:
    return f'event: {kind}\ndata: {{"type":"{kind}",{rest}}}\n\n'.encode()


CREATED = event("response.created", f'{RESPONSE},"status":"in_progress","usage":null}}')
MESSAGE_ADDED = event(
    "response.output_item.added", '"item":{"id":"m","type":"message","content":[]}'
)
TEXT = event("response.output_text.delta", '"item_id":"m","delta":"Hi"')
COMPLETED = event(
    "response.completed",
    f'{RESPONSE},"status":"completed","output":[{{"type":"message","content":'
    f'[{{"type":"output_text","text":"Hi"}}]}}],"error":null,{USAGE}}}',
)
FAILED = event(
    "response.failed",
    f'{RESPONSE},"status":"failed","error":{{"code":"context_length_exceeded",'
    '"message":"Your input exceeds the context window of this model."},"usage":null}',
)


COMPACTED = (
    '{"id":"resp_2","object":"response.compaction","created_at":1,"output":[{"type":'
    '"message","role":"user","content":[]},{"type":"compaction","encrypted_content":"x"'
    "}],"
    f"{USAGE}}}"
)


def stream(*chunks: bytes, keep_text: bool = False) -> ReplyFacts:
    meter = open_meter("openai_responses", is_event_stream=True, keep_text=keep_text)
    for chunk in chunks:
        meter.feed(chunk)
    return meter.close()


def whole(body: str, *, keep_text: bool = False) -> ReplyFacts:
    meter = open_meter("openai_responses", is_event_stream=False, keep_text=keep_text)
    meter.feed(body.encode())
    return meter.close()


def test_stream_tells_identity_usage_and_end() -> None:
    facts = stream(CREATED, MESSAGE_ADDED, TEXT, COMPLETED)

    assert facts == ReplyFacts(
        usage=COUNTED,
        finish_reason="completed",
        response_id="resp_1",
        model="gpt-x",
        has_content=True,
        is_complete=True,
    )


def test_text_of_the_deltas_is_not_collected_twice() -> None:
    facts = stream(CREATED, TEXT, TEXT, COMPLETED, keep_text=True)

    assert facts.text == "HiHi"


def test_text_is_taken_from_the_final_response_where_no_delta_came() -> None:
    assert stream(CREATED, COMPLETED, keep_text=True).text == "Hi"


def test_reason_of_an_incomplete_answer_is_its_finish_reason() -> None:
    incomplete = event(
        "response.incomplete",
        f'{RESPONSE},"status":"incomplete","incomplete_details":'
        f'{{"reason":"max_output_tokens"}},{USAGE}}}',
    )

    facts = stream(CREATED, TEXT, incomplete)

    assert (facts.finish_reason, facts.usage) == ("max_output_tokens", COUNTED)


@pytest.mark.parametrize(
    ("chunk", "decisive"),
    [
        (TEXT, "content"),
        (event("response.reasoning_summary_text.delta", '"delta":"hm"'), "content"),
        (event("response.function_call_arguments.delta", '"delta":"{"'), "content"),
        (
            event("response.output_item.added", '"item":{"type":"function_call"}'),
            "content",
        ),
        (COMPLETED.replace(b'"text":"Hi"', b'"text":""'), "end"),
        (FAILED, "error"),
        (event("error", '"code":"server_error","message":"no","param":null'), "error"),
        (event("error", '"error":{"code":"server_error","message":"no"}'), "error"),
    ],
)
def test_first_event_that_decides(chunk: bytes, decisive: str) -> None:
    meter = open_meter("openai_responses", is_event_stream=True)
    reasoning = event("response.output_item.added", '"item":{"type":"reasoning"}')

    for early in (CREATED, MESSAGE_ADDED, reasoning):
        meter.feed(early)
        assert meter.decisive is None
    meter.feed(chunk)

    assert meter.decisive == decisive


def test_failed_response_is_kept_as_it_came() -> None:
    facts = stream(CREATED, FAILED)

    assert facts.error_body == FAILED.partition(b"data: ")[2].rstrip()
    assert (facts.finish_reason, facts.is_complete) == ("failed", True)
    assert facts.usage is None


def test_stream_cut_off_before_the_terminal_event_is_not_finished() -> None:
    facts = stream(CREATED, MESSAGE_ADDED, TEXT, COMPLETED[:200])

    assert not facts.is_finished
    assert facts.usage is None
    assert facts.faults == 1


def test_words_of_the_protocol_in_the_text_mean_nothing() -> None:
    quoted = msgspec.json.encode('"type":"response.completed","response":{}').decode()
    hostile = event("response.output_text.delta", f'"delta":{quoted}')

    facts = stream(CREATED, TEXT, hostile)

    assert (facts.is_complete, facts.faults) == (False, 0)


def test_whole_body_is_read() -> None:
    facts = whole(
        '{"id":"resp_2","object":"response","model":"gpt-x","status":"completed",'
        '"error":null,"output":[{"type":"reasoning","content":[]},{"type":"message",'
        '"content":[{"type":"output_text","text":"Hi"}]},{"type":"function_call",'
        f'"name":"f"}}],{USAGE}}}',
        keep_text=True,
    )

    assert facts == ReplyFacts(
        usage=COUNTED,
        finish_reason="completed",
        response_id="resp_2",
        model="gpt-x",
        has_content=True,
        is_complete=True,
        text="Hi",
        had_tool_call=True,
    )


def test_whole_body_that_ran_out_of_output_has_no_content() -> None:
    facts = whole(
        '{"id":"r","object":"response","status":"incomplete","incomplete_details":'
        '{"reason":"max_output_tokens"},"error":null,"output":[],"usage":null}'
    )

    assert (facts.finish_reason, facts.has_content) == ("max_output_tokens", False)
    assert (facts.usage, facts.error_body) == (None, None)


@pytest.mark.parametrize(
    "body",
    [
        '{"error":{"message":"no","code":"context_length_exceeded"}}',
        '{"id":"r","object":"response","status":"failed","error":{"code":"x"}}',
        '{"detail":"no"}',
    ],
)
def test_error_under_a_good_status_is_an_error_body(body: str) -> None:
    assert whole(body).error_body == body.encode()


def test_error_of_ours_has_the_shape_of_the_provider() -> None:
    body = error_body("openai_responses", status=502, code="gone", message="m")

    assert msgspec.json.decode(body)["error"] == {
        "message": "m",
        "type": "sidecar_error",
        "param": None,
        "code": "gone",
    }


def test_event_of_ours_is_read_back_as_an_error() -> None:
    ours = error_event("openai_responses", status=502, code="gone", message="m")

    facts = stream(CREATED, TEXT, ours)

    assert facts.error_body is not None
    assert msgspec.json.decode(facts.error_body)["error"]["code"] == "gone"


def test_marker_of_the_chat_wire_is_no_fault() -> None:
    facts = stream(CREATED, b"data: [DONE]\n\n", COMPLETED)

    assert (facts.faults, facts.is_complete) == (0, True)


def test_event_of_no_known_kind_is_passed_over() -> None:
    facts = stream(CREATED, event("response.new_thing", '"x":1'), TEXT, COMPLETED)

    assert (facts.faults, facts.finish_reason) == (0, "completed")


def test_a_condensed_history_tells_what_it_cost() -> None:
    facts = whole(COMPACTED)

    assert facts.usage == COUNTED
    assert facts.is_complete
    assert facts.error_body is None


def test_compaction_in_a_stream_is_no_answer_and_no_error() -> None:
    compacting = event("response.compaction.compacting", '"item_id":"cmp_1"')
    item = event(
        "response.output_item.done",
        '"item":{"id":"cmp_1","type":"compaction","encrypted_content":"x"}',
    )

    facts = stream(CREATED, compacting, item, TEXT, COMPLETED)

    assert facts.usage == COUNTED
    assert facts.finish_reason == "completed"
    assert not facts.had_tool_call
