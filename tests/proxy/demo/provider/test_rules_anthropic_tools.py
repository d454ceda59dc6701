from typing import Any

import pytest

from deuz_proxy.demo.provider.rules_anthropic_tools import check_pairing, check_tools

Json = dict[str, Any]
TEXT = {"type": "text", "text": "x"}


def use(*ids: str) -> Json:
    blocks = [{"type": "tool_use", "id": i, "name": "t", "input": {}} for i in ids]
    return {"role": "assistant", "content": blocks}


def result(call_id: str) -> Json:
    return {"type": "tool_result", "tool_use_id": call_id, "content": "ok"}


def user(*blocks: Json) -> Json:
    return {"role": "user", "content": list(blocks)}


@pytest.mark.parametrize(
    "messages",
    [
        [user(TEXT), use("a", "b"), user(result("b"), result("a"), TEXT)],
        [user(TEXT), use("a"), user(result("a")), user(TEXT)],
        [user(TEXT), use("a"), user(result("a")), use("b"), user(result("b"))],
    ],
)
def test_results_first_and_all_of_them_are_accepted(messages: list[Json]) -> None:
    assert check_pairing(messages) is None


@pytest.mark.parametrize(
    ("messages", "rule"),
    [
        ([user(TEXT), use("a"), user(TEXT, result("a"))], "calls_without_results"),
        ([user(TEXT), use("a", "b"), user(result("a"))], "calls_without_results"),
        (
            [user(TEXT), use("a"), user(TEXT), user(result("a"))],
            "calls_without_results",
        ),
        (
            [user(TEXT), use("a"), {"role": "system", "content": "s"}],
            "calls_without_results",
        ),
        ([user(TEXT), use("a")], "calls_without_results"),
        ([user(result("a"))], "result_without_call"),
        ([user(TEXT), use("a"), user(result("a"), result("z"))], "result_without_call"),
        ([user(TEXT), use("a"), user(result("a"), result("a"))], "duplicate_result"),
        (
            [user(TEXT), use("a"), user(result("a")), use("a"), user(result("a"))],
            "duplicate_call",
        ),
        ([user(use("a")["content"][0])], "tool_block_role"),
        (
            [user(TEXT), {"role": "assistant", "content": [result("a")]}],
            "tool_block_role",
        ),
    ],
)
def test_a_broken_pair_is_refused(messages: list[Json], rule: str) -> None:
    refusal = check_pairing(messages)

    assert refusal is not None
    assert refusal.rule == rule


def test_the_refusal_names_the_message_and_the_calls() -> None:
    refusal = check_pairing([user(TEXT), use("a", "b"), user(TEXT)])

    assert refusal is not None
    assert refusal.message == (
        "messages.1: `tool_use` ids were found without `tool_result` blocks "
        "immediately after: a, b. Each `tool_use` block must have a corresponding "
        "`tool_result` block in the next message."
    )


def test_two_tools_of_one_name_are_refused() -> None:
    refusal = check_tools({"tools": [{"name": "t"}, {"name": "t"}]})

    assert refusal is not None
    assert refusal.message == "tools: Tool names must be unique."
    assert check_tools({"tools": [{"name": "t"}, {"name": "u"}]}) is None
