import pytest

from deuz_compiler.compaction.history import TurnView
from deuz_compiler.compaction.protect import (
    first_user,
    newest_question,
    protected_turns,
)
from deuz_compiler.compaction.summary import render_summary
from deuz_compiler.wires.turns import Turn
from deuz_testing.histories import RESPONSES, WIRES, Message, history_of, tool_round

USER = {"role": "user", "content": "question"}
SAID = {"role": "assistant", "content": "answer"}


def kept(wire: str, messages: list[Message], steps: int = 1) -> list[int]:
    flags = protected_turns(history_of(wire, messages), steps)
    return [index for index, is_kept in enumerate(flags) if is_kept]


@pytest.mark.parametrize("wire", WIRES)
@pytest.mark.parametrize(("steps", "recent"), [(0, 6), (1, 6), (2, 4), (3, 2), (9, 2)])
def test_last_steps_and_all_after_them_are_kept(
    wire: str, steps: int, recent: int
) -> None:
    rounds = [m for n in range(3) for m in tool_round(wire, [f"c{n}"], "r", "")]
    messages = [USER, USER, *rounds]

    assert kept(wire, messages, steps) == [0, *range(recent, 8)]


def test_items_of_one_answer_are_one_step() -> None:
    rounds = [m for n in range(3) for m in tool_round(RESPONSES, ["a", "b"], "r", "hm")]

    assert kept(RESPONSES, [USER, *rounds], 1) == [0, *range(11, 16)]
    assert kept(RESPONSES, [USER, *rounds], 2) == [0, *range(6, 16)]
    assert kept(RESPONSES, [USER, *rounds, SAID], 1) == [0, 16]
    assert kept(RESPONSES, [USER, SAID, *rounds[1:5]], 1) == [0, 1, 2, 3, 4, 5]
    assert kept("openai_chat", [USER, SAID, SAID], 1) == [0, 2]


def test_last_turn_is_kept_before_any_assistant_spoke() -> None:
    assert kept("anthropic", [USER, USER, USER]) == [0, 2]


def test_system_turns_are_kept_wherever_they_stand() -> None:
    system = {"role": "system", "content": "rules"}
    developer = {"role": "developer", "content": "rules"}
    messages = [system, USER, SAID, developer, SAID, SAID]

    assert kept("openai_chat", messages) == [0, 1, 3, 5]


def test_summary_of_ours_is_not_the_users_first_word() -> None:
    summary = {"role": "user", "content": render_summary("notes")}

    history = history_of("anthropic", [summary, USER, SAID])

    assert first_user(history) == 1
    assert first_user(history[:1]) == -1


def test_newest_question_is_not_a_tool_result_and_not_a_summary() -> None:
    summary = {"role": "user", "content": render_summary("notes")}
    messages = [USER, SAID, USER, *tool_round("anthropic", ["c"], "r", ""), summary]

    assert newest_question(history_of("anthropic", messages)) == 2
    assert newest_question(()) == -1


def test_newest_question_with_a_picture_is_kept() -> None:
    picture = {"type": "image", "source": {"type": "url", "url": "u"}}
    shown = {"role": "user", "content": [picture, {"type": "text", "text": "this?"}]}

    assert kept("anthropic", [USER, SAID, shown, SAID, SAID]) == [0, 2, 4]
    assert kept("anthropic", [USER, SAID, USER, SAID, SAID]) == [0, 4]


def test_what_cannot_be_read_or_is_sealed_is_kept() -> None:
    block = {"type": "compaction", "content": "c"}
    sealed = {"role": "assistant", "content": [block]}
    opaque = TurnView(
        Turn(
            0, 0, "assistant", is_fresh=False, opens_calls=False, tokens=1, digest=b""
        ),
        b"",
        (),
        is_opaque=True,
    )
    history = (*history_of("anthropic", [USER, sealed, SAID, USER]), opaque)
    history = (*history, *history_of("anthropic", [SAID, SAID]))

    flags = protected_turns(history, 1)

    assert [i for i, flag in enumerate(flags) if flag] == [0, 1, 4, 6]


def test_empty_history_has_nothing_to_keep() -> None:
    assert protected_turns((), 4) == ()
