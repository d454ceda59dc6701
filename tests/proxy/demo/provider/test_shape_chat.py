import json
from typing import Any

from deuz_proxy.demo.provider.exchange import (
    CHAT,
    Finished,
    Part,
    ProviderRequest,
    Refusal,
    Reply,
    Text,
    TokenCount,
    ToolCall,
)
from deuz_proxy.demo.provider.shape_chat import (
    spell_chunks,
    spell_completion,
    spell_error,
)
from deuz_proxy.demo.provider.signing import Signer

COUNTS = TokenCount(uncached=10, cache_read=128, output=3, reasoning=1)
WITH_USAGE = {"stream_options": {"include_usage": True}}


def finished(*parts: Part, **payload: Any) -> Finished:
    request = ProviderRequest(CHAT, "fake", True, payload, b"")
    return Finished(request, Reply(parts), COUNTS, 7, "s", Signer())


def chunks(*parts: Part, **payload: Any) -> list[dict[str, Any]]:
    lines = list(spell_chunks(finished(*parts, **payload)))
    assert lines[-1] == b"data: [DONE]\n\n"
    return [json.loads(line[len(b"data: ") :]) for line in lines[:-1]]


def test_usage_includes_cached_tokens() -> None:
    usage = spell_completion(finished(Text("x")))["usage"]

    assert usage["prompt_tokens"] == 138
    assert usage["prompt_tokens_details"]["cached_tokens"] == 128
    assert usage["total_tokens"] == 141


def test_a_stream_tells_usage_only_if_asked() -> None:
    silent = chunks(Text("x"))
    asked = chunks(Text("x"), **WITH_USAGE)

    assert not any("usage" in chunk for chunk in silent)
    assert [chunk["usage"] for chunk in asked[:-1]] == [None] * (len(asked) - 1)
    assert asked[-1]["choices"] == []
    assert asked[-1]["usage"]["prompt_tokens"] == 138


def test_chunks_build_the_whole_message() -> None:
    parts = (
        Text("some words that are longer than one delta"),
        ToolCall("t", {"city": "a long enough name"}, "1"),
        ToolCall("u", {}, "2"),
    )
    content, arguments = "", ["", ""]
    for chunk in chunks(*parts):
        delta = chunk["choices"][0]["delta"]
        content += delta.get("content") or ""
        for call in delta.get("tool_calls", ()):
            arguments[call["index"]] += call["function"]["arguments"]

    message = spell_completion(finished(*parts))["choices"][0]["message"]
    assert content == message["content"]
    assert arguments == [c["function"]["arguments"] for c in message["tool_calls"]]


def test_the_role_comes_first_and_the_stop_last() -> None:
    told = [chunk["choices"][0] for chunk in chunks(ToolCall("t", {}, "1"))]

    assert told[0]["delta"]["role"] == "assistant"
    assert told[0]["delta"]["content"] is None
    assert told[-1]["finish_reason"] == "tool_calls"
    assert told[-1]["delta"] == {}


def test_an_error_carries_code_and_parameter() -> None:
    refusal = Refusal("r", "too long", code="c", param="messages")

    assert spell_error(refusal, "1") == {
        "error": {
            "message": "too long",
            "type": "invalid_request_error",
            "param": "messages",
            "code": "c",
        }
    }
    assert spell_error(Refusal("r", "m", 503), "1")["error"]["type"] == "server_error"
