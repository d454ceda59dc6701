import json
from typing import Any

import pytest

from deuz_compiler.wires.metering import ReplyFacts
from deuz_compiler.wires.reply import error_body, error_event, open_meter
from deuz_compiler.wires.usage import Usage

DONE = {"done": True, "done_reason": "stop", "prompt_eval_count": 26, "eval_count": 9}


def line(**members: Any) -> bytes:
    value = {"model": "llama3", **members}
    return json.dumps(value, separators=(",", ":")).encode() + b"\n"


def said(content: str, **members: Any) -> bytes:
    return line(message={"role": "assistant", "content": content}, **members)


def meter(
    *chunks: bytes, wire: str = "ollama_chat", keep_text: bool = True
) -> ReplyFacts:
    found = open_meter(wire, is_event_stream=False, keep_text=keep_text)
    for chunk in chunks:
        found.feed(chunk)
    return found.close()


def test_a_stream_of_lines_tells_words_and_counts() -> None:
    facts = meter(said("Hel", done=False), said("lo", done=False), said("", **DONE))

    assert facts == ReplyFacts(
        usage=Usage(input_uncached=26, output=9),
        finish_reason="stop",
        model="llama3",
        has_content=True,
        is_complete=True,
        text="Hello",
    )


def test_lines_of_words_are_passed_over_behind_the_first() -> None:
    lines = [said("a", done=False), said("b", done=False) * 3, said("", **DONE)]

    facts = meter(*lines, keep_text=False)

    assert (facts.usage, facts.text) == (Usage(input_uncached=26, output=9), None)


@pytest.mark.parametrize("colon", [":", ": ", " : ", ":\t"])
def test_the_last_line_is_found_however_it_is_spaced(colon: str) -> None:
    last = json.dumps({"model": "llama3", **DONE}, separators=(",", colon)).encode()

    facts = meter(said("a", done=False), last + b"\n", keep_text=False)

    assert (facts.usage, facts.finish_reason) == (
        Usage(input_uncached=26, output=9),
        "stop",
    )


def test_an_object_of_several_lines_is_not_taken_for_two() -> None:
    last = b'{"message":{"role":"assistant"}\n,"done":true,"eval_count":9}\n'
    cut = last.index(b'\n,"done"') + 1
    first, many = said("a", done=False), said("b", done=False) * 100

    facts = meter(first, many + last[:cut], last[cut:], keep_text=False)

    assert (facts.usage, facts.is_complete) == (Usage(output=9), True)


@pytest.mark.parametrize("wire", ["ollama_chat", "ollama_generate"])
def test_a_whole_answer_is_read_like_a_line(wire: str) -> None:
    body = json.dumps({"model": "llama3", "response": "Hello", **DONE}, indent=2)

    facts = meter(body.encode(), wire=wire)

    assert (facts.text, facts.finish_reason) == ("Hello", "stop")
    assert facts.usage == Usage(input_uncached=26, output=9)


def test_a_prompt_found_in_the_cache_has_no_count_and_that_is_not_zero() -> None:
    counts = {"done": True, "done_reason": "stop", "eval_count": 9}

    assert meter(said("a", **counts)).usage == Usage(output=9)
    assert meter(said("a", done=True)).usage is None


def test_a_count_below_zero_is_no_count() -> None:
    usage = meter(said("a", **{**DONE, "prompt_eval_count": -1})).usage

    assert usage == Usage(input_uncached=0, output=9, is_anomalous=True)


def test_an_error_ends_a_stream_under_a_good_status() -> None:
    failed = line(error="the input length exceeds the context length")

    facts = meter(said("a", done=False), failed, keep_text=False)

    assert facts.error_body == failed.strip()


@pytest.mark.parametrize(
    ("members", "is_call"),
    [
        ({"message": {"thinking": "hm", "content": ""}}, False),
        ({"message": {"tool_calls": [{"function": {"name": "f"}}]}}, True),
        ({"response": "", "thinking": "hm"}, False),
        ({"image": "iVBORw0KGgo="}, False),
    ],
)
def test_thinking_calls_and_pictures_are_content(
    members: dict[str, Any], is_call: bool
) -> None:
    facts = meter(line(**members, done=False))

    assert facts.has_content
    assert (facts.had_tool_call, facts.text) == (is_call, "")


def test_loading_a_model_says_nothing() -> None:
    facts = meter(line(response="", done=True, done_reason="load"))

    assert (facts.has_content, facts.finish_reason) == (False, "load")


def test_an_error_of_ours_is_a_text_for_its_clients() -> None:
    body = error_body("ollama_chat", status=502, code="gone", message="m")

    assert json.loads(body) == {"error": "m", "type": "sidecar_error", "code": "gone"}
    assert error_event("ollama", status=502, code="gone", message="m") == body + b"\n"
