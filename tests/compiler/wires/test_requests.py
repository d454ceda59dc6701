import json

import pytest

from deuz_compiler import (
    NotLifted,
    ask_once,
    lift,
    may_read_cache,
    part_span,
    read_parts,
    said_text,
    user_text,
)
from deuz_testing.bodies import (
    anthropic_body,
    chat_body,
    chat_result,
    compact,
    tool_result,
    tool_use,
    user,
)


@pytest.mark.parametrize(
    ("wire", "body"),
    [
        ("anthropic", anthropic_body([user("hi")])),
        ("openai_chat", chat_body([user("hi")])),
    ],
)
def test_a_known_wire_lifts_its_bodies(wire: str, body: bytes) -> None:
    assert lift(wire, body).wire == wire


def test_a_wire_that_is_not_there_is_not_understood() -> None:
    with pytest.raises(NotLifted):
        lift("other", b"{}")


@pytest.mark.parametrize(
    ("wire", "turn"),
    [
        ("anthropic", tool_result("t", "long")),
        ("openai_chat", chat_result("t", "long")),
    ],
)
def test_the_place_of_a_tools_result_is_its_content(
    wire: str, turn: dict[str, object]
) -> None:
    raw = compact(turn)
    kinds = [part.kind for part in read_parts(wire, raw)]

    start, end = part_span(wire, raw, kinds.index("tool_result"))

    assert raw[start:end] == b'"long"'


@pytest.mark.parametrize("wire", ["anthropic", "openai_chat"])
def test_the_users_words_are_read_without_blocks_of_ours(wire: str) -> None:
    block = '<deuz_context note="n">\nx\n</deuz_context>'

    assert user_text(wire, compact(user(f"why?\n\n{block}"))) == "why?"


def test_what_was_said_is_read_of_whoever_spoke_without_calls_and_results() -> None:
    spoken = {"role": "assistant", "content": [{"type": "text", "text": "I look."}]}
    spoken["content"] += tool_use("t1")["content"]

    assert said_text("anthropic", compact(spoken)) == "I look."
    assert said_text("anthropic", compact(tool_result("t1", "x"))) == ""
    assert said_text("anthropic", compact(user("why?"))) == "why?"


@pytest.mark.parametrize(
    ("wire", "members"),
    [
        ("anthropic", {"model": "m", "max_tokens": 9}),
        ("openai_chat", {"model": "m"}),
    ],
)
def test_a_question_of_our_own_is_a_whole_request(
    wire: str, members: dict[str, object]
) -> None:
    asker = lift(wire, anthropic_body([user("hi")]))

    body = ask_once(asker, model="m", text='say "é"', output_tokens=9)

    assert json.loads(body) == {**members, "messages": [user('say "é"')]}
    assert lift(wire, body).model == "m"


@pytest.mark.parametrize(
    ("wire", "members", "expected"),
    [
        ("ollama_chat", {}, True),
        ("anthropic", {}, False),
        ("anthropic", {"cache_control": {"type": "ephemeral"}}, True),
        ("openai_chat", {}, True),
        ("openai_chat", {"prompt_cache_options": {"mode": "implicit"}}, True),
        ("openai_chat", {"prompt_cache_options": {"mode": "explicit"}}, False),
        (
            "openai_chat",
            {
                "prompt_cache_options": {"mode": "explicit"},
                "prompt_cache_breakpoint": {"mode": "explicit"},
            },
            True,
        ),
    ],
)
def test_where_markers_are_needed_nothing_is_read_without_one(
    wire: str, members: dict[str, object], expected: bool
) -> None:
    envelope = lift(wire, anthropic_body([user("hi")], **members))

    assert may_read_cache(envelope) == expected
