import json
from typing import Any

import pytest

from deuz_compiler.errors import NotLifted
from deuz_compiler.wires.openai_chat.parts import (
    part_span,
    read_parts,
    transcribe_turn,
    user_text,
)
from deuz_compiler.wires.parts import stub_result

CALL = {"id": "c1", "type": "function", "function": {"name": "read", "arguments": "{}"}}


def message(**members: Any) -> bytes:
    return json.dumps(members, separators=(" , ", ": ")).encode()


def test_content_list_has_one_part_for_each_piece() -> None:
    raw = message(
        role="user",
        content=[
            {"type": "text", "text": "t"},
            {"type": "image_url", "image_url": {"url": "u"}},
            {"type": "file", "file": {"file_id": "f"}},
            {"type": "input_audio", "input_audio": {"data": "", "format": "wav"}},
        ],
    )

    parts = read_parts(raw)

    assert [p.kind for p in parts] == ["text", "image", "document", "other"]
    assert parts[3].name == "input_audio"


@pytest.mark.parametrize(
    ("content", "text"),
    [
        ("plain", "plain"),
        ([{"type": "text", "text": "a"}, {"type": "image_url"}], "a\n[image]"),
    ],
)
def test_stub_replaces_only_the_content_of_a_result(content: Any, text: str) -> None:
    raw = message(tool_call_id="c1", role="tool", content=content, name="read")
    (part,) = read_parts(raw)

    stubbed = json.loads(stub_result(raw, part, "[pruned]"))

    assert (part.kind, part.call_id, part.text) == ("tool_result", "c1", text)
    assert stubbed == {**json.loads(raw), "content": "[pruned]"}


def test_calls_of_all_three_makes_are_read() -> None:
    custom = {"id": "c2", "type": "custom", "custom": {"name": "sh", "input": "ls"}}
    raw = message(
        role="assistant",
        content=None,
        tool_calls=[CALL, custom],
        function_call={"name": "old", "arguments": "[]"},
    )

    assert [(p.call_id, p.name, p.text) for p in read_parts(raw)] == [
        ("c1", "read", "{}"),
        ("c2", "sh", "ls"),
        ("old", "old", "[]"),
    ]


def test_result_of_an_old_function_is_paired_by_name() -> None:
    (part,) = read_parts(message(role="function", name="old", content="r"))

    assert (part.kind, part.call_id) == ("tool_result", "old")


@pytest.mark.parametrize(
    "name", ["reasoning_content", "reasoning", "reasoning_details"]
)
@pytest.mark.parametrize("is_first", [True, False])
def test_reasoning_members_can_be_cut_out(name: str, is_first: bool) -> None:
    thought = {name: [{"text": "hm"}] if name == "reasoning_details" else "hm"}
    rest = {"role": "assistant", "content": "t", "tool_calls": [CALL]}
    members = {**thought, **rest} if is_first else {**rest, **thought}
    raw = message(**members)

    part = next(p for p in read_parts(raw) if p.kind == "reasoning")

    assert json.loads(raw[: part.start] + raw[part.end :]) == rest
    assert "hm" in part.text


def test_empty_reasoning_is_no_part() -> None:
    raw = message(role="assistant", content="t", reasoning_content=None, reasoning="")

    assert [p.kind for p in read_parts(raw)] == ["text"]


def test_only_user_turns_have_user_text() -> None:
    assert user_text(message(role="user", content="q")) == "q"
    assert user_text(message(role="tool", tool_call_id="c", content="r")) == ""


def test_transcript_calls_a_developer_system() -> None:
    raw = message(role="developer", content="rules")

    assert transcribe_turn(raw) == ("SYSTEM: rules",)


def test_span_of_a_part_is_found_by_its_index() -> None:
    raw = message(role="user", content="q")
    part = read_parts(raw)[0]

    assert part_span(raw, 0) == (part.start, part.end)


@pytest.mark.parametrize(
    "raw",
    [
        b"[]",
        b'{"role":"user","content":3}',
        b'{"role":"assistant","tool_calls":[{"id":3}]}',
        b'{"content":"x"}',
    ],
)
def test_what_is_no_message_is_not_understood(raw: bytes) -> None:
    with pytest.raises(NotLifted):
        transcribe_turn(raw)
    with pytest.raises(NotLifted):
        read_parts(raw)
