from typing import Any

import pytest

from deuz_proxy.demo.provider.exchange import GEMINI, ProviderRequest, Refusal
from deuz_proxy.demo.provider.rules_gemini import check_gemini, member, role_of
from deuz_proxy.demo.provider.signing import Seal, Signer

Json = dict[str, Any]
SIGNER = Signer()


def turn(role: str, *parts: Json) -> Json:
    return {"role": role, "parts": list(parts)}


USER = turn("user", {"text": "hi"})
MODEL = turn("model", {"text": "hello"})
CALL = {"functionCall": {"name": "t", "args": {}}}
RESULT = turn("user", {"functionResponse": {"name": "t", "response": {}}})


def judge(
    *turns: Json, model: str = "gemini-2.5-pro", alternate: bool = False, **members: Any
) -> Refusal | None:
    payload = {"contents": list(turns), **members}
    request = ProviderRequest(GEMINI, model, False, payload, b"")
    return check_gemini(request, SIGNER, alternate=alternate)


def rule_of(refusal: Refusal | None) -> str | None:
    return refusal.rule if refusal else None


@pytest.mark.parametrize(
    "turns",
    [
        (USER, MODEL, USER),
        (USER, USER),
        (USER, turn("model", CALL), RESULT, turn("model", CALL), RESULT),
        (USER, turn("model", CALL), turn("function", *RESULT["parts"])),
        ({"parts": [{"text": "no role"}]},),
    ],
)
def test_turns_in_order_are_accepted(turns: tuple[Json, ...]) -> None:
    assert judge(*turns) is None


@pytest.mark.parametrize(
    ("turns", "rule"),
    [
        ((), "empty_messages"),
        ((turn("user"),), "empty_content"),
        ((turn("user", {}),), "empty_content"),
        ((MODEL, USER), "first_role"),
        ((turn("model", CALL), RESULT), "call_place"),
        ((USER, MODEL, turn("model", CALL), RESULT), "call_place"),
        ((USER, turn("model", CALL, CALL), RESULT), "calls_without_results"),
        ((USER, turn("model", CALL), USER, RESULT), "calls_without_results"),
        ((USER, turn("model", CALL)), "calls_without_results"),
        ((USER, RESULT), "calls_without_results"),
        ((USER, MODEL, RESULT), "calls_without_results"),
        ((turn("robot", {"text": "x"}),), "unknown_role"),
    ],
)
def test_a_broken_rule_is_refused(turns: tuple[Json, ...], rule: str) -> None:
    assert rule_of(judge(*turns)) == rule


def test_two_declarations_of_one_name_are_refused() -> None:
    declared = [{"function_declarations": [{"name": "t"}]}] * 2

    refusal = judge(USER, tools=declared)

    assert refusal is not None
    assert refusal.message == "Duplicate function declaration found: t"


def test_a_new_model_wants_the_signature_back_in_the_current_turn_only() -> None:
    signed = {**CALL, "thoughtSignature": SIGNER.wrap("t", Seal(0, 1))}
    unsigned = (USER, turn("model", CALL), RESULT)

    assert rule_of(judge(*unsigned, model="gemini-3-pro")) == "thinking_signature"
    assert judge(*unsigned, model="gemini-2.5-pro") is None
    assert (
        judge(
            USER,
            turn("model", signed, CALL),
            turn("user", *RESULT["parts"] * 2),
            model="gemini-3-pro",
        )
        is None
    )
    assert judge(*unsigned, MODEL, USER, model="gemini-3-pro") is None


def test_a_changed_signature_is_corrupted() -> None:
    forged = {**CALL, "thought_signature": "eHg="}

    refusal = judge(USER, turn("model", forged), RESULT)

    assert refusal is not None
    assert refusal.message == "Corrupted thought signature."


def test_the_documented_stand_in_is_accepted() -> None:
    imported = {**CALL, "thoughtSignature": "skip_thought_signature_validator"}

    assert judge(USER, turn("model", imported), RESULT, model="gemini-3-pro") is None


def test_alternation_is_demanded_on_request() -> None:
    assert rule_of(judge(USER, USER, alternate=True)) == "alternation"
    assert judge(USER, turn("model", CALL), RESULT, MODEL, alternate=True) is None


def test_members_are_read_in_both_spellings() -> None:
    assert member({"system_instruction": 1}, "systemInstruction") == 1
    assert role_of(turn("user", {"function_response": {}})) == "result"
