import json
from collections.abc import Sequence
from typing import Any

import pytest

from deuz_compiler import recognise_overflow
from deuz_compiler.wires.metering import ReplyFacts
from deuz_compiler.wires.reply import error_body, error_event, open_meter
from deuz_compiler.wires.usage import Usage
from deuz_testing.aws_frames import chunk, event, exception

COUNTS = {
    "inputTokens": 10,
    "outputTokens": 5,
    "totalTokens": 45,
    "cacheReadInputTokens": 20,
    "cacheWriteInputTokens": 10,
}
USAGE = Usage(input_uncached=10, cache_read=20, cache_write=10, output=5)
METRICS = {
    "inputTokenCount": 10,
    "outputTokenCount": 5,
    "cacheReadInputTokenCount": 20,
    "cacheWriteInputTokenCount": 10,
}


def meter(
    wire: str, body: bytes, *, headers: Sequence[tuple[bytes, bytes]] = ()
) -> ReplyFacts:
    found = open_meter(wire, is_event_stream=False, keep_text=True, headers=headers)
    for at in range(0, len(body), 50):
        found.feed(body[at : at + 50])
    return found.close()


def invoked(payload: Any, **kwargs: Any) -> ReplyFacts:
    return meter("bedrock_invoke", json.dumps(payload).encode(), **kwargs)


def test_a_converse_stream_is_read_to_its_last_event() -> None:
    stream = b"".join(
        [
            event("messageStart", {"role": "assistant"}),
            event("contentBlockDelta", {"delta": {"text": "Hel"}}),
            event("contentBlockDelta", {"delta": {"text": "lo"}}),
            event("contentBlockStop", {"contentBlockIndex": 0}),
            event("messageStop", {"stopReason": "end_turn"}),
            event("metadata", {"usage": COUNTS, "metrics": {"latencyMs": 9}}),
        ]
    )

    assert meter("bedrock_converse", stream) == ReplyFacts(
        usage=USAGE,
        finish_reason="end_turn",
        has_content=True,
        is_complete=True,
        text="Hello",
    )


def test_a_whole_converse_answer_tells_the_same() -> None:
    message = {"role": "assistant", "content": [{"text": "Hello"}]}
    body = {"output": {"message": message}, "stopReason": "end_turn", "usage": COUNTS}

    facts = meter("bedrock_converse", json.dumps(body).encode())

    assert (facts.usage, facts.finish_reason, facts.text) == (
        USAGE,
        "end_turn",
        "Hello",
    )


@pytest.mark.parametrize(
    ("block", "is_call"),
    [
        ({"toolUse": {"name": "f", "input": {}}}, True),
        ({"reasoningContent": {"reasoningText": {"text": "hm"}}}, False),
        ({"image": {"format": "png"}}, False),
    ],
)
def test_calls_reasoning_and_pictures_are_content(block: Any, is_call: bool) -> None:
    started = {"start": {"toolUse": {"name": "f"}}} if is_call else {"delta": block}
    streamed = meter("bedrock_converse", event("contentBlockStart", started))
    body = {"output": {"message": {"content": [block]}}, "stopReason": "tool_use"}
    whole = meter("bedrock_converse", json.dumps(body).encode())

    for facts in (streamed, whole):
        assert facts.has_content
        assert (facts.had_tool_call, facts.text) == (is_call, "")


@pytest.mark.parametrize("wire", ["bedrock_converse", "bedrock_invoke"])
@pytest.mark.parametrize(
    ("name", "message", "is_overflow"),
    [
        ("validationException", "prompt is too long: 286028 tokens > 200000", True),
        ("throttlingException", "Too many tokens, please wait before trying", False),
        ("internalServerException", "", False),
    ],
)
def test_an_exception_in_a_stream_is_an_error_by_its_name(
    wire: str, name: str, message: str, is_overflow: bool
) -> None:
    payload = {"message": message} if message else b""

    facts = meter(wire, event("messageStart", {}) + exception(name, payload))

    assert json.loads(facts.error_body or b"")["__type"] == name
    signal = recognise_overflow(200, facts.error_body or b"", is_stream_event=True)
    assert (signal is not None) == is_overflow


@pytest.mark.parametrize("wire", ["bedrock_converse", "bedrock_invoke"])
def test_a_whole_error_is_an_error_body(wire: str) -> None:
    body = b'{"message":"Input is too long for requested model."}'

    assert meter(wire, body).error_body == body


def test_a_stream_of_claude_is_read_by_its_own_events_and_bedrocks_counts() -> None:
    usage = {"input_tokens": 10, "cache_read_input_tokens": 20, "output_tokens": 1}
    delta = {"type": "text_delta", "text": "Hi"}
    stream = b"".join(
        [
            chunk(
                {"type": "message_start", "message": {"id": "msg_1", "usage": usage}}
            ),
            chunk({"type": "content_block_delta", "delta": delta}),
            chunk({"type": "message_delta", "delta": {"stop_reason": "end_turn"}}),
            chunk(
                {"type": "message_stop", "amazon-bedrock-invocationMetrics": METRICS}
            ),
        ]
    )

    facts = meter("bedrock_invoke", stream)

    assert facts.usage == Usage(input_uncached=10, cache_read=20, output=1)
    assert (facts.finish_reason, facts.response_id) == ("end_turn", "msg_1")
    assert facts.is_complete
    assert facts.has_content


@pytest.mark.parametrize(
    ("events", "reason"),
    [
        ([{"generation": "Hi"}, {"generation": "", "stop_reason": "stop"}], "stop"),
        ([{"outputText": "Hi", "completionReason": "FINISH"}], "FINISH"),
        ([{"outputs": [{"text": "Hi", "stop_reason": "length"}]}], "length"),
        (
            [
                {"contentBlockDelta": {"delta": {"text": "Hi"}}},
                {"messageStop": {"stopReason": "end_turn"}},
            ],
            "end_turn",
        ),
    ],
)
def test_a_stream_of_any_model_ends_with_bedrocks_counts(
    events: list[Any], reason: str
) -> None:
    last = {"amazon-bedrock-invocationMetrics": METRICS}
    stream = b"".join(chunk(each) for each in (*events, last))

    facts = meter("bedrock_invoke", stream)

    assert facts.usage == USAGE
    assert (facts.finish_reason, facts.has_content) == (reason, True)
    assert facts.is_complete


@pytest.mark.parametrize(
    ("body", "usage", "reason"),
    [
        (
            {
                "id": "msg_1",
                "content": [{"type": "text", "text": "Hi"}],
                "stop_reason": "end_turn",
                "usage": {"input_tokens": 3, "output_tokens": 5},
            },
            Usage(input_uncached=3, output=5),
            "end_turn",
        ),
        (
            {
                "generation": "Hi",
                "prompt_token_count": 3,
                "generation_token_count": 5,
                "stop_reason": "length",
            },
            Usage(input_uncached=3, output=5),
            "length",
        ),
        (
            {
                "inputTextTokenCount": 3,
                "results": [
                    {"tokenCount": 5, "outputText": "Hi", "completionReason": "FINISH"}
                ],
            },
            Usage(input_uncached=3, output=5),
            "FINISH",
        ),
        (
            {
                "output": {"message": {"content": [{"text": "Hi"}]}},
                "stopReason": "end_turn",
                "usage": {"inputTokens": 3, "outputTokens": 5},
            },
            Usage(input_uncached=3, output=5),
            "end_turn",
        ),
    ],
)
def test_whole_answers_of_the_better_known_models_are_read(
    body: Any, usage: Usage, reason: str
) -> None:
    facts = invoked(body)

    assert (facts.usage, facts.finish_reason) == (usage, reason)
    assert facts.has_content
    assert facts.is_complete


def test_an_answer_without_counts_has_them_in_its_headers() -> None:
    headers = (
        (b"X-Amzn-Bedrock-Input-Token-Count", b"7"),
        (b"X-Amzn-Bedrock-Output-Token-Count", b"2"),
        (b"X-Amzn-Bedrock-Cache-Read-Input-Token-Count", b"many"),
        (b"Content-Type", b"application/json"),
    )

    facts = invoked({"outputs": [{"text": "Hi"}]}, headers=headers)

    assert facts.usage == Usage(input_uncached=7, output=2)


def test_an_error_of_a_model_in_its_own_event_is_an_error() -> None:
    facts = meter("bedrock_invoke", chunk({"error": {"message": "no"}}))

    assert facts.error_body == b'{"error": {"message": "no"}}'


@pytest.mark.parametrize("payload", [b'{"bytes":"no base64!"}', b"{}", b"[]"])
def test_a_chunk_that_cannot_be_read_is_counted(payload: bytes) -> None:
    facts = meter("bedrock_invoke", event("chunk", payload))

    assert facts.faults == 1
    assert facts.usage is None


def test_an_error_of_ours_has_the_providers_shape() -> None:
    body = error_body("bedrock_converse", status=502, code="gone", message="m")

    expected = {"__type": "sidecar_error", "code": "gone", "message": "m"}
    assert json.loads(body) == expected
    assert error_event("bedrock", status=502, code="gone", message="m") == body
