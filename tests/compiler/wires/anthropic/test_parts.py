import json
from typing import Any

import pytest

from deuz_compiler.errors import NotLifted
from deuz_compiler.wires.anthropic.parts import (
    part_span,
    read_parts,
    transcribe_turn,
    user_text,
)
from deuz_compiler.wires.parts import stub_result


def message(role: str, content: Any) -> bytes:
    return json.dumps({"role": role, "content": content}, indent=1).encode()


def kinds(raw: bytes) -> list[str]:
    return [part.kind for part in read_parts(raw)]


def test_plain_string_is_one_text_part() -> None:
    raw = b'{ "content" : "h\\u00e9" , "role":"user"}'

    (part,) = read_parts(raw)

    assert (part.kind, part.text) == ("text", "h\u00e9")
    assert raw[part.start : part.end] == b'"h\\u00e9"'


def test_each_block_has_its_kind() -> None:
    raw = message(
        "user",
        [
            {"type": "tool_result", "tool_use_id": "c", "content": "r"},
            {"type": "text", "text": "t"},
            {"type": "image", "source": {"type": "url", "url": "u"}},
            {"type": "document", "source": {"type": "url", "url": "u"}},
            {"type": "search_result", "content": [{"type": "text", "text": "x"}]},
        ],
    )

    assert kinds(raw) == ["tool_result", "text", "image", "document", "other"]
    assert read_parts(raw)[4].name == "search_result"


def test_call_carries_its_arguments_as_they_were_sent() -> None:
    raw = (
        b'{"role":"assistant","content":[{"type":"tool_use","id":"c1","name":"read",'
        b'"input":{"n": 1.0}}]}'
    )

    (part,) = read_parts(raw)

    assert (part.call_id, part.name, part.text) == ("c1", "read", '{"n": 1.0}')


@pytest.mark.parametrize(
    ("content", "text"),
    [
        ("plain", "plain"),
        ([{"type": "text", "text": "a"}, {"type": "text", "text": "b"}], "a\nb"),
        (
            [{"type": "text", "text": "a"}, {"type": "image", "source": {}}],
            "a\n[image]",
        ),
        ([{"type": "text", "text": ""}], ""),
        (None, ""),
    ],
)
def test_stub_replaces_only_the_content_of_a_result(content: Any, text: str) -> None:
    block = {
        "type": "tool_result",
        "tool_use_id": "c1",
        "content": content,
        "is_error": True,
        "cache_control": {"type": "ephemeral"},
    }
    raw = message("user", [block, {"type": "text", "text": "and then?"}])
    part = read_parts(raw)[0]

    stubbed = stub_result(raw, part, "[pruned]")

    expected = [{**block, "content": "[pruned]"}, {"type": "text", "text": "and then?"}]
    assert json.loads(stubbed)["content"] == expected
    assert part.text == text
    assert stubbed == raw[: part.start] + b'"[pruned]"' + raw[part.end :]


def test_result_without_content_has_an_empty_place() -> None:
    raw = message("user", [{"type": "tool_result", "tool_use_id": "c1"}])

    (part,) = read_parts(raw)

    assert part.start == part.end
    assert part.text == ""


def test_reasoning_can_be_cut_out_whole() -> None:
    thought = {"type": "thinking", "thinking": "hm", "signature": "s"}
    sealed = {"type": "redacted_thinking", "data": "x"}
    text = {"type": "text", "text": "t"}
    raw = message("assistant", [thought, sealed, text, thought])

    for part in reversed(read_parts(raw)):
        if part.kind == "reasoning":
            raw = raw[: part.start] + raw[part.end :]

    assert json.loads(raw)["content"] == [text]


def test_turn_of_nothing_but_reasoning_keeps_it() -> None:
    raw = message("assistant", [{"type": "thinking", "thinking": "", "signature": "s"}])

    (part,) = read_parts(raw)

    assert part.start == part.end


def test_results_of_server_tools_and_compactions_are_sealed() -> None:
    raw = message(
        "assistant",
        [
            {"type": "web_search_tool_result", "tool_use_id": "s", "content": []},
            {"type": "compaction", "content": "c"},
        ],
    )

    assert [(p.kind, p.name) for p in read_parts(raw)] == [
        ("other", "web_search_tool_result"),
        ("sealed", "compaction"),
    ]


def test_only_user_turns_have_user_text() -> None:
    assert user_text(message("user", [{"type": "text", "text": "q"}])) == "q"
    assert user_text(message("assistant", "a")) == ""


def test_transcript_names_the_role() -> None:
    assert transcribe_turn(message("user", "q")) == ("USER: q",)


def test_span_of_a_part_is_found_by_its_index() -> None:
    raw = message("user", "q")
    part = read_parts(raw)[0]

    assert part_span(raw, 0) == (part.start, part.end)


@pytest.mark.parametrize(
    "raw",
    [
        b"[]",
        b'{"role":"user"}',
        b'{"role":"user","content":3}',
        b'{"role":"user","content":[{"type":"text","text":3}]}',
        b'{"role":"user","content":["text"]}',
        b'{"content":"x"}',
    ],
)
def test_what_is_no_message_is_not_understood(raw: bytes) -> None:
    with pytest.raises(NotLifted):
        transcribe_turn(raw)
    with pytest.raises(NotLifted):
        part_span(raw, 1)
