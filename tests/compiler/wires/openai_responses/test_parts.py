import json
from typing import Any

import pytest

from deuz_compiler.errors import NotLifted
from deuz_compiler.wires.openai_responses.parts import (
    part_span,
    read_parts,
    role_of,
    transcribe_turn,
    user_text,
)
from deuz_compiler.wires.parts import stub_result


def item(**members: Any) -> bytes:
    return json.dumps(members, separators=(" , ", ": "), ensure_ascii=False).encode()


def kinds(raw: bytes) -> list[str]:
    return [part.kind for part in read_parts(raw)]


@pytest.mark.parametrize("members", [{}, {"type": "message"}])
def test_message_may_leave_out_its_type(members: dict[str, str]) -> None:
    raw = item(**members, role="user", content="h\u00e9")

    (part,) = read_parts(raw)

    assert (part.kind, part.text) == ("text", "h\u00e9")
    assert raw[part.start : part.end] == '"h\u00e9"'.encode()


def test_each_piece_of_a_message_has_its_kind() -> None:
    raw = item(
        role="user",
        content=[
            {"type": "input_text", "text": "t"},
            {"type": "input_image", "image_url": "u", "detail": "low"},
            {"type": "input_file", "file_id": "f"},
            {"type": "input_audio", "input_audio": {"data": "", "format": "wav"}},
        ],
    )

    parts = read_parts(raw)

    assert [p.kind for p in parts] == ["text", "image", "document", "other"]
    assert parts[3].name == "input_audio"


def test_refusal_is_what_the_assistant_said() -> None:
    pieces = [{"type": "refusal", "refusal": "no"}, {"type": "output_text", "text": ""}]

    assert [p.text for p in read_parts(item(role="assistant", content=pieces))] == [
        "no",
        "",
    ]


@pytest.mark.parametrize(
    ("members", "read"),
    [
        (
            {"type": "function_call", "call_id": "c", "name": "f", "arguments": "{}"},
            ("c", "f", "{}"),
        ),
        (
            {"type": "custom_tool_call", "call_id": "c", "name": "sh", "input": "ls"},
            ("c", "sh", "ls"),
        ),
        (
            {"type": "local_shell_call", "id": "i", "call_id": "c", "action": {"a": 1}},
            ("c", "local_shell_call", '{"a": 1}'),
        ),
        (
            {"type": "apply_patch_call", "call_id": "c", "operation": {}},
            ("c", "apply_patch_call", "{}"),
        ),
        (
            {"type": "mcp_approval_request", "id": "i", "name": "f", "arguments": "[]"},
            ("i", "f", "[]"),
        ),
    ],
)
def test_calls_of_all_makes_are_read(
    members: dict[str, Any], read: tuple[str, str, str]
) -> None:
    (part,) = read_parts(item(**members))

    assert (part.kind, part.call_id, part.name, part.text) == ("tool_call", *read)
    assert role_of(item(**members)) == "assistant"


@pytest.mark.parametrize("kind", ["function_call_output", "custom_tool_call_output"])
@pytest.mark.parametrize(
    ("output", "text"),
    [
        ("plain", "plain"),
        (
            [{"type": "input_text", "text": "a"}, {"type": "input_image"}],
            "a\n[input_image]",
        ),
        ([{"type": "input_text", "text": ""}], ""),
    ],
)
def test_stub_replaces_only_the_output(kind: str, output: Any, text: str) -> None:
    members = {"call_id": "c", "output": output, "type": kind, "status": "completed"}
    raw = item(**members)
    (part,) = read_parts(raw)

    stubbed = json.loads(stub_result(raw, part, "[pruned]"))

    assert (part.kind, part.call_id, part.text) == ("tool_result", "c", text)
    assert stubbed == {**members, "output": "[pruned]"}
    assert role_of(raw) == "tool"


@pytest.mark.parametrize(
    ("members", "call_id"),
    [
        ({"type": "shell_call_output", "call_id": "c", "output": []}, "c"),
        ({"type": "local_shell_call_output", "id": "c", "output": "log"}, "c"),
        ({"type": "computer_call_output", "call_id": "c", "output": {}}, "c"),
        ({"type": "mcp_approval_response", "approval_request_id": "c"}, "c"),
    ],
)
def test_output_of_another_shape_is_paired_and_has_an_empty_place(
    members: dict[str, Any], call_id: str
) -> None:
    (part,) = read_parts(item(**members))

    assert (part.kind, part.call_id) == ("tool_result", call_id)
    assert part.start == part.end


@pytest.mark.parametrize(
    ("members", "text"),
    [
        ({"summary": [{"type": "summary_text", "text": "hm"}]}, "hm"),
        (
            {"summary": [], "content": [{"type": "reasoning_text", "text": "open"}]},
            "open",
        ),
        ({"summary": [], "content": None, "encrypted_content": "gAAA"}, ""),
    ],
)
def test_reasoning_is_never_cut_and_tells_what_can_be_read(
    members: dict[str, Any], text: str
) -> None:
    (part,) = read_parts(item(type="reasoning", id="rs_1", **members))

    assert (part.kind, part.text) == ("reasoning", text)
    assert part.start == part.end


@pytest.mark.parametrize(
    ("kind", "role"),
    [
        ("compaction", "assistant"),
        ("item_reference", "assistant"),
        ("additional_tools", "system"),
        ("configuration_update", "system"),
    ],
)
def test_summaries_and_state_of_the_provider_are_sealed(kind: str, role: str) -> None:
    raw = item(type=kind, id="x", encrypted_content="gAAA")

    (part,) = read_parts(raw)

    assert (part.kind, part.name) == ("sealed", kind)
    assert role_of(raw) == role


def test_items_of_the_providers_own_tools_are_other() -> None:
    (part,) = read_parts(item(type="web_search_call", id="ws", status="completed"))

    assert (part.kind, part.name) == ("other", "web_search_call")


def test_developer_is_system_and_only_users_have_user_text() -> None:
    assert transcribe_turn(item(role="developer", content="r")) == ("SYSTEM: r",)
    assert user_text(item(role="user", content="q")) == "q"
    assert user_text(item(role="assistant", content="a")) == ""
    assert user_text(item(type="reasoning", summary=[])) == ""


def test_span_of_a_part_is_found_by_its_index() -> None:
    raw = item(role="user", content="q")
    part = read_parts(raw)[0]

    assert part_span(raw, 0) == (part.start, part.end)


@pytest.mark.parametrize(
    "raw",
    [
        b"[]",
        b"{}",
        b'{"role":"user"}',
        b'{"role":"user","content":3}',
        b'{"content":"x"}',
        b'{"role":"user","content":["x"]}',
        b'{"type":"function_call_output","call_id":"c"}',
        b'{"type":"function_call_output","call_id":"c","output":[3]}',
        b'{"type":"function_call","call_id":3}',
        b'{"type":"reasoning","summary":[],"content":"x"}',
    ],
)
def test_what_is_no_item_is_not_understood(raw: bytes) -> None:
    with pytest.raises(NotLifted):
        read_parts(raw)
    with pytest.raises(NotLifted):
        part_span(raw, 0)


def test_role_of_what_is_no_item_is_not_understood() -> None:
    with pytest.raises(NotLifted):
        role_of(b"[]")
