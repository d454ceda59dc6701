import json
from typing import Any

import pytest

from deuz_proxy.demo.provider.exchange import (
    OLLAMA_CHAT,
    OLLAMA_GENERATE,
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
from deuz_proxy.demo.provider.shape_ollama import (
    spell_answer,
    spell_error,
    spell_lines,
)
from deuz_proxy.demo.provider.signing import Signer

PARTS = (Thinking("hm"), Text("some words that are longer than a delta"))
CALL = ToolCall("t", {"a": 1})


def finished(
    *parts: Part,
    wire: str = OLLAMA_CHAT,
    counts: TokenCount | None = None,
    stop: str = "",
) -> Finished:
    request = ProviderRequest(wire, "fake", True, {}, b"")
    counts = counts or TokenCount(uncached=26, output=9)
    return Finished(request, Reply(parts, stop), counts, 7, "s", Signer(), 4)


def lines(made: Finished) -> list[Any]:
    return [json.loads(line) for line in spell_lines(made)]


def test_lines_and_whole_answer_say_the_same() -> None:
    whole = spell_answer(finished(*PARTS, CALL))
    told = lines(finished(*PARTS, CALL))

    messages = [line["message"] for line in told]
    assert "".join(m["content"] for m in messages) == whole["message"]["content"]
    assert "".join(m.get("thinking", "") for m in messages) == "hm"
    assert [m["tool_calls"] for m in messages if "tool_calls" in m] == [
        whole["message"]["tool_calls"]
    ]
    assert [line["done"] for line in told] == [False] * (len(told) - 1) + [True]


def test_counts_stand_in_the_last_line_alone() -> None:
    *others, last = lines(finished(*PARTS))

    assert (last["prompt_eval_count"], last["eval_count"]) == (26, 9)
    assert not any("eval_count" in line for line in others)


@pytest.mark.parametrize(
    ("counts", "is_told"),
    [
        (TokenCount(uncached=26, output=9), True),
        (TokenCount(uncached=6, cache_read=20, output=9), True),
        (TokenCount(uncached=2, cache_read=24, output=9), False),
    ],
)
def test_a_prompt_that_is_in_the_cache_is_not_counted(
    counts: TokenCount, is_told: bool
) -> None:
    answer = spell_answer(finished(Text("x"), counts=counts))

    assert ("prompt_eval_count" in answer) == is_told
    assert answer["eval_count"] == 9


def test_a_prompt_is_answered_with_text_and_a_context() -> None:
    answer = spell_answer(finished(*PARTS, wire=OLLAMA_GENERATE))

    assert answer["response"] == PARTS[1].text
    assert answer["context"]
    assert "message" not in answer


@pytest.mark.parametrize(
    ("stop", "reason"), [("", "stop"), ("length", "length"), ("window", "length")]
)
def test_the_reason_of_the_end_is_told(stop: str, reason: str) -> None:
    assert spell_answer(finished(Text("x"), stop=stop))["done_reason"] == reason


def test_an_error_is_one_text() -> None:
    assert spell_error(Refusal("rule", "no"), "s") == {"error": "no"}
