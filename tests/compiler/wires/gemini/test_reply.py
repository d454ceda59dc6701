import json
from typing import Any

import pytest

from deuz_compiler.wires.metering import ReplyFacts
from deuz_compiler.wires.reply import error_body, error_event, open_meter
from deuz_compiler.wires.usage import Usage

TOO_LONG = {"error": {"code": 400, "message": "too long", "status": "INVALID_ARGUMENT"}}


def response(*parts: Any, finish: str | None = None, **members: Any) -> dict[str, Any]:
    candidate: dict[str, Any] = {"content": {"parts": list(parts)}}
    if finish:
        candidate["finishReason"] = finish
    return {"candidates": [candidate], **members}


def counted(**counts: int) -> dict[str, Any]:
    return {"usageMetadata": counts}


def as_array(*chunks: Any) -> bytes:
    return b"[" + b",\r\n".join(json.dumps(c, indent=1).encode() for c in chunks) + b"]"


def as_events(*chunks: Any) -> bytes:
    return b"".join(b"data: " + json.dumps(c).encode() + b"\r\n\r\n" for c in chunks)


def meter(body: bytes, *, is_event_stream: bool = False) -> ReplyFacts:
    found = open_meter("gemini", is_event_stream=is_event_stream, keep_text=True)
    found.feed(body)
    return found.close()


CHUNKS = (
    response({"text": "Hel"}, **counted(promptTokenCount=100)),
    response(
        {"text": "lo"},
        finish="STOP",
        **counted(
            promptTokenCount=100,
            cachedContentTokenCount=64,
            candidatesTokenCount=7,
            thoughtsTokenCount=3,
            toolUsePromptTokenCount=11,
            totalTokenCount=121,
        ),
        responseId="r1",
        modelVersion="gemini-x",
    ),
)
TOLD = ReplyFacts(
    usage=Usage(input_uncached=47, cache_read=64, output=10, reasoning=3),
    finish_reason="STOP",
    response_id="r1",
    model="gemini-x",
    has_content=True,
    is_complete=True,
    text="Hello",
)


def test_both_forms_of_a_stream_tell_the_same() -> None:
    assert meter(as_events(*CHUNKS), is_event_stream=True) == TOLD
    assert meter(as_array(*CHUNKS)) == TOLD


def test_chunks_behind_the_first_words_are_read_for_their_counts() -> None:
    found = open_meter("gemini", is_event_stream=True)
    for chunk in (*CHUNKS, response({"text": "!"}, **counted(candidatesTokenCount=8))):
        found.feed(as_events(chunk))

    usage = found.close().usage

    assert usage == Usage(input_uncached=47, cache_read=64, output=11, reasoning=3)


def test_events_under_a_json_label_are_read_as_well() -> None:
    assert meter(as_events(*CHUNKS)) == TOLD


@pytest.mark.parametrize("chunk_bytes", [1, 3, 17, 64])
def test_an_array_is_decided_with_its_first_words_not_at_its_end(
    chunk_bytes: int,
) -> None:
    body = as_array(*CHUNKS)
    found = open_meter("gemini", is_event_stream=False, keep_text=True)
    decided_at = None
    for at in range(0, len(body), chunk_bytes):
        found.feed(body[at : at + chunk_bytes])
        if found.decisive and decided_at is None:
            decided_at = at + chunk_bytes

    assert found.close() == TOLD
    assert decided_at is not None
    assert decided_at < body.index(b"lo") + chunk_bytes


def test_an_error_in_an_array_is_the_error_itself() -> None:
    facts = meter(as_array(TOO_LONG))

    assert json.loads(facts.error_body or b"") == TOO_LONG


def test_the_newest_counts_replace() -> None:
    earlier = response(**counted(promptTokenCount=1, candidatesTokenCount=9))

    assert meter(as_array(earlier, *CHUNKS)).usage == TOLD.usage


def test_a_prompt_that_was_blocked_says_so() -> None:
    body = {"promptFeedback": {"blockReason": "SAFETY"}, **counted(promptTokenCount=5)}

    facts = meter(json.dumps(body).encode())

    assert (facts.finish_reason, facts.has_content) == ("SAFETY", False)
    assert facts.is_complete
    assert facts.usage == Usage(input_uncached=5)


@pytest.mark.parametrize(
    ("part", "text", "is_call"),
    [
        ({"text": "hm", "thought": True}, "", False),
        ({"functionCall": {"name": "f", "args": {}}}, "", True),
        ({"inlineData": {"data": "x"}}, "", False),
        ({"executableCode": {"code": "1"}}, "", False),
        ({"codeExecutionResult": {"output": "1"}}, "", False),
        ({"text": "words"}, "words", False),
    ],
)
def test_what_a_part_shows_is_content(part: Any, text: str, is_call: bool) -> None:
    facts = meter(json.dumps(response(part)).encode())

    assert facts.has_content
    assert (facts.text, facts.had_tool_call) == (text, is_call)


def test_thinking_that_used_up_the_limit_left_no_content() -> None:
    body = {
        "candidates": [{"finishReason": "MAX_TOKENS", "content": {"role": "model"}}]
    }

    facts = meter(json.dumps(body).encode())

    assert (facts.has_content, facts.finish_reason) == (False, "MAX_TOKENS")


def test_an_answer_that_was_cut_off_is_not_complete() -> None:
    facts = meter(as_array(*CHUNKS)[:-40])

    assert (facts.is_finished, facts.text) == (False, "Hel")
    assert facts.faults == 1


@pytest.mark.parametrize(
    ("status", "name"), [(404, "NOT_FOUND"), (502, "UNAVAILABLE"), (500, "INTERNAL")]
)
def test_an_error_of_ours_has_googles_shape(status: int, name: str) -> None:
    body = error_body("gemini", status=status, code="gone", message="m")

    error = json.loads(body)["error"]
    assert (error["code"], error["status"], error["message"]) == (status, name, "m")
    assert error["details"][0]["reason"] == "gone"
    assert error_event("gemini", status=status, code="gone", message="m") == (
        b"data: " + body + b"\n\n"
    )
