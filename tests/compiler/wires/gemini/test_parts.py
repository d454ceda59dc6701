import json
from typing import Any

import pytest

from deuz_compiler.errors import NotLifted
from deuz_compiler.wires.gemini.parts import (
    part_span,
    read_parts,
    transcribe_turn,
    user_text,
)
from deuz_compiler.wires.parts import stub_result


def turn(*parts: Any, role: str = "user") -> bytes:
    value = {"parts": list(parts), "role": role}
    return json.dumps(value, separators=(" , ", ": ")).encode()


def returned(response: Any, **members: Any) -> dict[str, Any]:
    return {"functionResponse": {"name": "f", "response": response, **members}}


def test_a_part_is_told_by_what_it_holds() -> None:
    raw = turn(
        {"text": "t"},
        {"inlineData": {"mimeType": "image/png", "data": ""}},
        {"file_data": {"mime_type": "application/pdf", "file_uri": "gs://b/f"}},
        {"fileData": {"fileUri": "gs://b/f"}},
        {"function_call": {"name": "f", "args": {"a": 1}}},
        {"executableCode": {"code": "1"}},
        {},
    )

    parts = read_parts(raw)

    assert [p.kind for p in parts] == [
        "text",
        "image",
        "document",
        "document",
        "tool_call",
        "other",
        "other",
    ]
    assert (parts[4].text, parts[4].call_id, parts[4].name) == ('{"a": 1}', "f", "f")
    assert [p.name for p in parts[5:]] == ["executableCode", ""]


def test_ids_pair_calls_and_responses_and_names_do_where_there_are_none() -> None:
    call = {"functionCall": {"id": "c1", "name": "f", "args": {}}}
    parts = read_parts(turn(call, returned({"output": "r"}, id="c1")))
    bare = read_parts(turn({"functionCall": {}}, {"functionResponse": {"name": "f"}}))

    assert [p.call_id for p in parts] == ["c1", "c1"]
    assert [p.call_id for p in bare] == ["", "f"]


@pytest.mark.parametrize(
    ("response", "text", "stubbed"),
    [
        ({"output": "long words"}, "long words", {"output": "[cut]"}),
        ({"output": ["a", "b"]}, None, {"output": "[cut]"}),
        (
            {"code": 0, "output": "long words", "error": ""},
            None,
            {"code": 0, "output": "[cut]", "error": ""},
        ),
    ],
)
def test_a_stub_takes_the_largest_member_and_leaves_an_object(
    response: Any, text: str | None, stubbed: Any
) -> None:
    raw = turn(returned(response, id="c1"))
    (part,) = read_parts(raw)

    left = json.loads(stub_result(raw, part, "[cut]"))

    whole = json.dumps(response, separators=(" , ", ": "))
    assert part.text == (whole if text is None else text)
    assert left["parts"] == [returned(stubbed, id="c1")]


@pytest.mark.parametrize(
    "part",
    [
        returned({}),
        returned("words"),
        {"functionResponse": {"name": "f"}},
    ],
)
def test_a_response_without_members_has_no_place_for_a_stub(part: Any) -> None:
    (found,) = read_parts(turn(part))

    assert found.kind == "tool_result"
    assert found.start == found.end


def test_thoughts_are_cut_together_with_one_comma_each() -> None:
    raw = turn({"text": "hm", "thought": True}, {"text": "a"}, role="model")

    thought, said = read_parts(raw)

    assert [thought.kind, said.kind] == ["reasoning", "text"]
    left = json.loads(raw[: thought.start] + raw[thought.end :])
    assert left["parts"] == [{"text": "a"}]


def test_a_signed_thought_is_never_cut_and_keeps_the_others() -> None:
    signed = {"text": "hm", "thought": True, "thoughtSignature": "s"}
    raw = turn({"text": "so", "thought": True}, signed, {"text": "a"}, role="model")

    thoughts = [part for part in read_parts(raw) if part.kind == "reasoning"]

    assert [part.text for part in thoughts] == ["so", "hm"]
    assert all(part.start == part.end for part in thoughts)


def test_a_turn_without_a_list_has_one_part() -> None:
    raw = b'{"parts": {"text": "q"}}'

    assert [(p.text, raw[p.start : p.end]) for p in read_parts(raw)] == [
        ("q", b'{"text": "q"}')
    ]
    assert read_parts(b'{"role":"model"}') == ()


def test_a_turn_is_transcribed_for_a_summariser() -> None:
    call = {"functionCall": {"name": "f", "args": {"a": 1}}}

    assert transcribe_turn(turn({"text": "q"})) == ("USER: q",)
    assert transcribe_turn(turn(call, role="model")) == (
        'ASSISTANT: [call f({"a": 1})]',
    )
    assert transcribe_turn(turn(returned({"output": "r"}))) == ("TOOL: [result: r]",)


def test_only_what_the_user_wrote_is_the_users_text() -> None:
    assert user_text(turn({"text": "q"}, {"text": "more"})) == "q\nmore"
    assert user_text(turn({"text": "a"}, role="model")) == ""


@pytest.mark.parametrize("raw", [b'{"parts":"x"}', b'{"parts":[{"text":1}]}', b"[]"])
def test_what_is_no_turn_is_refused(raw: bytes) -> None:
    with pytest.raises(NotLifted):
        read_parts(raw)


def test_a_part_that_is_not_there_and_a_role_that_is_none_are_refused() -> None:
    with pytest.raises(NotLifted):
        part_span(turn({"text": "q"}), 1)
    with pytest.raises(NotLifted):
        user_text(b'{"role":1,"parts":[]}')
