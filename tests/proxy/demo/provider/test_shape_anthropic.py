import json
from typing import Any

from deuz_proxy.demo.provider.exchange import (
    ANTHROPIC,
    Finished,
    Part,
    ProviderRequest,
    Refusal,
    Reply,
    Text,
    Thinking,
    TokenCount,
    ToolCall,
)
from deuz_proxy.demo.provider.shape_anthropic import (
    spell_error,
    spell_events,
    spell_message,
)
from deuz_proxy.demo.provider.signing import Seal, Signer

COUNTS = TokenCount(
    uncached=1,
    cache_read=2,
    cache_write_short=4,
    cache_write_long=8,
    output=16,
    reasoning=5,
)


def finished(*parts: Part, stop: str = "") -> Finished:
    request = ProviderRequest(ANTHROPIC, "fake", False, {}, b"")
    return Finished(request, Reply(parts, stop), COUNTS, 7, "s", Signer())


def events(*parts: Part) -> list[dict[str, Any]]:
    return [
        json.loads(event.split(b"data: ", 1)[1])
        for event in spell_events(finished(*parts))
    ]


def test_usage_excludes_cached_tokens() -> None:
    usage = spell_message(finished(Text("x")))["usage"]

    assert usage["input_tokens"] == 1
    assert usage["cache_read_input_tokens"] == 2
    assert usage["cache_creation_input_tokens"] == 12
    assert usage["cache_creation"] == {
        "ephemeral_5m_input_tokens": 4,
        "ephemeral_1h_input_tokens": 8,
    }
    assert usage["output_tokens"] == 16


def test_events_come_in_the_providers_order() -> None:
    kinds = [event["type"] for event in events(Text("a"), ToolCall("t", {}, "1"))]

    assert kinds == [
        "message_start",
        "content_block_start",
        "ping",
        "content_block_delta",
        "content_block_stop",
        "content_block_start",
        "content_block_delta",
        "content_block_delta",
        "content_block_stop",
        "message_delta",
        "message_stop",
    ]


def test_the_last_usage_is_cumulative_and_the_first_is_early() -> None:
    told = events(Text("a"))

    assert told[0]["message"]["usage"]["output_tokens"] == 1
    assert told[-2]["usage"]["output_tokens"] == 16
    assert told[-2]["usage"]["cache_read_input_tokens"] == 2


def test_deltas_build_the_blocks_of_the_whole_message() -> None:
    parts = (
        Thinking("thinking of it"),
        Thinking("hidden", is_redacted=True),
        Text("some words that are longer than one delta"),
        ToolCall("t", {"a": ["b", 1]}, "1"),
    )
    built: list[dict[str, Any]] = []
    for event in events(*parts):
        if event["type"] == "content_block_start":
            built.append({**event["content_block"], "json": ""})
        if event["type"] == "content_block_delta":
            delta = {k: v for k, v in event["delta"].items() if k != "type"}
            for name, value in delta.items():
                field = "json" if name == "partial_json" else name
                built[-1][field] = built[-1].get(field, "") + value

    for block in built:
        arguments = block.pop("json")
        if block["type"] == "tool_use":
            block["input"] = json.loads(arguments)
    assert built == spell_message(finished(*parts))["content"]


def test_thinking_is_signed_with_its_place() -> None:
    blocks = spell_message(finished(Thinking("a"), Thinking("b"), Text("c")))["content"]

    assert Signer().open("b", blocks[1]["signature"]) == Seal(1, 2)


def test_stops_have_the_providers_names() -> None:
    stops = {
        stop: spell_message(finished(Text("a"), stop=stop))["stop_reason"]
        for stop in ("end", "tool", "length", "refusal", "window")
    }

    assert stops == {
        "end": "end_turn",
        "tool": "tool_use",
        "length": "max_tokens",
        "refusal": "refusal",
        "window": "model_context_window_exceeded",
    }


def test_an_error_names_its_kind_by_status() -> None:
    error = spell_error(Refusal("r", "busy", status=529), "1")

    assert error == {
        "type": "error",
        "error": {"type": "overloaded_error", "message": "busy"},
        "request_id": "req_1",
    }
