import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deuz_compiler.compaction.fold import Folded, FoldRun
from deuz_compiler.compaction.history import TurnView, view_turns
from deuz_compiler.compaction.plan import Plan
from deuz_compiler.compaction.summary import render_summary
from deuz_compiler.compaction.whole import choose_whole
from deuz_compiler.errors import NotLifted
from deuz_compiler.tokens.estimate import estimate_text
from deuz_compiler.wires.parts import Part
from deuz_compiler.wires.turns import Turn
from deuz_testing.histories import (
    WIRES,
    Message,
    broken_rules,
    broken_system_turns,
    condense,
    conversations,
    history_of,
    tool_round,
)

USER = {"role": "user", "content": "question"}
SAID = {"role": "assistant", "content": "answer"}
RULES = {"role": "system", "content": "rules"}
PENDING = {"role": "user", "content": "and now?"}
SUMMARY = {"role": "user", "content": render_summary("old notes")}


def chosen(
    messages: list[Message], wire: str = "anthropic", known: Folded | None = None
) -> FoldRun | None:
    return choose_whole(history_of(wire, messages), known=known)


def left_of(messages: list[Message], wire: str = "anthropic") -> list[Message]:
    return condense(wire, messages, Plan(fold=chosen(messages, wire)))


def opaque(role: str, *, is_fresh: bool = False) -> TurnView:
    def refuse(raw: bytes) -> tuple[Part, ...]:
        raise NotLifted("unknown_shape")

    turn = Turn(0, 2, role, is_fresh, opens_calls=False, tokens=1, digest=b"")
    return view_turns([turn], b"{}", refuse)[0]


@pytest.mark.parametrize("wire", WIRES)
def test_summary_stands_for_all_but_the_pending_turn(wire: str) -> None:
    lead = [] if wire == "anthropic" else [RULES]
    rounds = tool_round(wire, ["a", "b"], "result", "thought")
    messages = [*lead, USER, *rounds, SAID, PENDING]

    run = chosen(messages, wire)

    assert run is not None
    assert (run.first, run.last) == (len(lead), len(messages) - 2)
    assert (run.kept, run.question, run.previous) == ((), "", "")
    assert run.lines[0] == "USER: question"
    assert run.lines[-1] == "ASSISTANT: answer"
    left = left_of(messages, wire)
    assert left[:-2] == lead
    assert left[-1] == PENDING


@pytest.mark.parametrize("wire", WIRES)
def test_history_that_ends_in_a_result_is_summarised_whole(wire: str) -> None:
    asked = {"role": "user", "content": "the very question"}
    messages = [USER, SAID, asked, *tool_round(wire, ["a", "b"], "result", "thought")]

    run = chosen(messages, wire)

    assert run is not None
    assert (run.first, run.last) == (0, len(messages) - 1)
    assert run.question == "the very question"
    (left,) = left_of(messages, wire)
    assert left["content"].endswith("\nthe very question")


def test_price_is_of_all_that_goes() -> None:
    messages = [USER, SAID, RULES, SAID, PENDING]
    tokens = [view.turn.tokens for view in history_of("openai_chat", messages)]

    run = chosen(messages, "openai_chat")
    ending = chosen([USER, *tool_round("anthropic", ["a"], "r" * 900, "")])

    assert run is not None
    assert ending is not None
    assert run.replaced_tokens == tokens[0] + tokens[1] + tokens[3]
    views = history_of(
        "anthropic", [USER, *tool_round("anthropic", ["a"], "r" * 900, "")]
    )
    whole = sum(view.turn.tokens for view in views)
    assert ending.replaced_tokens == whole - estimate_text("question")


def test_later_system_turns_stay_in_order_where_they_are_legal() -> None:
    second = {"role": "system", "content": "second"}
    third = {"role": "system", "content": "third"}
    start = [USER, RULES, SAID, USER, second, SAID]

    asked = left_of([*start, PENDING])
    ruled = left_of([*start, PENDING, third])
    ended = left_of([*start, *tool_round("anthropic", ["a"], "r", ""), third])

    assert asked[1:] == [PENDING, RULES, second]
    assert ruled[1:] == [PENDING, RULES, second, third]
    assert ended[1:] == [RULES, second, third]
    assert [broken_system_turns(left) for left in (asked, ruled, ended)] == [[]] * 3


def test_run_reaches_to_the_pending_turn_only_where_a_system_turn_must_move() -> None:
    moved = chosen([USER, RULES, SAID, PENDING, PENDING])
    still = chosen([USER, SAID, PENDING, RULES])

    assert moved is not None
    assert still is not None
    assert (moved.last, moved.kept) == (4, (3, 4, 1))
    assert (still.last, still.kept) == (1, ())


def test_user_words_behind_a_result_are_pending() -> None:
    messages = [USER, *tool_round("openai_chat", ["a"], "r", ""), PENDING]

    run = chosen(messages, "openai_chat")

    assert run is not None
    assert (run.last, run.question) == (2, "")


@pytest.mark.parametrize(
    "messages",
    [
        [],
        [USER],
        [RULES, USER],
        [USER, USER],
        [SUMMARY, USER],
        [USER, SAID],
        [USER, SAID, USER, SAID],
    ],
)
def test_nothing_to_fold_or_a_prefill_is_left_alone(messages: list[Message]) -> None:
    assert chosen(messages, "openai_chat") is None


def test_older_summary_is_merged_and_never_stacked() -> None:
    run = chosen([SUMMARY, USER, SAID, PENDING])

    assert run is not None
    assert run.previous == "old notes"
    assert run.lines == ("USER: question", "ASSISTANT: answer")


def test_fold_in_force_is_merged_with_what_stands_before_and_behind_it() -> None:
    first = {"role": "user", "content": "first"}
    messages = [first, SAID, USER, SAID, USER, SAID, PENDING]

    run = chosen(messages, known=Folded(1, 3, "old notes"))

    assert run is not None
    assert (run.first, run.last, run.previous) == (0, 5, "old notes")
    assert run.lines == ("USER: first", "USER: question", "ASSISTANT: answer")


def test_pending_turn_that_an_older_fold_left_is_read_by_the_next() -> None:
    messages = [USER, RULES, SAID, PENDING, SAID, USER]
    known = Folded(0, 3, "old notes", kept=(3, 1))

    run = chosen(messages, known=known)

    assert run is not None
    assert run.lines == ("USER: and now?", "ASSISTANT: answer")
    assert (run.last, run.kept) == (5, (5, 1))


def test_fold_in_force_with_nothing_new_stays() -> None:
    messages = [USER, RULES, SAID, PENDING]

    assert chosen(messages, known=Folded(0, 2, "n")) is None
    assert chosen(messages, known=Folded(0, 3, "n", kept=(3, 1))) is None


def test_sealed_turn_stays_with_all_in_front_of_it() -> None:
    block = {"type": "compaction", "content": "c"}
    sealed = {"role": "assistant", "content": [block]}
    rounds = tool_round("anthropic", ["a"], "r", "hm")

    run = chosen([USER, SAID, USER, sealed, *rounds, PENDING])

    assert run is not None
    # A result may not be the first turn behind it, so the run starts at the call.
    assert (run.first, run.last) == (4, 5)
    assert chosen([USER, SAID, sealed, PENDING]) is None
    assert (
        chosen([USER, SAID, USER, sealed, SAID, PENDING], known=Folded(0, 2, "n"))
        is None
    )


def test_run_behind_a_sealed_turn_parts_no_call_from_its_result() -> None:
    block = {"type": "compaction", "content": "c"}
    call, result = tool_round("anthropic", ["a"], "r", "")
    sealed = {"role": "assistant", "content": [block, *call["content"]]}

    run = chosen([USER, sealed, result, SAID, PENDING])

    assert run is not None
    assert (run.first, run.last) == (3, 3)


def test_opaque_turn_that_may_answer_a_call_is_no_pending_turn() -> None:
    history = (*history_of("anthropic", [USER, SAID]), opaque("user"))
    fresh = (*history_of("anthropic", [USER, SAID]), opaque("user", is_fresh=True))

    assert choose_whole(history) is None
    run = choose_whole(fresh)
    assert run is not None
    assert (run.first, run.last) == (0, 1)


def test_server_that_wants_alternation_has_no_place_for_a_pending_turn() -> None:
    asked = history_of("openai_chat", [USER, SAID, PENDING])
    ended = history_of(
        "openai_chat", [USER, *tool_round("openai_chat", ["a"], "r", "")]
    )

    assert choose_whole(asked, must_alternate=True) is None
    assert choose_whole(ended, must_alternate=True) is not None


@pytest.mark.parametrize("wire", WIRES)
@given(data=st.data())
def test_what_is_left_is_legal_and_a_second_pass_changes_nothing(
    wire: str, data: st.DataObject
) -> None:
    messages = data.draw(conversations(wire))
    run = chosen(messages, wire)

    left = condense(wire, messages, Plan(fold=run))

    assert broken_rules(left) == []
    systems = [m for m in messages if m.get("role") == "system"]
    assert [m for m in left if m.get("role") == "system"] == systems
    if run is not None:
        assert chosen(left, wire) is None
        assert "thought" not in json.dumps(left)
        assert broken_system_turns(left[0 if wire == "anthropic" else 1 :]) == []


@given(data=st.data())
def test_next_pass_takes_up_everything_once(data: st.DataObject) -> None:
    messages = data.draw(conversations("anthropic"))
    run = chosen(messages)
    if run is None:
        return
    grown = [*messages, SAID, *tool_round("anthropic", ["z"], "r", "hm"), SAID, PENDING]
    known = Folded(run.first, run.last, "old notes", run.kept)

    again = chosen(grown, known=known)

    assert again is not None
    assert again.previous == "old notes"
    assert (
        again.first,
        broken_rules(condense("anthropic", grown, Plan(fold=again))),
    ) == (0, [])
    pending = [line for line in again.lines if line.startswith("USER: w")]
    left = [
        m
        for m in condense("anthropic", messages, Plan(fold=run))
        if m["role"] == "user"
    ]
    assert len(pending) == len(left) - 1
