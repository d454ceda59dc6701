import json
import os
import subprocess
import sys
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from deuz_compiler.compaction.fold import Folded
from deuz_compiler.compaction.plan import (
    BINDS_THINKING,
    LAYERS,
    PRUNE_REASONING,
    PRUNE_TOOL_RESULTS,
    READABLE_RESULTS,
    SUMMARIZE,
    CompactionPolicy,
    Plan,
    SkippedLayer,
    plan_recovery,
)
from deuz_compiler.compaction.protect import protected_turns
from deuz_compiler.compaction.shorten import MARKER
from deuz_testing.histories import (
    CUTTING_WIRES,
    WIRES,
    Message,
    broken_rules,
    condense,
    conversations,
    history_of,
    odd_views,
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

    layers = [e for e in LAYERS if wire in CUTTING_WIRES or e != PRUNE_REASONING]
    assert [effect.layer for effect in plan.effects] == layers
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
@given(data=st.data(), binds=st.booleans(), target=st.sampled_from([None, 0, 500]))
def test_odd_turns_never_stop_a_plan_and_protected_ones_are_untouched(
    wire: str, data: st.DataObject, binds: bool, target: int | None
) -> None:
    history = data.draw(odd_views(wire))
    policy = CompactionPolicy(
        keep_recent_steps=1,
        target_tokens=target,
        window_tokens=9_000,
        results=data.draw(st.sampled_from([None, READABLE_RESULTS])),
        binds_thinking=binds,
    )

    plan = plan_recovery(history, policy)

    flags = [False] * len(history) if binds else protected_turns(history, 1)
    assert not any(flags[pruned.turn] for pruned in plan.prunes)
    if plan.fold:
        run = range(plan.fold.first, plan.fold.last + 1)
        gone = [i for i in run if not plan.fold.leaves(i)]
        assert not any(flags[i] for i in gone)
        assert not any(history[i].is_sealed or history[i].is_opaque for i in gone)
        assert all(history[i].turn.role != "system" for i in gone)


@pytest.mark.parametrize("wire", WIRES)
@given(data=st.data())
def test_model_that_binds_thinking_gets_one_legal_summary_of_everything(
    wire: str, data: st.DataObject
) -> None:
    messages = data.draw(conversations(wire))
    plan = planned(wire, messages, binds_thinking=True)

    left = condense(wire, messages, plan)

    assert plan.prunes == ()
    assert broken_rules(left) == []
    if plan.fold:
        turns = history_of(wire, left)
        assert not any(view.turn.role == "assistant" for view in turns)
        assert [view.summary for view in turns].count("notes") <= 1
    assert planned(wire, left, binds_thinking=True).is_empty


def test_policy_of_prune_layers_alone_does_nothing_to_a_binding_model() -> None:
    layers = (PRUNE_TOOL_RESULTS, PRUNE_REASONING)

    plan = planned(
        "anthropic", agent_run("anthropic"), layers=layers, binds_thinking=True
    )

    assert plan == Plan(
        skipped=tuple(SkippedLayer(layer, BINDS_THINKING) for layer in layers)
    )


def test_prune_layers_fold_into_the_summary_of_a_binding_model() -> None:
    messages = [*agent_run("anthropic"), USER]

    plan = planned("anthropic", messages, binds_thinking=True)

    assert [effect.layer for effect in plan.effects] == [SUMMARIZE]
    assert (plan.prunes, plan.skipped) == ((), ())
    assert plan.fold is not None
    assert (plan.fold.first, plan.fold.last) == (0, len(messages) - 2)


def test_binding_model_under_the_target_is_left_alone() -> None:
    messages = [*agent_run("anthropic"), USER]
    whole = sum(view.turn.tokens for view in history_of("anthropic", messages))

    met = planned("anthropic", messages, binds_thinking=True, target_tokens=whole)
    over = planned("anthropic", messages, binds_thinking=True, target_tokens=whole - 1)

    assert met.is_empty
    assert not over.is_empty


def test_floor_of_a_binding_model_is_what_stays_beside_the_summary() -> None:
    messages = [*agent_run("anthropic"), USER]
    floor = history_of("anthropic", messages)[-1].turn.tokens + 50

    fits, over = (
        planned(
            "anthropic",
            messages,
            binds_thinking=True,
            window_tokens=window,
            fixed_tokens=50,
        )
        for window in (floor, floor - 1)
    )

    assert not fits.cannot_fit
    assert over == Plan(cannot_fit=True)


def test_only_question_of_a_binding_model_has_nothing_to_fold() -> None:
    assert planned("anthropic", [USER], binds_thinking=True) == Plan()
    assert planned("anthropic", [], binds_thinking=True) == Plan()


def test_fold_that_saves_nothing_is_not_told_as_an_effect() -> None:
    history = history_of("anthropic", [USER, SAID, USER])
    free = [
        msgspec.structs.replace(v, turn=msgspec.structs.replace(v.turn, tokens=0))
        for v in history
    ]

    plan = plan_recovery(free, CompactionPolicy(binds_thinking=True))

    assert plan.fold is not None
    assert plan.effects == ()


@pytest.mark.parametrize("wire", WIRES)
def test_results_can_be_kept_readable(wire: str) -> None:
    text = "head" + "x" * 9_000 + "tail"
    messages = [USER, *tool_round(wire, ["a"], text, ""), SAID]

    plan = planned(
        wire, messages, layers=(PRUNE_TOOL_RESULTS,), results=READABLE_RESULTS
    )

    left = json.dumps(condense(wire, messages, plan))
    assert json.dumps(MARKER)[1:-1] in left
    assert "headxxx" in left
    assert "xxxtail" in left


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


PROBE = """
import hashlib, json
from deuz_compiler.compaction.plan import READABLE_RESULTS, CompactionPolicy
from deuz_compiler.compaction.plan import plan_recovery
from deuz_compiler.tokens.estimator import estimator_for
from deuz_compiler.tokens.meter import RequestParts, request_tokens
from deuz_testing.histories import WIRES, history_of, tool_round

text = "\u00dcberblick \u6771\u4eac \U0001f600 output\\n" * 900
found = []
for wire in WIRES:
    system = {"role": "system", "content": text[:99]}
    messages = [{"role": "user", "content": text[:500]}]
    for name in "abcdef":
        messages += tool_round(wire, [name, name * 2], text, "thought")
    messages += [system, {"role": "user", "content": "now?"}]
    history = history_of(wire, messages)
    for binds in (False, True):
        for results in (None, READABLE_RESULTS):
            policy = CompactionPolicy(
                keep_recent_steps=1, results=results, binds_thinking=binds
            )
            found.append(plan_recovery(history, policy))
    parts = RequestParts(wire, "m", tuple(view.raw for view in history))
    found.append(request_tokens(parts, estimator_for("gpt-5")))
print(hashlib.sha256(repr(found).encode()).hexdigest())
"""


def test_plans_and_counts_are_the_same_under_any_hash_seed_and_locale() -> None:
    outcomes = []
    for seed, locale in (("0", "C"), ("1", "C.UTF-8"), ("4242", "POSIX")):
        done = subprocess.run(
            [sys.executable, "-c", PROBE],
            check=True,
            capture_output=True,
            text=True,
            env={
                "PATH": os.environ["PATH"],
                "PYTHONPATH": os.pathsep.join(filter(None, sys.path)),
                "PYTHONHASHSEED": seed,
                "LC_ALL": locale,
            },
        )
        outcomes.append(done.stdout)

    assert len(outcomes[0]) == 65
    assert outcomes[0] == outcomes[1] == outcomes[2]
