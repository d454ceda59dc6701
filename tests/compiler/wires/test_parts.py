"""The parts of a turn, and one suite of laws that every wire's reader must pass."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from deuz_compiler.errors import NotLifted
from deuz_compiler.placement.block import BlockRecord, render_block
from deuz_compiler.wires.anthropic import parts as anthropic_parts
from deuz_compiler.wires.members import array_elements
from deuz_compiler.wires.openai_chat import parts as openai_chat_parts
from deuz_compiler.wires.openai_responses import parts as openai_responses_parts
from deuz_compiler.wires.own import SUMMARY_MARKER
from deuz_compiler.wires.parts import (
    Part,
    TurnReader,
    cut_places,
    place_of,
    stub_result,
    transcribe,
    words_of,
)
from deuz_testing.histories import (
    RESPONSES,
    WIRES,
    Message,
    calls_of,
    conversations,
    results_of,
    tool_round,
)

READER_OF = {
    "anthropic": anthropic_parts,
    "openai_chat": openai_chat_parts,
    RESPONSES: openai_responses_parts,
}
BLOCK = render_block([BlockRecord("s", "k", "i", "1", "", "found text")])


@given(
    st.lists(st.booleans(), min_size=1, max_size=8), st.sampled_from(["", " ", "\n "])
)
def test_cut_elements_are_gone_and_the_rest_is_valid_json(
    is_cut: list[bool], gap: str
) -> None:
    inner = f"{gap},{gap}".join(str(n) for n in range(len(is_cut)))
    text = f"[{gap}{inner}{gap}]".encode()

    places = cut_places(array_elements(text), is_cut)

    left = text
    chosen = [place for place, cut in zip(places, is_cut, strict=True) if cut]
    for start, end in reversed(chosen):
        left = left[:start] + left[end:]
    kept = [n for n, cut in enumerate(is_cut) if not cut]
    assert json.loads(left) == (kept or list(range(len(is_cut))))


def test_place_of_an_absent_part_is_not_understood() -> None:
    with pytest.raises(NotLifted):
        place_of((), 0)


def test_stub_changes_the_content_alone() -> None:
    raw = b'{"content": "long", "id": 1}'

    assert stub_result(raw, Part("tool_result", 12, 18), "s") == (
        b'{"content": "s", "id": 1}'
    )


def test_transcript_names_speakers_calls_results_and_media() -> None:
    parts = (
        Part("reasoning", 0, 0, "hm"),
        Part("reasoning", 0, 0),
        Part("text", 0, 0, "hello"),
        Part("text", 0, 0, BLOCK),
        Part("image", 0, 0),
        Part("tool_call", 0, 0, '{"a":1}', "c", "read"),
        Part("tool_result", 0, 0, "found", "c"),
        Part("other", 0, 0, name="server_tool_use"),
        Part("sealed", 0, 0, name="compaction"),
    )

    assert transcribe("assistant", parts) == (
        "ASSISTANT: [thinking: hm]",
        "ASSISTANT: hello",
        "ASSISTANT: [image]",
        'ASSISTANT: [call read({"a":1})]',
        "TOOL: [result: found]",
        "ASSISTANT: [server_tool_use]",
        "ASSISTANT: [compaction]",
    )


def test_own_blocks_and_summaries_are_not_the_users_words() -> None:
    parts = (
        Part("text", 0, 0, f"first\n\n{BLOCK}"),
        Part("text", 0, 0, f"{SUMMARY_MARKER}\nnotes"),
        Part("image", 0, 0, "not said"),
        Part("text", 0, 0, "second"),
    )

    assert words_of(parts) == "first\nsecond"


def written(message: Message) -> bytes:
    return json.dumps(message, ensure_ascii=False, separators=(" ,", ": ")).encode()


@pytest.mark.parametrize("wire", WIRES)
@given(data=st.data())
def test_every_part_has_its_place_inside_the_turn(
    wire: str, data: st.DataObject
) -> None:
    for message in data.draw(conversations(wire)):
        raw = written(message)
        parts = READER_OF[wire].read_parts(raw)

        assert parts
        for index, part in enumerate(parts):
            assert 0 <= part.start <= part.end <= len(raw)
            assert READER_OF[wire].part_span(raw, index) == (part.start, part.end)


@pytest.mark.parametrize("wire", WIRES)
@given(data=st.data())
def test_calls_and_results_are_found_with_the_ids_that_pair_them(
    wire: str, data: st.DataObject
) -> None:
    for message in data.draw(conversations(wire)):
        parts = READER_OF[wire].read_parts(written(message))

        found = {
            kind: [part.call_id for part in parts if part.kind == kind]
            for kind in ("tool_call", "tool_result")
        }
        assert found["tool_call"] == calls_of(message)
        assert found["tool_result"] == results_of(message)


@pytest.mark.parametrize("wire", WIRES)
@given(result=st.text(max_size=40), stub=st.text(max_size=10))
def test_stub_of_a_result_changes_its_content_and_nothing_else(
    wire: str, result: str, stub: str
) -> None:
    answer = tool_round(wire, ["c"], result, "")[-1]
    raw = written(answer)
    (part,) = READER_OF[wire].read_parts(raw)

    stubbed = stub_result(raw, part, stub)

    assert part.text == result
    assert json.loads(stubbed) == tool_round(wire, ["c"], stub, "")[-1]


@pytest.mark.parametrize("wire", WIRES)
def test_transcript_tells_thought_call_and_result(wire: str) -> None:
    turns = tool_round(wire, ["c"], "found it", "a thought")

    lines = [
        line for t in turns for line in READER_OF[wire].transcribe_turn(written(t))
    ]

    assert lines[0] == "ASSISTANT: [thinking: a thought]"
    assert lines[1].startswith("ASSISTANT: [call read(")
    assert lines[2] == "TOOL: [result: found it]"


@pytest.mark.parametrize("wire", WIRES)
def test_words_of_a_user_are_read_alike_on_every_wire(wire: str) -> None:
    asked = written({"role": "user", "content": f"why?\n\n{BLOCK}"})
    said = written({"role": "assistant", "content": "because"})

    assert READER_OF[wire].user_text(asked) == "why?"
    assert READER_OF[wire].user_text(said) == ""


# Deeper than any version of Python reads.
DEEP = b"[" * 1_000_000 + b"]" * 1_000_000


@pytest.mark.parametrize("wire", WIRES)
@pytest.mark.parametrize(
    "raw",
    [
        b'{"role":"user","content":%b}' % DEEP,
        b'{"role":"assistant","content":"x","x":%b}' % DEEP,
        b'{"type":"function_call_output","call_id":"c","output":%b}' % DEEP,
        b"7",
        b"",
        b'{"role":"user","content":"x"',
    ],
)
def test_what_cannot_be_read_is_told_so_on_every_wire(wire: str, raw: bytes) -> None:
    for read in (READER_OF[wire].read_parts, READER_OF[wire].user_text):
        with pytest.raises(NotLifted):
            read(raw)


@given(
    text=st.text(max_size=12) | st.sampled_from(['a \\ " b', BLOCK, f"q\n{BLOCK}"]),
    spaces=st.sampled_from(["", " "]),
    behind=st.sampled_from(
        [
            "}",
            " }",
            ',"content":"z"}',
            ',"role":"assistant"}',
            ',"name":"n"}',
            '"}',
            "",
            ",",
        ]
    ),
)
@pytest.mark.parametrize("reader", READER_OF.values(), ids=READER_OF)
def test_a_plain_turn_says_what_its_parts_say(
    reader: Any, text: str, spaces: str, behind: str
) -> None:
    said = json.dumps(text)
    raw = f'{{"role":{spaces}"user",{spaces}"content":{spaces}{said}{behind}'.encode()
    general = replace(reader.READER, has_plain_turns=False)

    assert told_by(reader.READER, raw) == told_by(general, raw)


def told_by(reader: TurnReader, raw: bytes) -> str | None:
    try:
        return reader.user_text(raw)
    except NotLifted:
        return None
