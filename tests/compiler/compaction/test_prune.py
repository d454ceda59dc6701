import json

import pytest

from deuz_compiler.compaction.plan import Plan
from deuz_compiler.compaction.prune import prune_reasoning, prune_results
from deuz_testing.histories import WIRES, condense, history_of, tool_round

LONG = "line of output\n" * 50
STUB = f"[pruned {len(LONG)} chars]"


@pytest.mark.parametrize("wire", WIRES)
def test_results_become_stubs_and_everything_else_stays(wire: str) -> None:
    messages = tool_round(wire, ["a", "b"], LONG, "hm")
    history = history_of(wire, messages)

    found = prune_results(history, [False] * len(history))

    expected = json.loads(json.dumps(messages).replace(json.dumps(LONG)[1:-1], STUB))
    assert condense(wire, messages, Plan(found)) == expected
    assert all(pruned.saved_tokens > 0 for pruned in found)


@pytest.mark.parametrize("wire", WIRES)
def test_second_pass_and_protected_turns_change_nothing(wire: str) -> None:
    stubbed = history_of(wire, tool_round(wire, ["a"], STUB, ""))
    fresh = history_of(wire, tool_round(wire, ["a"], LONG, "hm"))

    assert prune_results(stubbed, [False, False]) == ()
    assert prune_results(fresh, [True, True]) == ()
    assert prune_reasoning(fresh, [True, True]) == ()


@pytest.mark.parametrize(("length", "is_pruned"), [(17, False), (18, True)])
def test_result_must_become_shorter(length: int, is_pruned: bool) -> None:
    history = history_of("anthropic", tool_round("anthropic", ["a"], "x" * length, ""))

    assert bool(prune_results(history, [False, False])) is is_pruned


def test_result_of_several_blocks_tells_the_length_of_its_json() -> None:
    content = [{"type": "text", "text": LONG}, {"type": "image", "source": {}}]
    block = {"type": "tool_result", "tool_use_id": "a", "content": content}
    history = history_of("anthropic", [{"role": "user", "content": [block]}])

    (pruned,) = prune_results(history, [False])

    characters = len(json.dumps(content, ensure_ascii=False))
    assert pruned.stubs == ((0, b'"[pruned %d chars]"' % characters),)


@pytest.mark.parametrize("wire", WIRES)
def test_reasoning_goes_and_the_turn_stays_valid(wire: str) -> None:
    messages = tool_round(wire, ["a"], "r", "a long thought")
    history = history_of(wire, messages)

    found = prune_reasoning(history, [False, False])

    left = condense(wire, messages, Plan(found))
    assert "a long thought" not in json.dumps(left)
    assert left == tool_round(wire, ["a"], "r", "")
    assert prune_reasoning(history_of(wire, left), [False, False]) == ()


def test_turn_that_is_all_reasoning_keeps_it() -> None:
    thought = {"type": "thinking", "thinking": "hm", "signature": "s"}
    history = history_of("anthropic", [{"role": "assistant", "content": [thought]}])

    assert prune_reasoning(history, [False]) == ()


def test_reasoning_in_two_members_is_cut_in_the_order_of_the_bytes() -> None:
    message = {
        "role": "assistant",
        "reasoning_details": [{"text": "hm"}],
        "content": "t",
        "reasoning": "hm",
    }
    history = history_of("openai_chat", [message])

    found = prune_reasoning(history, [False])

    left = condense("openai_chat", [message], Plan(found))
    assert left == [{"role": "assistant", "content": "t"}]


def test_saving_is_never_more_than_the_turn_costs() -> None:
    history = history_of("anthropic", tool_round("anthropic", ["a"], LONG * 400, ""))

    (pruned,) = prune_results(history, [False, False])

    assert 0 < pruned.saved_tokens <= history[1].turn.tokens
