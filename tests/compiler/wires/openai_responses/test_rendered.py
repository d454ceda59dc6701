from typing import Any

import msgspec
import pytest

from deuz_compiler.wires.openai_responses.rendered import rendered_item, rendered_text
from deuz_testing.bodies import compact

MARK: dict[str, Any] = {"prompt_cache_breakpoint": {"mode": "explicit"}}
CALL = {"type": "function_call", "call_id": "c", "name": "f", "arguments": "{}"}
SEALED = {"type": "reasoning", "summary": [], "encrypted_content": "sealed"}
SEARCH = {"type": "web_search_call", "action": {"type": "search", "query": "q"}}


def rendered(item: dict[str, Any]) -> bytes:
    members = msgspec.json.decode(compact(item), type=dict[str, msgspec.Raw])
    return rendered_item(item.get("type", "message"), members)


def message(content: Any, **members: Any) -> dict[str, Any]:
    return {"type": "message", "role": "user", "content": content, **members}


def text(words: str, kind: str = "input_text", **members: Any) -> dict[str, Any]:
    return {"type": kind, "text": words, **members}


@pytest.mark.parametrize(
    "item",
    [
        {"role": "user", "content": "hi"},
        {"content": "hi", "role": "user"},
        message("hi", id="msg_1", status="completed"),
        message([text("hi")]),
        message([text("hi", annotations=[], logprobs=[])]),
        message([text("hi", **MARK)], **MARK),
        message("hi", status=None, name=None),
    ],
)
def test_a_message_is_its_role_and_its_words(item: dict[str, Any]) -> None:
    assert rendered(item) == rendered(message("hi")) == rendered_text(b'"hi"')


@pytest.mark.parametrize(
    "item",
    [
        message("hi "),
        {**message("hi"), "role": "assistant"},
        message([text("hi"), text("hi")]),
        message([text("hi", annotations=[{"type": "url_citation"}])]),
        message([text("hi", kind="refusal")]),
        message([text("hi", kind="summary_text")]),
        message([{"type": "input_image", "image_url": "hi"}]),
        message("hi", phase="commentary"),
    ],
)
def test_what_is_more_than_words_is_told_from_them(item: dict[str, Any]) -> None:
    assert rendered(item) != rendered(message("hi"))


@pytest.mark.parametrize(
    "item", [CALL, {**CALL, "type": "function_call_output"}, SEALED, message("x")]
)
def test_an_id_beside_the_thing_itself_is_not_rendered(item: dict[str, Any]) -> None:
    assert rendered({**item, "id": "a"}) == rendered({"id": "b", **item})


@pytest.mark.parametrize(
    "item",
    [
        {"type": "item_reference"},
        {"type": "reasoning", "summary": []},
        {**SEALED, "encrypted_content": None},
        {"type": "mcp_approval_request", "name": "f"},
        SEARCH,
    ],
)
def test_an_id_that_stands_for_the_thing_is_rendered(item: dict[str, Any]) -> None:
    assert rendered({**item, "id": "a"}) != rendered({**item, "id": "b"})


def test_an_output_in_pieces_is_rendered_without_its_markers() -> None:
    pieces = [text("a"), {"type": "input_image", "image_url": "u"}]
    output = {"type": "function_call_output", "call_id": "c", "output": pieces}
    marked = {**output, "output": [pieces[0], {**pieces[1], **MARK}], **MARK}

    assert rendered(marked) == rendered(output)
    assert rendered({**output, "output": pieces[:1]}) != rendered(output)


def test_members_and_values_cannot_run_into_each_other() -> None:
    assert rendered({**SEARCH, "a": "b", "c": "d"}) != rendered(
        {**SEARCH, "a": 'b"c', "": "d"}
    )
