import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deuz_compiler.compaction.fold import Folded
from deuz_compiler.compaction.plan import (
    LAYERS,
    PRUNE_REASONING,
    PRUNE_TOOL_RESULTS,
    SUMMARIZE,
    CompactionPolicy,
    Plan,
    plan_recovery,
)
from deuz_compiler.compaction.protect import protected_turns
from deuz_testing.histories import (
    WIRES,
    Message,
    broken_rules,
    condense,
    conversations,
    history_of,
    tool_round,
)

USER = {"role": "user", "content": "question"}
SAID = {"role": "assistant", "content": "answer"}
LONG = "a long line of output\n" * 200


def agent_run(wire: str, rounds: int = 6) -> list[Message]:
    messages: list[Message] = [USER]
    for number in range(rounds):
        messages += tool_round(wire, [f"c{number}"], LONG, "thinking " * 40)
    return [*messages, SAID]


def planned(
    wire: str, messages: list[Message], *, known: Folded | None = None, **policy: Any
) -> Plan:
    settings = CompactionPolicy(**{"keep_recent_steps": 1, **policy})
    return plan_recovery(history_of(wire, messages), settings, known=known)


@pytest.mark.parametrize("wire", WIRES)
def test_without_a_target_every_layer_runs_once_in_order(wire: str) -> None:
    plan = planned(wire, agent_run(wire))

    assert [effect.layer for effect in plan.effects] == list(LAYERS)
    assert plan.fold is not None
    for before, after in zip(plan.effects, plan.effects[1:], strict=False):
        assert before.tokens_after == after.tokens_before
        assert before.tokens_after < before.tokens_before


@pytest.mark.parametrize("wire", WIRES)
def test_layers_stop_once_the_target_is_met(wire: str) -> None:
    messages = agent_run(wire)
    whole = sum(view.turn.tokens for view in history_of(wire, messages))

    assert planned(wire, messages, target_tokens=whole).is_empty
    pruned = planned(wire, messages, target_tokens=whole - 1)
    assert [effect.layer for effect in pruned.effects] == [PRUNE_TOOL_RESULTS]
    assert pruned.fold is None
    beside = planned(wire, messages, target_tokens=whole, fixed_tokens=1)
    assert [effect.layer for effect in beside.effects] == [PRUNE_TOOL_RESULTS]


def test_layers_run_in_the_order_of_the_policy() -> None:
    layers = (PRUNE_REASONING, PRUNE_TOOL_RESULTS)

    plan = planned("anthropic", agent_run("anthropic"), layers=layers)

    assert tuple(effect.layer for effect in plan.effects) == layers
    assert plan.fold is None


def test_layer_with_nothing_to_do_is_not_told() -> None:
    plan = planned("anthropic", [USER, SAID, USER, SAID, USER])

    assert [effect.layer for effect in plan.effects] == [SUMMARIZE]
    assert planned("anthropic", [USER]).is_empty


def test_fold_is_priced_after_pruning() -> None:
    messages = agent_run("anthropic")
    alone = planned("anthropic", messages, layers=(SUMMARIZE,)).fold
    after = planned("anthropic", messages).fold

    assert alone is not None
    assert after is not None
    assert after.replaced_tokens < alone.replaced_tokens // 4
    assert after.lines == alone.lines


@pytest.mark.parametrize(("window", "cannot_fit"), [(None, False), (900, True)])
def test_what_can_never_fit_is_known_before(
    window: int | None, cannot_fit: bool
) -> None:
    first = {"role": "user", "content": "word " * 1_000}
    messages = [first, *agent_run("anthropic")[1:]]

    plan = planned("anthropic", messages, window_tokens=window)

    assert plan.cannot_fit is cannot_fit
    assert plan.is_empty is cannot_fit


def test_floor_counts_system_first_and_last_turn_and_what_is_fixed() -> None:
    system = {"role": "system", "content": "rules"}
    messages = [system, USER, SAID, USER, SAID]
    tokens = [view.turn.tokens for view in history_of("openai_chat", messages)]
    floor = tokens[0] + tokens[1] + tokens[4] + 50

    fits = planned("openai_chat", messages, window_tokens=floor, fixed_tokens=50)
    over = planned("openai_chat", messages, window_tokens=floor - 1, fixed_tokens=50)

    assert not fits.cannot_fit
    assert over.cannot_fit


def test_folded_turns_are_neither_counted_nor_pruned_again() -> None:
    messages = agent_run("anthropic")
    known = Folded(1, 8, "notes so far")

    plan = planned("anthropic", messages, known=known)

    assert all(pruned.turn > 8 for pruned in plan.prunes)
    assert plan.fold is not None
    assert (plan.fold.first, plan.fold.previous) == (1, "notes so far")
    whole = planned("anthropic", messages).effects[0].tokens_before
    assert plan.effects[0].tokens_before < whole // 2


@pytest.mark.parametrize("wire", WIRES)
@given(data=st.data(), steps=st.integers(1, 4))
def test_planned_history_breaks_no_rule_and_keeps_what_is_protected(
    wire: str, data: st.DataObject, steps: int
) -> None:
    messages = data.draw(conversations(wire))
    assert broken_rules(messages) == []
    history = history_of(wire, messages)
    plan = plan_recovery(history, CompactionPolicy(keep_recent_steps=steps))

    left = condense(wire, messages, plan)

    assert broken_rules(left) == []
    flags = protected_turns(history, steps)
    kept = [m for m, flag in zip(messages, flags, strict=True) if flag]
    rest = iter(left)
    assert all(any(message == other for other in rest) for message in kept)


@pytest.mark.parametrize("wire", WIRES)
@given(data=st.data())
def test_plan_of_a_planned_history_prunes_nothing(
    wire: str, data: st.DataObject
) -> None:
    messages = data.draw(conversations(wire))
    layers = (PRUNE_TOOL_RESULTS, PRUNE_REASONING)
    left = condense(wire, messages, planned(wire, messages, layers=layers))

    assert planned(wire, left, layers=layers).is_empty
    assert planned(wire, messages) == planned(wire, messages)


@pytest.mark.parametrize("wire", WIRES)
def test_newest_question_survives_two_folds_word_for_word(wire: str) -> None:
    asked = {"role": "user", "content": 'what is the <newest> "question"?'}
    messages = [USER, SAID, asked, *agent_run(wire)[1:]]
    first = condense(wire, messages, planned(wire, messages))
    grown = [*first, *agent_run(wire)[1:]]

    second = condense(wire, grown, planned(wire, grown))

    marked = [m for m in second if "condensed by deuz" in json.dumps(m)]
    assert len(marked) == 1
    assert asked["content"] in second[second.index(marked[0])]["content"]
