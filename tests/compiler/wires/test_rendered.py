import json
from collections.abc import Mapping

import msgspec
import pytest

from deuz_compiler.wires.rendered import (
    MARKERS,
    has_marker,
    rendered_list,
    rendered_turn,
)
from deuz_testing.bodies import compact

MARK = {"cache_control": {"type": "ephemeral"}}


def rendered(message: Mapping[str, object]) -> bytes:
    marks = [msgspec.Raw(compact(message[name])) for name in MARKERS & message.keys()]
    return rendered_turn(compact(message), compact(message.get("content", "")), *marks)


def test_a_string_and_a_list_of_one_text_block_are_the_same() -> None:
    as_text = {"role": "user", "content": "hi /é"}
    as_list = {"role": "user", "content": [{"type": "text", "text": "hi /é"}]}
    marked = {"role": "user", "content": [{"type": "text", "text": "hi /é", **MARK}]}

    assert rendered(as_text) == rendered(as_list) == rendered(marked)


def test_a_marker_on_the_last_of_several_blocks_is_not_rendered() -> None:
    blocks = [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]
    plain = {"role": "user", "content": blocks}
    marked = {"role": "user", "content": [blocks[0], {**blocks[1], **MARK}]}

    assert rendered(plain) == rendered(marked)


def test_markers_of_a_tool_result_and_of_its_own_blocks_are_not_rendered() -> None:
    inner = [{"type": "text", "text": "r"}, {"type": "text", "text": "s"}]
    result = {"type": "tool_result", "tool_use_id": "t", "content": inner}
    marked = {**result, "content": [inner[0], {**inner[1], **MARK}], **MARK}
    other = {"type": "text", "text": "x"}

    assert rendered({"role": "user", "content": [result, other]}) == rendered(
        {"role": "user", "content": [marked, other]}
    )


def test_a_marker_on_the_message_itself_is_not_rendered() -> None:
    assert rendered({"role": "user", "content": "x", **MARK}) == rendered(
        {"role": "user", "content": "x"}
    )


def test_a_tools_input_that_looks_like_a_marker_is_rendered() -> None:
    call = {"type": "tool_use", "id": "t", "name": "n", "input": dict(MARK)}
    other = {**call, "input": {}}

    assert rendered({"role": "assistant", "content": [call, call]}) != rendered(
        {"role": "assistant", "content": [other, other]}
    )


def test_a_text_block_with_more_than_text_is_not_a_plain_string() -> None:
    block = {"type": "text", "text": "a", "citations": [{"x": 1}]}

    assert rendered({"role": "user", "content": [block]}) != rendered(
        {"role": "user", "content": "a"}
    )


@pytest.mark.parametrize(
    "other",
    [
        b'{"content":"hi","role":"user"}',
        b'{"role":"user","content":"hi "}',
        b'{"role":"user","content":"\\u0068i"}',
        b'{"role":"assistant","content":"hi"}',
    ],
)
def test_key_order_escapes_and_text_change_the_digest(other: bytes) -> None:
    raw = b'{"role":"user","content":"hi"}'

    seen = {
        rendered_turn(text, compact(json.loads(text)["content"]))
        for text in (raw, other)
    }

    assert len(seen) == 2


def test_a_list_of_tools_is_rendered_without_its_markers() -> None:
    tools = [{"name": "a"}, {"name": "b"}]
    marked = [{"name": "a"}, {"name": "b", **MARK}]

    assert rendered_list(compact(marked)) == rendered_list(compact(tools))
    assert has_marker(compact(marked))
    assert rendered_list(b'"plain"') == b'"plain"'


def test_a_list_of_one_bare_string_is_not_taken_for_a_text_block() -> None:
    listed = rendered({"role": "user", "content": ["a"]})

    assert listed != rendered({"role": "user", "content": "a"})
