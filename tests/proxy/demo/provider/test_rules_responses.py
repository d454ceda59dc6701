from typing import Any

import pytest

from deuz_proxy.demo.provider.exchange import RESPONSES, ProviderRequest, Refusal
from deuz_proxy.demo.provider.rules_responses import check_responses
from deuz_proxy.demo.provider.signing import Seal, Signer

Json = dict[str, Any]
SIGNER = Signer()
USER = {"role": "user", "content": "hi"}
ANSWER = {
    "type": "message",
    "role": "assistant",
    "content": [{"type": "output_text", "text": "hello"}],
}
THOUGHT = {"type": "reasoning", "id": "rs_1", "summary": []}


def call(call_id: str, kind: str = "function_call") -> Json:
    return {"type": kind, "call_id": call_id, "name": "t", "arguments": "{}"}


def output(call_id: str, kind: str = "function_call_output") -> Json:
    return {"type": kind, "call_id": call_id, "output": "ok"}


def judge(*items: Json, history: tuple[Json, ...] = (), **members: Any) -> Any:
    payload = {"model": "fake", "input": list(items), **members}
    request = ProviderRequest(RESPONSES, "fake", False, payload, b"", history=history)
    return check_responses(request, SIGNER)


def rule_of(refusal: Refusal | None) -> str | None:
    return refusal.rule if refusal else None


@pytest.mark.parametrize(
    "items",
    [
        (USER, THOUGHT, ANSWER, USER),
        (USER, THOUGHT, call("a"), call("b"), output("b"), output("a"), USER),
        (USER, call("a", "custom_tool_call"), output("a", "custom_tool_call_output")),
        ({"type": "item_reference", "id": "msg_1"}, USER, USER),
    ],
)
def test_items_in_order_are_accepted(items: tuple[Json, ...]) -> None:
    assert judge(*items) is None


@pytest.mark.parametrize(
    ("items", "rule"),
    [
        ((USER, call("a"), USER), "calls_without_results"),
        ((USER, call("a"), USER, output("a")), "calls_without_results"),
        ((USER, call("a")), "calls_without_results"),
        ((USER, output("a")), "result_without_call"),
        (
            (USER, call("a"), output("a", "custom_tool_call_output")),
            "result_without_call",
        ),
        ((USER, THOUGHT), "reasoning_alone"),
        ((USER, THOUGHT, USER), "reasoning_alone"),
        (({**USER, "id": "m"}, {**USER, "id": "m"}), "duplicate_item"),
        (({**USER, "role": "tool"},), "value"),
        (({"id": "x"},), "missing_parameter"),
        ((), "empty_messages"),
    ],
)
def test_a_broken_rule_is_refused(items: tuple[Json, ...], rule: str) -> None:
    assert rule_of(judge(*items)) == rule


def test_the_refusal_speaks_like_openai() -> None:
    assert judge(USER, output("call_1")).message == (
        "No tool call found for function call output with call_id call_1."
    )
    assert judge(USER, call("call_1"), USER).message == (
        "No tool output found for function call call_1."
    )
    assert judge(USER, THOUGHT).message == (
        "Item 'rs_1' of type 'reasoning' was provided without its required following "
        "item."
    )


@pytest.mark.parametrize(
    ("role", "kind"), [("user", "output_text"), ("assistant", "input_text")]
)
def test_text_parts_belong_to_a_side(role: str, kind: str) -> None:
    message = {"role": role, "content": [{"type": kind, "text": "x"}]}

    refusal = judge(message)

    assert (refusal.rule, refusal.param) == ("value", "input[0].content[0]")


def test_a_held_call_may_be_answered() -> None:
    assert judge(output("a"), history=(USER, call("a"))) is None


def test_foreign_encrypted_reasoning_is_refused() -> None:
    own = {**THOUGHT, "encrypted_content": SIGNER.wrap("x", Seal(0, 1))}
    foreign = {**THOUGHT, "encrypted_content": "gAAAA"}

    assert judge(USER, own, ANSWER) is None
    assert judge(USER, foreign, ANSWER).code == "invalid_encrypted_content"


def test_a_string_is_input_enough() -> None:
    assert judge(input="hi") is None
    assert rule_of(judge(input=3)) == "parameter_type"
