"""Answers of chat completions, by the many servers that speak this wire."""

import msgspec
import pytest

from deuz_compiler.wires.metering import ReplyFacts
from deuz_compiler.wires.openai_chat.reply import REPLIES
from deuz_compiler.wires.reply import error_body, error_event, open_meter
from deuz_compiler.wires.usage import Usage

HEAD = '{"id":"c1","object":"chat.completion.chunk","model":"gpt-x",'
ROLE = (
    f'data: {HEAD}"choices":[{{"index":0,"delta":{{"role":"assistant","content":""}},'
    '"finish_reason":null}],"usage":null}\n\n'
).encode()
FINISH = (
    f'data: {HEAD}"choices":[{{"index":0,"delta":{{}},"finish_reason":"stop"}}],'
    '"usage":null}\n\n'
).encode()
USAGE = (
    f'data: {HEAD}"choices":[],"usage":{{"prompt_tokens":100,"completion_tokens":7,'
    '"total_tokens":107,"prompt_tokens_details":{"cached_tokens":64}}}\n\n'
).encode()
DONE = b"data: [DONE]\n\n"
COUNTED = Usage(input_uncached=36, cache_read=64, output=7)


def delta(text: str, member: str = "content") -> bytes:
    quoted = msgspec.json.encode(text).decode()
    return (
        f'data: {HEAD}"choices":[{{"index":0,"delta":{{"{member}":{quoted}}},'
        '"finish_reason":null}],"usage":null}\n\n'
    ).encode()


def stream(*chunks: bytes, keep_text: bool = False) -> ReplyFacts:
    meter = open_meter("openai_chat", is_event_stream=True, keep_text=keep_text)
    for chunk in chunks:
        meter.feed(chunk)
    return meter.close()


def whole(body: bytes, *, keep_text: bool = False) -> ReplyFacts:
    meter = open_meter("openai_chat", is_event_stream=False, keep_text=keep_text)
    meter.feed(body)
    return meter.close()


def test_stream_tells_identity_usage_and_end() -> None:
    facts = stream(ROLE, delta("Hi"), delta("!"), FINISH, USAGE, DONE)

    assert facts == ReplyFacts(
        usage=COUNTED,
        finish_reason="stop",
        response_id="c1",
        model="gpt-x",
        has_content=True,
        is_complete=True,
    )


def test_stream_without_usage_leaves_it_absent() -> None:
    assert stream(ROLE, delta("Hi"), FINISH, DONE).usage is None


@pytest.mark.parametrize("chunk_bytes", [1, 5, 64, 4096])
def test_split_does_not_matter(chunk_bytes: int) -> None:
    body = b"".join((ROLE, delta("漢字"), delta("😀"), FINISH, USAGE, DONE))
    pieces = [body[at : at + chunk_bytes] for at in range(0, len(body), chunk_bytes)]

    facts = stream(*pieces, keep_text=True)

    assert facts.text == "漢字😀"
    assert facts.usage == COUNTED


def test_several_events_in_one_chunk_behind_the_first_content_are_read() -> None:
    facts = stream(ROLE, delta("a"), delta("b") + FINISH + delta("") + USAGE + DONE)

    assert (facts.finish_reason, facts.usage) == ("stop", COUNTED)


@pytest.mark.parametrize(
    ("place", "expected"),
    [
        ('"choices":[],"x_groq":{"id":"r","usage":{"prompt_tokens":9,'
         '"completion_tokens":2,"queue_time":0.1}}', Usage(input_uncached=9, output=2)),
        ('"choices":[{"index":0,"delta":{},"finish_reason":"stop","usage":'
         '{"prompt_tokens":9,"completion_tokens":2,"cached_tokens":4}}]',
         Usage(input_uncached=5, cache_read=4, output=2)),
        ('"choices":[],"timings":{"cache_n":4,"prompt_n":5,"predicted_n":2}',
         Usage(input_uncached=5, cache_read=4, output=2)),
        ('"choices":[],"usage": {"prompt_tokens": 9, "completion_tokens": 2}',
         Usage(input_uncached=9, output=2)),
    ],
    ids=["groq", "kimi", "llama.cpp", "spaces"],
)  # fmt: skip
def test_usage_is_found_where_servers_put_it(place: str, expected: Usage) -> None:
    facts = stream(ROLE, delta("a"), f"data: {HEAD}{place}}}\n\n".encode(), DONE)

    assert facts.usage == expected


def test_continuous_usage_is_replaced_not_added() -> None:
    growing = [
        delta("x").replace(
            b'"usage":null',
            f'"usage":{{"prompt_tokens":9,"completion_tokens":{count}}}'.encode(),
        )
        for count in (1, 2, 3)
    ]

    usage = stream(ROLE, *growing, FINISH, DONE).usage

    assert usage == Usage(input_uncached=9, output=3)


@pytest.mark.parametrize(
    ("chunk", "decisive"),
    [
        (delta("Hi"), "content"),
        (delta("hm", "reasoning_content"), "content"),
        (delta("hm", "reasoning"), "content"),
        (delta("no", "refusal"), "content"),
        (b'data: {"choices":[{"delta":{"tool_calls":[{"index":0}]}}]}\n\n', "content"),
        (b'data: {"choices":[{"text":"legacy"}]}\n\n', "content"),
        (FINISH, "end"),
        (DONE, "end"),
        (b'data: {"error":{"message":"no"}}\n\n', "error"),
        (b'data: {"error":"no"}\n\n', "error"),
        (b'data: {"object":"error","message":"no"}\n\n', "error"),
    ],
)
def test_first_event_that_decides(chunk: bytes, decisive: str) -> None:
    meter = open_meter("openai_chat", is_event_stream=True)

    for early in (b": OPENROUTER PROCESSING\n\n", ROLE, USAGE):
        meter.feed(early)
        assert meter.decisive is None
    meter.feed(chunk)
    meter.feed(DONE)

    assert meter.decisive == decisive


def test_error_behind_content_is_kept() -> None:
    facts = stream(ROLE, delta("a"), b'data: {"error":{"message":"gone"}}\n\n', DONE)

    assert facts.error_body == b'{"error":{"message":"gone"}}'
    assert facts.has_content


@pytest.mark.parametrize(
    ("chunk", "is_plain"),
    [
        (delta("a"), True),
        (delta("a") + delta("b"), True),
        (delta("a").replace(b":null", b": null"), True),
        (delta('"finish_reason":"stop" "usage":{} "error"'), True),
        (FINISH, False),
        (delta("a") + FINISH, False),
        (USAGE, False),
        (DONE, False),
    ],
)
def test_chunk_of_content_alone_is_told_without_decoding(
    chunk: bytes, is_plain: bool
) -> None:
    assert REPLIES.is_plain(chunk) is is_plain


def test_empty_finish_reason_is_none() -> None:
    chunk = delta("a").replace(b'"finish_reason":null', b'"finish_reason":""')

    assert stream(ROLE, chunk).finish_reason is None


def test_whole_body_is_read() -> None:
    facts = whole(
        b'{"id":"c2","object":"chat.completion","model":"gpt-x","choices":[{"index":0,'
        b'"message":{"role":"assistant","content":"Hi","tool_calls":null},'
        b'"finish_reason":"stop"}],"usage":{"prompt_tokens":9,"completion_tokens":2}}',
        keep_text=True,
    )

    assert facts == ReplyFacts(
        usage=Usage(input_uncached=9, output=2),
        finish_reason="stop",
        response_id="c2",
        model="gpt-x",
        has_content=True,
        is_complete=True,
        text="Hi",
    )


def test_tool_call_in_a_whole_body_is_seen() -> None:
    facts = whole(
        b'{"choices":[{"message":{"content":null,"tool_calls":[{"id":"t"}]},'
        b'"finish_reason":"tool_calls"}]}',
        keep_text=True,
    )

    assert (facts.had_tool_call, facts.has_content, facts.text) == (True, True, "")


@pytest.mark.parametrize(
    "body",
    [
        b'{"error":{"code":400,"message":"no"}}',
        b'{"error":"no"}',
        b'{"object":"error","message":"no"}',
        b'{"message":"no","type":"invalid_request_error"}',
        b'{"detail":"no"}',
    ],
)
def test_error_under_a_good_status_is_an_error_body(body: bytes) -> None:
    facts = whole(body)

    assert facts.error_body == body
    assert not facts.has_content


def test_error_of_ours_has_the_shape_of_the_provider() -> None:
    body = error_body("openai_chat", status=502, code="upstream_broken", message="gone")

    assert msgspec.json.decode(body) == {
        "error": {
            "message": "gone",
            "type": "sidecar_error",
            "param": None,
            "code": "upstream_broken",
        }
    }


def test_event_of_ours_is_read_back_as_an_error() -> None:
    event = error_event("openai_chat", status=502, code="upstream_broken", message="g")

    assert stream(ROLE, delta("a"), event).error_body == event[6:].rstrip()


def test_content_in_parts_is_content() -> None:
    facts = stream(
        b'data: {"choices":[{"delta":{"content":[{"type":"text","text":"a"}]}}]}\n\n',
        keep_text=True,
    )

    assert (facts.has_content, facts.text, facts.faults) == (True, "", 0)
