from typing import Any

import pytest

from deuz_proxy.demo.provider.exchange import CHAT, ProviderRequest, Refusal
from deuz_proxy.demo.provider.rules_chat import check_chat

Json = dict[str, Any]
SYSTEM = {"role": "system", "content": "s"}
USER = {"role": "user", "content": "hi"}
ANSWER = {"role": "assistant", "content": "hello"}


def calls(*ids: str) -> Json:
    entries = [
        {"id": i, "type": "function", "function": {"name": "t", "arguments": "{}"}}
        for i in ids
    ]
    return {"role": "assistant", "content": None, "tool_calls": entries}


def tool(call_id: str) -> Json:
    return {"role": "tool", "tool_call_id": call_id, "content": "ok"}


def judge(*messages: Json, alternate: bool = False, **members: Any) -> Refusal | None:
    payload = {"model": "fake", "messages": list(messages), **members}
    request = ProviderRequest(CHAT, "fake", False, payload, b"")
    return check_chat(request, alternate=alternate)


def rule_of(refusal: Refusal | None) -> str | None:
    return refusal.rule if refusal else None


@pytest.mark.parametrize(
    "messages",
    [
        (SYSTEM, SYSTEM, USER, USER, ANSWER, ANSWER, SYSTEM),
        (USER, calls("a", "b"), tool("b"), tool("a"), USER),
        ({"role": "user", "content": ""},),
        ({"role": "developer", "content": [{"type": "text", "text": ""}]},),
    ],
)
def test_openai_is_lenient_about_roles_and_blank_text(
    messages: tuple[Json, ...],
) -> None:
    assert judge(*messages) is None


@pytest.mark.parametrize(
    ("messages", "rule"),
    [
        ((USER, calls("a", "b"), tool("a"), USER, tool("b")), "calls_without_results"),
        ((USER, calls("a"), USER), "calls_without_results"),
        ((USER, calls("a")), "calls_without_results"),
        ((USER, tool("a")), "result_without_call"),
        ((USER, calls("a"), tool("z")), "result_without_call"),
        ((USER, calls("a"), tool("a"), USER, tool("a")), "result_without_call"),
        ((USER, calls("a"), tool("a"), tool("a")), "duplicate_result"),
        ((USER, calls(), USER), "null_content"),
        (({"role": "user", "content": None},), "null_content"),
        (({"role": "user", "content": []},), "empty_content"),
        (({"role": "robot", "content": "x"},), "value"),
        (({"role": "tool", "content": [{"type": "image_url"}]},), "value"),
        ((), "empty_messages"),
    ],
)
def test_a_broken_rule_is_refused(messages: tuple[Json, ...], rule: str) -> None:
    assert rule_of(judge(*messages)) == rule


def test_the_refusal_names_the_unanswered_calls() -> None:
    refusal = judge(USER, calls("a", "b"), tool("a"), USER)

    assert refusal is not None
    assert refusal.message == (
        "An assistant message with 'tool_calls' must be followed by tool messages "
        "responding to each 'tool_call_id'. The following tool_call_ids did not have "
        "response messages: b"
    )
    assert refusal.param == "messages.[3].role"


def test_an_orphaned_result_has_openais_spelling() -> None:
    refusal = judge(USER, tool("a"))

    assert refusal is not None
    assert "must be a response to a preceeding message" in refusal.message


@pytest.mark.parametrize(
    ("members", "rule"),
    [
        ({"tools": []}, "empty_tools"),
        ({"tools": [{"type": "function"}] * 129}, "too_many_tools"),
        ({"tool_choice": "auto"}, "tool_choice"),
        ({"tool_choice": "none"}, None),
        ({"tools": [{"function": {"name": "t"}}] * 2}, None),
    ],
)
def test_tools_follow_openais_rules(members: Json, rule: str | None) -> None:
    assert rule_of(judge(USER, **members)) == rule


@pytest.mark.parametrize(
    ("messages", "words"),
    [
        ((SYSTEM, USER, ANSWER, USER), None),
        ((USER, calls("a"), tool("a"), ANSWER, USER), None),
        ((USER, USER), "Conversation roles must alternate user/assistant"),
        ((USER, calls("a"), tool("a"), USER), "Conversation roles must alternate"),
        ((USER, SYSTEM), "System message must be at the beginning."),
    ],
)
def test_a_chat_template_demands_alternation(
    messages: tuple[Json, ...], words: str | None
) -> None:
    refusal = judge(*messages, alternate=True)

    assert (refusal.message if refusal else "").startswith(words or "")
    assert (refusal is None) == (words is None)


def test_an_empty_list_of_calls_is_refused() -> None:
    refusal = judge(USER, {"role": "assistant", "content": "x", "tool_calls": []})

    assert refusal is not None
    assert refusal.code == "empty_array"


@pytest.mark.parametrize(
    ("message", "rule"),
    [
        ({"role": "user", "content": 3}, "shape"),
        ({"role": "tool", "content": "x"}, "missing_parameter"),
    ],
)
def test_a_message_of_another_shape_is_refused(message: Json, rule: str) -> None:
    assert rule_of(judge(message)) == rule
