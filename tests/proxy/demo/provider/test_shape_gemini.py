import json
from typing import Any

from deuz_proxy.demo.provider.exchange import (
    GEMINI,
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
from deuz_proxy.demo.provider.shape_gemini import (
    spell_chunks,
    spell_content,
    spell_error,
)
from deuz_proxy.demo.provider.signing import Signer

COUNTS = TokenCount(uncached=10, cache_read=128, output=5, reasoning=2)
PARTS = (
    Thinking("a"),
    Text("some words that are longer than one delta"),
    ToolCall("t", {"a": 1}),
)


def finished(*parts: Part, alt: str = "") -> Finished:
    request = ProviderRequest(GEMINI, "fake", True, {}, b"", query={"alt": alt})
    return Finished(request, Reply(parts), COUNTS, 7, "s", Signer())


def test_thoughts_are_counted_beside_the_candidates() -> None:
    assert spell_content(finished(Text("x")))["usageMetadata"] == {
        "promptTokenCount": 138,
        "cachedContentTokenCount": 128,
        "candidatesTokenCount": 3,
        "thoughtsTokenCount": 2,
        "totalTokenCount": 143,
    }


def test_events_and_array_hold_the_same_responses() -> None:
    events = [
        json.loads(line[len(b"data: ") :])
        for line in spell_chunks(finished(*PARTS, alt="sse"))
    ]

    array: list[Any] = json.loads(b"".join(spell_chunks(finished(*PARTS))))

    assert array == events
    assert [e["candidates"][0].get("finishReason") for e in events][-2:] == [
        None,
        "STOP",
    ]
    assert all("usageMetadata" in event for event in events)


def test_chunks_build_the_text() -> None:
    array: list[Any] = json.loads(b"".join(spell_chunks(finished(*PARTS))))
    parts = [part for e in array for part in e["candidates"][0]["content"]["parts"]]

    text = "".join(p["text"] for p in parts if "text" in p and "thought" not in p)

    assert text == "some words that are longer than one delta"


def test_a_call_is_signed() -> None:
    (part,) = spell_content(finished(PARTS[2]))["candidates"][0]["content"]["parts"]

    assert part["functionCall"] == {"name": "t", "args": {"a": 1}}
    assert Signer().unwrap(part["thoughtSignature"]) is not None


def test_an_error_has_googles_status_word() -> None:
    assert spell_error(Refusal("r", "no", status=429), "1") == {
        "error": {"code": 429, "message": "no", "status": "RESOURCE_EXHAUSTED"}
    }
