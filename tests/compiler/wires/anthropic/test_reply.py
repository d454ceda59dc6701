"""Answers of the Anthropic Messages API, as the API and its imitators send them."""

import msgspec
import pytest

from deuz_compiler.wires.metering import ReplyFacts
from deuz_compiler.wires.reply import error_body, error_event, open_meter
from deuz_compiler.wires.usage import Usage

START = (
    b'event: message_start\ndata: {"type":"message_start","message":{"id":"msg_1",'
    b'"type":"message","role":"assistant","model":"claude-x","content":[],'
    b'"stop_reason":null,"usage":{"input_tokens":20,"cache_creation_input_tokens":3,'
    b'"cache_read_input_tokens":100,"output_tokens":1}}}\n\n'
)
OPEN_TEXT = (
    b'event: content_block_start\ndata: {"type":"content_block_start","index":0,'
    b'"content_block":{"type":"text","text":""}}\n\n'
)
PING = b'event: ping\ndata: {"type": "ping"}\n\n'
STOP = (
    b'event: message_delta\ndata: {"type":"message_delta","delta":{"stop_reason":'
    b'"end_turn","stop_sequence":null},"usage":{"output_tokens":15}}\n\n'
)
END = b'event: message_stop\ndata: {"type":"message_stop"}\n\n'
OVERLOADED = (
    b'event: error\ndata: {"type":"error","error":{"type":"overloaded_error",'
    b'"message":"Overloaded"}}\n\n'
)


def delta(text: str) -> bytes:
    quoted = msgspec.json.encode(text)
    return (
        b'event: content_block_delta\ndata: {"type":"content_block_delta","index":0,'
        b'"delta":{"type":"text_delta","text":' + quoted + b"}}\n\n"
    )


def stream(*chunks: bytes, keep_text: bool = False) -> ReplyFacts:
    meter = open_meter("anthropic", is_event_stream=True, keep_text=keep_text)
    for chunk in chunks:
        meter.feed(chunk)
    return meter.close()


def whole(body: bytes, *, keep_text: bool = False) -> ReplyFacts:
    meter = open_meter("anthropic", is_event_stream=False, keep_text=keep_text)
    meter.feed(body)
    return meter.close()


def test_stream_tells_identity_usage_and_end() -> None:
    facts = stream(START, OPEN_TEXT, PING, delta("Hi"), delta("!"), STOP, END)

    assert facts == ReplyFacts(
        usage=Usage(input_uncached=20, cache_read=100, cache_write=3, output=15),
        finish_reason="end_turn",
        response_id="msg_1",
        model="claude-x",
        has_content=True,
        is_complete=True,
    )


def test_final_delta_corrects_the_input_counts() -> None:
    corrected = STOP.replace(
        b'{"output_tokens":15}',
        b'{"input_tokens":480,"cache_read_input_tokens":null,"output_tokens":30}',
    )

    usage = stream(START, delta("Hi"), corrected, END).usage

    assert usage == Usage(input_uncached=480, cache_read=100, cache_write=3, output=30)


@pytest.mark.parametrize(
    ("chunk", "decisive"),
    [
        (delta("Hi"), "content"),
        (OVERLOADED, "error"),
        (STOP, "end"),
        (END, "end"),
        (
            b'data: {"type":"content_block_start","index":0,"content_block":'
            b'{"type":"tool_use","id":"t","name":"f","input":{}}}\n\n',
            "content",
        ),
        (
            b'data: {"type":"content_block_delta","index":0,"delta":'
            b'{"type":"thinking_delta","thinking":"hm"}}\n\n',
            "content",
        ),
        (
            b'data: {"type":"content_block_delta","index":0,"delta":'
            b'{"type":"signature_delta","signature":"c2ln"}}\n\n',
            "content",
        ),
    ],
)
def test_first_event_that_decides(chunk: bytes, decisive: str) -> None:
    meter = open_meter("anthropic", is_event_stream=True)

    for early in (b": hello\n\n", START, PING, OPEN_TEXT, delta("")):
        meter.feed(early)
        assert meter.decisive is None
    meter.feed(chunk)
    meter.feed(END)

    assert meter.decisive == decisive


def test_error_event_is_kept_as_it_came() -> None:
    facts = stream(START, PING, OVERLOADED)

    assert facts.error_body == OVERLOADED.partition(b"data: ")[2].rstrip()
    assert facts.is_complete
    assert not facts.has_content


def test_error_without_a_type_is_an_error() -> None:
    facts = stream(b'data: {"error":{"type":"<nil>","message":"no"}}\n\n')

    assert facts.error_body == b'{"error":{"type":"<nil>","message":"no"}}'


def test_stream_cut_off_is_neither_complete_nor_finished() -> None:
    facts = stream(START, OPEN_TEXT, delta("Hi"))

    assert (facts.is_complete, facts.is_finished) == (False, False)
    assert facts.usage is not None
    assert facts.usage.input_total == 123


def test_stream_cut_off_behind_the_stop_reason_is_finished() -> None:
    facts = stream(START, delta("Hi"), STOP, END[:20])

    assert (facts.is_complete, facts.is_finished) == (False, True)
    assert facts.usage is not None
    assert facts.usage.output == 15


def test_words_of_the_protocol_in_the_text_mean_nothing() -> None:
    hostile = delta('"type":"message_stop" {"error":{}} event: error\n\ndata: x')

    facts = stream(START, delta("a"), hostile, keep_text=True)

    assert facts.error_body is None
    assert not facts.is_complete
    assert facts.faults == 0


def test_broken_event_is_counted_and_the_rest_is_read() -> None:
    broken = b'event: content_block_delta\ndata: {"type":"content\n\n'
    invalid = b'data: {"type":"message_delta","x":"\xff"}\n\n'

    facts = stream(START, broken, b"data: [[[\n\n", invalid, delta("a"), STOP, END)

    assert facts.faults >= 2
    assert facts.finish_reason == "end_turn"
    assert facts.is_complete


def test_text_is_collected_on_request_only() -> None:
    chunks = (START, OPEN_TEXT, delta("sum"), delta("mary 漢字"), STOP, END)

    assert stream(*chunks, keep_text=True).text == "summary 漢字"
    assert stream(*chunks).text is None


def test_whole_body_is_read() -> None:
    facts = whole(
        b'{"id":"msg_2","type":"message","role":"assistant","model":"claude-x",'
        b'"content":[{"type":"thinking","thinking":"","signature":"s"},'
        b'{"type":"text","text":"Hi"},{"type":"tool_use","id":"t","name":"f",'
        b'"input":{"a":1}}],"stop_reason":"tool_use","usage":{"input_tokens":5,'
        b'"output_tokens":2}}',
        keep_text=True,
    )

    assert facts == ReplyFacts(
        usage=Usage(input_uncached=5, output=2),
        finish_reason="tool_use",
        response_id="msg_2",
        model="claude-x",
        has_content=True,
        is_complete=True,
        text="Hi",
        had_tool_call=True,
    )


def test_whole_body_without_blocks_has_no_content() -> None:
    facts = whole(b'{"type":"message","content":[],"stop_reason":"end_turn"}')

    assert not facts.has_content
    assert facts.usage is None


def test_whole_error_is_an_error_body() -> None:
    body = b'{"type":"error","error":{"type":"api_error","message":"no"}}'

    assert whole(body).error_body == body


def test_error_of_ours_has_the_shape_of_the_provider() -> None:
    body = error_body("anthropic", status=502, code="upstream_broken", message="gone")

    assert msgspec.json.decode(body) == {
        "type": "error",
        "error": {
            "type": "sidecar_error",
            "code": "upstream_broken",
            "message": "gone",
        },
    }


def test_event_of_ours_is_read_back_as_an_error() -> None:
    event = error_event("anthropic", status=502, code="upstream_broken", message="gone")

    facts = stream(START, event)

    assert event.startswith(b"event: error\n")
    assert facts.error_body is not None
    assert b"upstream_broken" in facts.error_body


def test_event_of_no_known_kind_is_passed_over() -> None:
    facts = stream(START, b'data: {"type":"content_block_stop","index":0}\n\n', STOP)

    assert (facts.faults, facts.finish_reason) == (0, "end_turn")
