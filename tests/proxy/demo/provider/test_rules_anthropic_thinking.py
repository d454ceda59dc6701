from typing import Any

import pytest

from deuz_proxy.demo.provider.rules_anthropic_thinking import check_thinking
from deuz_proxy.demo.provider.signing import Seal, Signer

Json = dict[str, Any]
SIGNER = Signer()
USER = {"role": "user", "content": "hi"}
CALL = {"type": "tool_use", "id": "a", "name": "t", "input": {}}
RESULT = {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "a"}]}


def thought(text: str, index: int = 0, count: int = 1) -> Json:
    signature = SIGNER.sign(text, Seal(index, count))
    return {"type": "thinking", "thinking": text, "signature": signature}


def redacted(text: str) -> Json:
    return {"type": "redacted_thinking", "data": SIGNER.wrap(text, Seal(0, 1))}


def rule_of(*answer: Json, tail: tuple[Json, ...] = (RESULT,), **members: Any) -> Any:
    messages = [USER, {"role": "assistant", "content": list(answer)}, *tail]
    refusal = check_thinking({"messages": messages, **members}, SIGNER)
    return refusal and refusal.rule


def test_signed_blocks_come_back_as_they_were() -> None:
    assert rule_of(thought("a", 0, 2), thought("b", 1, 2), CALL) is None
    assert rule_of(redacted("secret"), CALL) is None


def test_a_signed_block_with_empty_text_is_not_empty() -> None:
    assert rule_of(thought(""), CALL) is None


@pytest.mark.parametrize(
    "block",
    [
        {**thought("a"), "thinking": "A"},
        {**thought("a"), "signature": "c2lnbmF0dXJl"},
        {"type": "thinking", "thinking": "a"},
        {**thought("a"), "signature": Signer(b"x").sign("a", Seal(0, 1))},
        {**redacted("a"), "data": redacted("a")["data"][:-4]},
    ],
)
def test_a_changed_or_foreign_block_is_refused_anywhere(block: Json) -> None:
    later = ({"role": "assistant", "content": "b"}, USER)

    assert rule_of(block, CALL) == "thinking_signature"
    assert rule_of(block, CALL, tail=(RESULT, *later)) == "thinking_signature"


@pytest.mark.parametrize(
    "blocks",
    [
        [thought("a", 0, 2)],
        [thought("b", 1, 2)],
        [thought("b", 1, 2), thought("a", 0, 2)],
    ],
)
def test_the_latest_answer_keeps_all_its_thinking_in_order(blocks: list[Json]) -> None:
    later = ({"role": "assistant", "content": "b"}, USER)

    assert rule_of(*blocks, CALL) == "thinking_modified"
    assert rule_of(*blocks, CALL, tail=(RESULT, *later)) is None


def test_thinking_may_be_left_out_as_a_whole() -> None:
    assert rule_of(CALL) is None


def test_enabled_thinking_wants_a_thinking_block_first_in_a_tool_exchange() -> None:
    enabled = {"type": "enabled", "budget_tokens": 1024}

    assert rule_of(CALL, thinking=enabled) == "thinking_first"
    assert rule_of(thought("a"), CALL, thinking=enabled) is None
    assert rule_of({"type": "text", "text": "x"}, thinking=enabled) is None


def test_thinking_belongs_to_the_assistant() -> None:
    tail = ({"role": "user", "content": [thought("a")]},)

    assert rule_of({"type": "text", "text": "x"}, tail=tail) == "thinking_role"
