from typing import Any

import pytest

from deuz_proxy.demo.provider.exchange import ANTHROPIC, ProviderRequest, Refusal
from deuz_proxy.demo.provider.rules_anthropic import check_anthropic, is_blank
from deuz_proxy.demo.provider.signing import Signer

Json = dict[str, Any]
USER = {"role": "user", "content": "hi"}
ASSISTANT = {"role": "assistant", "content": "hello"}
SYSTEM = {"role": "system", "content": "be brief"}


def judge(
    *messages: Json, model: str = "fake", alternate: bool = False, **members: Any
) -> Refusal | None:
    payload = {"model": model, "max_tokens": 9, "messages": list(messages), **members}
    request = ProviderRequest(
        wire=ANTHROPIC, model=model, is_streamed=False, payload=payload, body=b""
    )
    return check_anthropic(request, Signer(), alternate=alternate)


def rule_of(refusal: Refusal | None) -> str | None:
    return refusal.rule if refusal else None


def test_a_conversation_in_order_is_accepted() -> None:
    assert judge(USER, ASSISTANT, USER, system="x", zz_future={"a": 1}) is None


@pytest.mark.parametrize(
    ("members", "message"),
    [
        ({"max_tokens": None}, "max_tokens: Field required"),
        ({"max_tokens": 0}, "max_tokens: Input should be greater than or equal to 1"),
        ({"max_tokens": True}, "max_tokens: Input should be a valid integer"),
        ({"messages": None}, "messages: Field required"),
        ({"messages": []}, "messages: at least one message is required"),
        ({"messages": "hi"}, "messages: Input should be a valid list"),
        ({"messages": [{"role": "user"}]}, "messages.0.content: Field required"),
        ({"temperature": "hot"}, "temperature: Input should be a valid number"),
        (
            {"thinking": {"type": "enabled", "budget_tokens": 9}},
            "`max_tokens` must be greater than `thinking.budget_tokens`.",
        ),
    ],
)
def test_a_parameter_is_refused_by_name(members: Json, message: str) -> None:
    refusal = judge(USER, **members)

    assert refusal is not None
    assert refusal.message == message


def test_counting_needs_no_output_limit() -> None:
    payload = {"model": "fake", "messages": [USER]}
    request = ProviderRequest(ANTHROPIC, "fake", False, payload, b"", purpose="count")

    assert check_anthropic(request, Signer()) is None


@pytest.mark.parametrize("text", [" \n\t", "\u200b", "\ufeff", "\u00ad", "\u2060 "])
@pytest.mark.parametrize("form", ["string", "block"])
def test_a_text_that_shows_nothing_is_blank(text: str, form: str) -> None:
    content = text if form == "string" else [{"type": "text", "text": text}]

    refusal = judge({"role": "user", "content": content})

    assert refusal is not None
    assert refusal.message == (
        "messages: text content blocks must contain non-whitespace text"
    )


def test_an_empty_block_has_its_own_words() -> None:
    refusal = judge({"role": "user", "content": [{"type": "text", "text": ""}]})

    assert refusal is not None
    assert refusal.message == "messages: text content blocks must be non-empty"


def test_one_visible_character_is_enough() -> None:
    assert not is_blank("\u200b.\ufeff")


@pytest.mark.parametrize("content", ["", []])
def test_only_the_final_answer_may_be_empty(content: object) -> None:
    empty = {"role": "assistant", "content": content}

    refused = judge(USER, empty, USER, model="claude-haiku-4-5")

    assert refused is not None
    assert refused.message == (
        "messages.1: all messages must have non-empty content except for the "
        "optional final assistant message"
    )


def test_the_first_message_is_the_users() -> None:
    assert rule_of(judge(ASSISTANT, USER)) == "first_role"


def test_an_unknown_role_is_refused() -> None:
    assert rule_of(judge({"role": "tool", "content": "x"})) == "unknown_role"


def test_prefill_depends_on_the_model() -> None:
    assert rule_of(judge(USER, ASSISTANT, model="claude-opus-4-6")) == "prefill"
    assert judge(USER, ASSISTANT, model="claude-haiku-4-5") is None


def test_a_prefill_must_not_end_in_white_space() -> None:
    spaced = {"role": "assistant", "content": "The answer is "}

    refusal = judge(USER, spaced, model="claude-haiku-4-5")

    assert rule_of(refusal) == "prefill_whitespace"


@pytest.mark.parametrize(
    ("messages", "rule"),
    [
        ((USER, SYSTEM), None),
        ((USER, SYSTEM, SYSTEM, ASSISTANT, USER), None),
        ((SYSTEM, USER), "system_turn_place"),
        ((USER, SYSTEM, USER), "system_turn_place"),
        ((USER, ASSISTANT, SYSTEM), "system_turn_place"),
    ],
)
def test_a_system_turn_stands_between_user_and_answer(
    messages: tuple[Json, ...], rule: str | None
) -> None:
    assert rule_of(judge(*messages, model="claude-opus-4-8")) == rule


def test_an_older_model_takes_no_system_turn() -> None:
    refusal = judge(USER, SYSTEM, model="claude-sonnet-5")

    assert refusal is not None
    assert refusal.message == "role 'system' is not supported on this model"


def test_runs_of_one_role_are_merged_unless_alternation_is_demanded() -> None:
    assert judge(USER, USER) is None
    assert rule_of(judge(USER, USER, alternate=True)) == "alternation"
    assert judge(USER, ASSISTANT, USER, alternate=True) is None


@pytest.mark.parametrize(
    ("message", "rule"),
    [
        ("hi", "shape"),
        ({"role": "user", "content": [{"text": "no type"}]}, "shape"),
        ({"role": "user", "content": [{"type": "text"}]}, "shape"),
        ({"role": "user", "content": 3}, "shape"),
    ],
)
def test_a_message_of_another_shape_is_refused(message: Any, rule: str) -> None:
    assert rule_of(judge(message)) == rule


def test_an_empty_part_of_a_result_is_refused_but_white_space_is_not() -> None:
    def exchange(printed: str) -> Refusal | None:
        call = {"type": "tool_use", "id": "a", "name": "t", "input": {}}
        parts = [{"type": "text", "text": printed}]
        result = {"type": "tool_result", "tool_use_id": "a", "content": parts}
        return judge(
            USER,
            {"role": "assistant", "content": [call]},
            {"role": "user", "content": [result]},
        )

    assert rule_of(exchange("")) == "blank_text"
    assert exchange("\n") is None


def test_a_system_turn_may_follow_the_result_of_a_server_tool() -> None:
    found = {"type": "web_search_tool_result", "tool_use_id": "s", "content": []}
    answer = {"role": "assistant", "content": [found]}

    assert judge(USER, answer, SYSTEM, model="claude-haiku-4-5") is not None
    assert rule_of(judge(USER, answer, SYSTEM, model="fake")) == "prefill"
    assert judge(USER, answer, SYSTEM, ASSISTANT, USER, model="fake") is None
