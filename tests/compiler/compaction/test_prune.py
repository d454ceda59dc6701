import json

import pytest

from deuz_compiler.compaction.plan import Plan
from deuz_compiler.compaction.prune import prune_reasoning, prune_results
from deuz_compiler.compaction.shorten import MARKER, HeadTail
from deuz_testing.histories import (
    CUTTING_WIRES,
    RESPONSES,
    WIRES,
    condense,
    history_of,
    tool_round,
)

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
    kept = [True] * len(fresh)

    assert prune_results(stubbed, [False, False]) == ()
    assert prune_results(fresh, kept) == ()
    assert prune_reasoning(fresh, kept) == ()


LIMITS = HeadTail(threshold_characters=200, head_characters=40, tail_characters=20)


@pytest.mark.parametrize("wire", WIRES)
def test_long_results_can_keep_their_head_and_tail(wire: str) -> None:
    messages = tool_round(wire, ["a", "b"], "x" * 40 + LONG + "y" * 20, "hm")
    history = history_of(wire, messages)
    nothing_kept = [False] * len(history)

    found = prune_results(history, nothing_kept, limits=LIMITS)

    left = condense(wire, messages, Plan(found))
    shorter = tool_round(wire, ["a", "b"], "x" * 40 + MARKER + "y" * 20, "hm")
    assert left == shorter
    assert all(pruned.saved_tokens > 0 for pruned in found)
    again = history_of(wire, left)
    assert prune_results(again, nothing_kept, limits=LIMITS) == ()


@pytest.mark.parametrize("wire", WIRES)
def test_result_within_the_threshold_keeps_every_byte(wire: str) -> None:
    history = history_of(wire, tool_round(wire, ["a"], "x" * 200, ""))

    assert prune_results(history, [False, False], limits=LIMITS) == ()
    assert prune_results(history, [False, False]) != ()


def test_words_beside_a_result_are_no_result() -> None:
    answer = tool_round("anthropic", ["a"], LONG, "")[-1]
    said = {"type": "text", "text": LONG}
    message = {**answer, "content": [*answer["content"], said]}

    (pruned,) = prune_results(history_of("anthropic", [message]), [False])

    assert [index for index, _ in pruned.stubs] == [0]


def test_output_that_no_string_may_stand_for_is_left_alone() -> None:
    logs = [{"stdout": LONG, "stderr": "", "outcome": {"type": "exit"}}]
    shell = {"type": "shell_call_output", "call_id": "a", "output": logs}
    history = history_of(RESPONSES, [shell])

    assert prune_results(history, [False]) == ()
    assert prune_results(history, [False], limits=LIMITS) == ()


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


@pytest.mark.parametrize("wire", CUTTING_WIRES)
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


def test_reasoning_that_the_next_item_needs_is_kept() -> None:
    history = history_of(RESPONSES, tool_round(RESPONSES, ["a"], "r", "a long thought"))

    assert prune_reasoning(history, [False] * len(history)) == ()


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
