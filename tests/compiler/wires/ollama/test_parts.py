import json
from typing import Any

import pytest

from deuz_compiler.errors import NotLifted
from deuz_compiler.wires.ollama.parts import (
    part_span,
    read_parts,
    transcribe_turn,
    user_text,
)
from deuz_compiler.wires.parts import stub_result


def message(**members: Any) -> bytes:
    return json.dumps(members, separators=(" , ", ": ")).encode()


def test_a_message_has_thinking_words_pictures_and_calls() -> None:
    raw = message(
        role="assistant",
        content="a",
        thinking="hm",
        images=["x", "y"],
        tool_calls=[{"function": {"name": "f", "arguments": {"a": 1}}}],
    )

    parts = read_parts(raw)

    kinds = ["reasoning", "text", "image", "image", "tool_call"]
    assert [part.kind for part in parts] == kinds
    assert (parts[4].text, parts[4].call_id, parts[4].name) == ('{"a": 1}', "f", "f")


@pytest.mark.parametrize(
    ("members", "call_id"),
    [
        ({"tool_name": "f"}, "f"),
        ({"tool_name": "f", "tool_call_id": "c1"}, "c1"),
        ({}, ""),
    ],
)
def test_a_result_is_paired_by_id_or_name_and_its_content_is_cut(
    members: dict[str, str], call_id: str
) -> None:
    raw = message(role="tool", content="long words", **members)

    (part,) = read_parts(raw)

    assert (part.kind, part.text, part.call_id) == (
        "tool_result",
        "long words",
        call_id,
    )
    left = json.loads(stub_result(raw, part, "[cut]"))
    assert left == {"role": "tool", "content": "[cut]", **members}


@pytest.mark.parametrize(
    "members",
    [
        {"thinking": "hm", "role": "assistant", "content": "a"},
        {"role": "assistant", "thinking": "hm", "content": "a"},
        {"role": "assistant", "content": "a", "thinking": "hm"},
    ],
)
def test_thinking_is_cut_as_a_member_wherever_it_stands(
    members: dict[str, str],
) -> None:
    raw = message(**members)
    thought = read_parts(raw)[0]

    left = json.loads(raw[: thought.start] + raw[thought.end :])

    assert thought.text == "hm"
    assert left == {"role": "assistant", "content": "a"}


@pytest.mark.parametrize("content", [None, ""])
def test_empty_content_is_no_part(content: str | None) -> None:
    assert read_parts(message(role="user", content=content, images=[])) == ()


def test_a_message_is_transcribed_and_only_the_users_is_the_users() -> None:
    asked, answered = message(role="user", content="q"), message(role="x", content="a")

    assert transcribe_turn(asked) == ("USER: q",)
    assert (user_text(asked), user_text(answered)) == ("q", "")


@pytest.mark.parametrize(
    "raw", [b"[]", b"{}", b'{"role":1}', b'{"role":"user","content":1}']
)
def test_what_is_no_message_is_refused(raw: bytes) -> None:
    with pytest.raises(NotLifted):
        read_parts(raw)


def test_a_part_that_is_not_there_and_a_role_that_is_none_are_refused() -> None:
    with pytest.raises(NotLifted):
        part_span(message(role="user", content="q"), 1)
    with pytest.raises(NotLifted):
        user_text(b'{"role":1}')
