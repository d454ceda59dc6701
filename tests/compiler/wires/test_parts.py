import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deuz_compiler.errors import NotLifted
from deuz_compiler.placement.block import BlockRecord, render_block
from deuz_compiler.wires.members import array_elements
from deuz_compiler.wires.own import SUMMARY_MARKER
from deuz_compiler.wires.parts import (
    Part,
    cut_places,
    place_of,
    stub_result,
    transcribe,
    words_of,
)

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
    )

    assert transcribe("assistant", parts) == (
        "ASSISTANT: [thinking: hm]",
        "ASSISTANT: hello",
        "ASSISTANT: [image]",
        'ASSISTANT: [call read({"a":1})]',
        "TOOL: [result: found]",
        "ASSISTANT: [server_tool_use]",
    )


def test_own_blocks_and_summaries_are_not_the_users_words() -> None:
    parts = (
        Part("text", 0, 0, f"first\n\n{BLOCK}"),
        Part("text", 0, 0, f"{SUMMARY_MARKER}\nnotes"),
        Part("image", 0, 0, "not said"),
        Part("text", 0, 0, "second"),
    )

    assert words_of(parts) == "first\nsecond"
