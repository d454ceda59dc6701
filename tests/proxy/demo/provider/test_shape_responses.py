import json
from typing import Any

import pytest

from deuz_proxy.demo.provider.exchange import (
    RESPONSES,
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
from deuz_proxy.demo.provider.shape_responses import (
    output_items,
    spell_events,
    spell_failed_events,
    spell_response,
)
from deuz_proxy.demo.provider.signing import Signer

COUNTS = TokenCount(uncached=10, cache_read=128, output=3, reasoning=1)
ENCRYPTED: dict[str, Any] = {"include": ["reasoning.encrypted_content"]}


def finished(*parts: Part, stop: str = "", **payload: Any) -> Finished:
    request = ProviderRequest(RESPONSES, "fake", True, payload, b"")
    return Finished(request, Reply(parts, stop), COUNTS, 7, "s", Signer())


def read(lines: list[bytes]) -> list[dict[str, Any]]:
    return [json.loads(line.split(b"data: ", 1)[1]) for line in lines]


def test_events_are_numbered_and_typed_in_the_providers_order() -> None:
    events = read(list(spell_events(finished(Text("a"), ToolCall("t", {}, "1")))))

    assert [event["sequence_number"] for event in events] == list(range(len(events)))
    assert [event["type"].removeprefix("response.") for event in events] == [
        "created",
        "in_progress",
        "output_item.added",
        "content_part.added",
        "output_text.delta",
        "output_text.done",
        "content_part.done",
        "output_item.done",
        "output_item.added",
        "function_call_arguments.delta",
        "function_call_arguments.done",
        "output_item.done",
        "completed",
    ]


def test_the_last_event_holds_the_whole_response() -> None:
    answer = finished(Thinking("a"), Text("b"))

    events = read(list(spell_events(answer)))

    assert events[-1]["response"] == spell_response(answer)
    assert events[0]["response"]["usage"] is None


def test_deltas_build_the_items() -> None:
    answer = finished(
        Thinking("thinking that is longer than a delta"),
        Text("some words that are longer than one delta"),
        ToolCall("t", {"city": "a long enough name"}, "1"),
    )
    built: dict[int, str] = {}
    for event in read(list(spell_events(answer))):
        if event["type"].endswith(".delta"):
            place = event["output_index"]
            built[place] = built.get(place, "") + event["delta"]

    thought, text, call = output_items(answer)
    assert built == {
        0: thought["summary"][0]["text"],
        1: text["content"][0]["text"],
        2: call["arguments"],
    }


def test_usage_includes_cached_tokens() -> None:
    usage = spell_response(finished(Text("x")))["usage"]

    assert usage["input_tokens"] == 138
    assert usage["input_tokens_details"]["cached_tokens"] == 128
    assert usage["output_tokens_details"]["reasoning_tokens"] == 1


@pytest.mark.parametrize(
    ("stop", "reason"),
    [
        ("length", "max_output_tokens"),
        ("window", "max_output_tokens"),
        ("refusal", "content_filter"),
    ],
)
def test_an_incomplete_response_says_why(stop: str, reason: str) -> None:
    answer = finished(Text("x"), stop=stop)

    assert spell_response(answer)["incomplete_details"] == {"reason": reason}
    assert read(list(spell_events(answer)))[-1]["type"] == "response.incomplete"


def test_reasoning_is_encrypted_only_if_asked() -> None:
    plain, secret = (
        output_items(finished(Thinking("a"), **payload))[0]
        for payload in ({}, ENCRYPTED)
    )

    assert "encrypted_content" not in plain
    assert Signer().unwrap(secret["encrypted_content"]) is not None


def test_a_stream_fails_after_its_head_without_numbers() -> None:
    request = ProviderRequest(RESPONSES, "fake", True, {}, b"")
    refusal = Refusal("overflow", "too long", code="context_length_exceeded")

    events = read(list(spell_failed_events(request, refusal, serial="s", created=7)))

    assert [event["type"] for event in events] == [
        "response.created",
        "response.in_progress",
        "error",
        "response.failed",
    ]
    assert events[2]["code"] == "context_length_exceeded"
    assert events[3]["response"]["error"]["code"] == "context_length_exceeded"


def test_parameters_of_the_request_are_repeated() -> None:
    response = spell_response(finished(Text("x"), instructions="be brief", store=False))

    assert (response["instructions"], response["store"]) == ("be brief", False)
