import json
from typing import Any

import pytest

from deuz_compiler import (
    Append,
    NotLifted,
    ask_once,
    lift,
    lower,
    part_span,
    place_for_context,
    project,
    user_text,
)
from deuz_testing.bodies import compact
from deuz_testing.checkpoints import checkpoint_of

ASKED = {"role": "user", "content": "why?"}


def chat(*messages: Any, **members: Any) -> bytes:
    return compact({"model": "llama3", "messages": list(messages), **members})


def prompt(**members: Any) -> bytes:
    return compact({"model": "llama3", "prompt": "why?", **members})


@pytest.mark.parametrize(
    ("message", "kind"),
    [
        (ASKED, ("user", True, False)),
        ({"role": "user", "content": ""}, ("user", False, False)),
        ({"role": "user", "content": "", "images": ["x"]}, ("user", True, False)),
        ({"role": "user", "images": ["x"]}, ("user", False, False)),
        ({"role": "tool", "tool_name": "f", "content": "r"}, ("tool", False, False)),
        ({"role": "assistant", "content": "a"}, ("assistant", False, False)),
        (
            {"role": "assistant", "content": "", "tool_calls": [{"function": {}}]},
            ("assistant", False, True),
        ),
    ],
)
def test_a_message_is_told_by_role_words_and_calls(
    message: dict[str, Any], kind: tuple[str, bool, bool]
) -> None:
    turn = lift("ollama_chat", chat(message)).turns[0]

    assert (turn.role, turn.is_fresh, turn.opens_calls) == kind


@pytest.mark.parametrize(
    ("members", "expected"),
    [({}, True), ({"stream": True}, True), ({"stream": False}, False)],
)
def test_a_stream_is_the_default(members: dict[str, Any], expected: bool) -> None:
    assert lift("ollama_chat", chat(ASKED, **members)).is_streamed == expected
    assert lift("ollama_generate", prompt(**members)).is_streamed == expected


def test_options_tell_window_and_limit() -> None:
    options = {"num_ctx": 8192, "num_predict": 100, "temperature": 0}

    for lifted in (
        lift("ollama_chat", chat(ASKED, options=options)),
        lift("ollama_generate", prompt(options=options)),
    ):
        assert (lifted.window_tokens, lifted.max_output_tokens) == (8192, 100)
        assert [name for name, _ in lifted.params] == ["options.num_ctx"]


@pytest.mark.parametrize("options", [None, {}, [], {"num_predict": -1}])
def test_without_options_nothing_is_known_of_the_window(options: Any) -> None:
    lifted = lift("ollama_chat", chat(ASKED, options=options))

    assert (lifted.window_tokens, lifted.max_output_tokens) == (None, None)


@pytest.mark.parametrize("form", ["turn", "part"])
def test_a_block_stands_at_the_end_of_a_prompt_in_either_form(form: str) -> None:
    raw = prompt(system="s")
    lifted = lift("ollama_generate", raw)
    assert place_for_context(lifted) == 0

    edits = project(lifted, {0: (Append(b"B", (), 1, form),)}, part_span).edits

    assert json.loads(lower(raw, edits)) == {
        "model": "llama3",
        "prompt": "why?\n\nB",
        "system": "s",
    }


def test_a_prompt_is_one_turn_of_the_user() -> None:
    raw = prompt(system="s")
    lifted = lift("ollama_generate", raw)

    (turn,) = lifted.turns
    assert (turn.role, turn.is_fresh) == ("user", True)
    assert user_text("ollama_generate", raw[turn.start : turn.end]) == "why?"
    assert lifted.system is not None
    assert checkpoint_of(lifted).offset == 0


@pytest.mark.parametrize(
    ("members", "reason"),
    [
        ({"context": [1, 2]}, "server_state"),
        ({"raw": True}, "unknown_shape"),
        ({"suffix": "}"}, "unknown_shape"),
        ({"prompt": ["why?"]}, None),
        ({"prompt": None}, "unknown_shape"),
    ],
)
def test_a_prompt_that_is_no_question_by_itself_is_left_alone(
    members: dict[str, Any], reason: str | None
) -> None:
    with pytest.raises(NotLifted, match=reason):
        lift("ollama_generate", prompt(**members))


@pytest.mark.parametrize("members", [{"context": []}, {"raw": False}, {"suffix": ""}])
def test_members_that_say_nothing_do_not_matter(members: dict[str, Any]) -> None:
    assert lift("ollama_generate", prompt(**members)).turns


def test_an_empty_prompt_loads_a_model_and_is_no_question() -> None:
    assert place_for_context(lift("ollama_generate", prompt(prompt=""))) is None


@pytest.mark.parametrize(
    ("wire", "raw", "asked"),
    [
        ("ollama_chat", chat(ASKED), {"messages": [{"role": "user", "content": "t"}]}),
        ("ollama_generate", prompt(), {"prompt": "t"}),
    ],
)
def test_our_own_question_keeps_the_window_and_is_not_streamed(
    wire: str, raw: bytes, asked: dict[str, Any]
) -> None:
    options = {"num_ctx": 8192, "num_predict": 5}
    body = compact({**json.loads(raw), "options": options})

    found = ask_once(lift(wire, body), model="small", text="t", output_tokens=99)
    bare = ask_once(lift(wire, raw), model="small", text="t", output_tokens=99)

    expected = {"model": "small", **asked, "stream": False}
    limited = {"num_ctx": 8192, "num_predict": 99}
    assert json.loads(found) == {**expected, "options": limited}
    assert json.loads(bare) == {**expected, "options": {"num_predict": 99}}
