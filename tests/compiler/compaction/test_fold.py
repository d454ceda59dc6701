from typing import Any

import pytest

from deuz_compiler.compaction.fold import Folded, FoldRun, choose_fold, legal_cuts
from deuz_compiler.compaction.history import TurnView
from deuz_compiler.compaction.protect import protected_turns
from deuz_compiler.compaction.summary import render_summary
from deuz_compiler.tokens.estimate import estimate_text
from deuz_testing.histories import (
    RESPONSES,
    WIRES,
    Message,
    history_of,
    tool_round,
)

USER = {"role": "user", "content": "question"}
SAID = {"role": "assistant", "content": "answer"}
SUMMARY = {"role": "user", "content": render_summary("old notes")}


def chosen(
    wire: str,
    messages: list[Message],
    *,
    known: Folded | None = None,
    must_alternate: bool = False,
) -> FoldRun | None:
    history = history_of(wire, messages)
    return choose_fold(
        history,
        protected_turns(history, 1),
        known=known,
        must_alternate=must_alternate,
    )


def run_of(wire: str, messages: list[Message], **choice: Any) -> tuple[int, int] | None:
    run = chosen(wire, messages, **choice)
    return (run.first, run.last) if run else None


@pytest.mark.parametrize("wire", WIRES)
def test_run_is_all_between_the_first_words_and_the_last_step(wire: str) -> None:
    rounds = [m for n in range(3) for m in tool_round(wire, [f"c{n}"], "r", "")]

    assert run_of(wire, [USER, *rounds, SAID]) == (1, 6)


@pytest.mark.parametrize("wire", WIRES)
def test_call_and_its_results_are_never_parted(wire: str) -> None:
    messages = [USER, SAID, USER, *tool_round(wire, ["a", "b"], "r", "")]
    last = len(messages) - 1

    assert run_of(wire, [*messages, SAID]) == (1, last)
    assert run_of(wire, messages) == (1, 2)


def test_reasoning_is_never_parted_from_the_item_that_needs_it() -> None:
    rounds = [m for n in "ab" for m in tool_round(RESPONSES, [n], "r", "hm")]

    assert run_of(RESPONSES, [USER, *rounds]) == (1, 3)
    # With the last step's reasoning unprotected, the cut stays in front of it.
    history = history_of(RESPONSES, [USER, *rounds])
    run = choose_fold(history, [True, *[False] * 4, True, True])
    assert run is not None
    assert (run.first, run.last) == (1, 3)


def test_an_answer_that_opens_with_reasoning_is_never_parted() -> None:
    thought, call, output = tool_round(RESPONSES, ["a"], "r", "hm")
    answer = [thought, {"role": "assistant", "content": "Let me see."}, call, output]

    cuts = legal_cuts(history_of(RESPONSES, [USER, *answer, USER]))

    assert cuts == (True, True, False, False, False, True, True)


def test_result_that_comes_late_holds_all_between_together() -> None:
    # Compatible servers take such a history; a cut inside would orphan the result.
    late = tool_round("openai_chat", ["a"], "r", "")
    messages = [USER, SAID, SAID, late[0], SAID, late[1], SAID]

    assert run_of("openai_chat", messages) == (1, 5)
    assert run_of("openai_chat", [*messages[:5], SAID, late[1]]) == (1, 2)


def test_reused_call_ids_are_paired_in_order() -> None:
    rounds = tool_round("openai_chat", ["a"], "r", "") * 3

    assert run_of("openai_chat", [USER, *rounds, SAID]) == (1, 6)


@pytest.mark.parametrize(
    "messages",
    [
        [],
        [USER],
        [USER, SAID, USER],
        [USER, SAID, SAID],
        [USER, SUMMARY, SUMMARY, SAID],
    ],
)
def test_less_than_two_turns_or_only_summaries_are_left(
    messages: list[Message],
) -> None:
    assert run_of("anthropic", messages) is None


def test_system_turn_in_the_middle_parts_runs_and_keeps_its_follower() -> None:
    system = {"role": "system", "content": "rules"}
    messages = [USER, system, SAID, USER, SAID, SAID]

    assert run_of("anthropic", messages) == (3, 4)


def test_leading_system_turn_may_be_followed_by_a_summary() -> None:
    system = {"role": "system", "content": "rules"}
    shown = {"role": "user", "content": render_summary("n")}
    messages = [system, shown, SAID, USER, SAID, SAID]

    run = chosen("openai_chat", messages)

    assert run is not None
    assert (run.first, run.last) == (1, 2)


def test_alternating_server_gets_an_assistant_turn_behind_the_summary() -> None:
    messages = [USER, SAID, USER, SAID, USER, USER, SAID]

    assert run_of("openai_chat", messages) == (1, 5)
    assert run_of("openai_chat", messages, must_alternate=True) == (1, 5)
    assert run_of("openai_chat", [*messages[:5], SAID, USER, SAID]) == (1, 6)
    longer = [USER, SAID, USER, SAID, {"role": "system", "content": "s"}, SAID, SAID]
    assert run_of("openai_chat", longer) == (1, 3)
    assert run_of("openai_chat", longer, must_alternate=True) == (1, 2)


def test_older_summary_in_the_run_is_merged() -> None:
    run = chosen("anthropic", [USER, SUMMARY, SAID, USER, SAID])

    assert run is not None
    assert run.previous == "old notes"
    assert run.lines == ("ASSISTANT: answer", "USER: question")
    assert (run.first, run.last) == (1, 3)


def test_fold_in_force_is_part_of_the_next_one() -> None:
    messages = [USER, SAID, USER, SAID, USER, SAID, SAID]
    known = Folded(1, 3, "old notes")

    run = chosen("anthropic", messages, known=known)

    assert run is not None
    assert (run.first, run.last) == (1, 5)
    assert run.previous == "old notes"
    assert run.lines == ("USER: question", "ASSISTANT: answer")


def test_turns_that_the_fold_in_force_left_are_read_and_system_turns_stay() -> None:
    # As after a summary of the whole conversation, by a model that binds thinking.
    rules = {"role": "system", "content": "rules"}
    asked = {"role": "user", "content": "and now?"}
    picture: Message = {"role": "user", "content": [{"type": "image", "source": {}}]}
    messages = [USER, SAID, USER, rules, SAID, asked, SAID, SAID, picture, SAID]
    known = Folded(0, 5, "old notes", kept=(5, 3))

    run = chosen("anthropic", messages, known=known)

    assert run is not None
    # Behind the system turn only the assistant may follow.
    assert (run.first, run.last, run.kept) == (0, 6, (3,))
    assert run.previous == "old notes"
    assert run.lines == ("USER: and now?", "ASSISTANT: answer")


def test_fold_leaves_what_it_kept_and_what_stands_around_it() -> None:
    run = FoldRun(1, 4, "", (), "", 9, kept=(3,))

    assert [at for at in range(6) if run.leaves(at)] == [0, 3, 5]
    hidden = [at for at in range(6) if Folded(1, 4, "n", kept=(3,)).hides(at)]
    assert hidden == [1, 2, 4]


def test_fold_in_force_with_nothing_new_behind_it_stays() -> None:
    assert (
        chosen("anthropic", [USER, SAID, USER, SAID], known=Folded(1, 2, "n")) is None
    )


def test_newest_question_is_taken_along_word_for_word() -> None:
    asked = {"role": "user", "content": "the very question"}
    inside = chosen("anthropic", [USER, SAID, asked, SAID, SAID])
    outside = chosen("anthropic", [USER, SAID, USER, SAID, asked])

    assert inside is not None
    assert outside is not None
    assert inside.question == "the very question"
    assert outside.question == ""


def test_price_is_of_the_turns_less_the_question_that_is_repeated() -> None:
    asked = {"role": "user", "content": "the very question " * 20}
    messages = [USER, SAID, asked, SAID, SAID]
    tokens = [view.turn.tokens for view in history_of("anthropic", messages)]

    run = chosen("anthropic", messages)

    assert run is not None
    assert run.replaced_tokens == sum(tokens[1:4]) - estimate_text(run.question)


def test_question_repeated_by_the_older_summary_is_carried_on() -> None:
    older = {"role": "user", "content": render_summary("old notes", "why so?")}

    run = chosen("anthropic", [USER, older, SAID, SAID, SAID])
    asked_anew = chosen("anthropic", [USER, older, SAID, USER, SAID])

    assert run is not None
    assert asked_anew is not None
    assert (run.previous, run.question) == ("old notes", "why so?")
    assert asked_anew.question == "question"


def test_question_repeated_by_the_fold_in_force_is_carried_on() -> None:
    summary = render_summary("old notes", "question").partition("\n")[2]
    messages = [USER, SAID, USER, SAID, SAID, SAID]

    run = chosen("anthropic", messages, known=Folded(1, 3, summary))

    assert run is not None
    assert (run.previous, run.question) == ("old notes", "question")


class Watched(list[TurnView]):
    """A history that counts the turns it hands out."""

    read = 0

    def __getitem__(self, at: Any) -> Any:
        found = super().__getitem__(at)
        self.read += len(found) if isinstance(at, slice) else 1
        return found


CALL = tool_round("anthropic", ["c"], "r", "")
THOUGHT = tool_round(RESPONSES, ["c"], "r", "hm")[0]


@pytest.mark.parametrize(
    ("wire", "opening", "repeated"),
    [
        ("openai_chat", [USER], [USER, SAID]),
        ("openai_chat", [USER, SAID], [{"role": "system", "content": "be brief"}]),
        ("anthropic", [USER, CALL[0]], [CALL[1]]),
        (RESPONSES, [USER], [THOUGHT]),
    ],
)
def test_a_long_history_is_walked_a_few_times_whatever_is_in_it(
    wire: str, opening: list[Message], repeated: list[Message]
) -> None:
    history = Watched(history_of(wire, [*opening, *repeated * 300, USER, SAID]))
    protected = [False] * (len(history) - 2) + [True] * 2

    choose_fold(history, protected)

    assert history.read < 20 * len(history)
