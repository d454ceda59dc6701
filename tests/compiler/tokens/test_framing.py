import json

from deuz_compiler.tokens.estimate import estimate_bytes
from deuz_compiler.tokens.framing import (
    found_tools,
    frame_tokens,
    loaded_tools,
    tools_tokens,
)

TOOL = {"name": "read", "input_schema": {"anyOf": [{"enum": ["a", "b"]}], "title": "t"}}


def test_schema_is_counted_whole() -> None:
    raw = json.dumps([TOOL]).encode()

    assert tools_tokens(raw) == estimate_bytes(json.dumps(TOOL).encode())


def test_deferred_tool_costs_nothing_until_it_is_loaded() -> None:
    deferred = {**TOOL, "defer_loading": True}
    loaded = {**TOOL, "defer_loading": False}

    assert tools_tokens(json.dumps([deferred]).encode()) == 0
    assert tools_tokens(json.dumps([loaded]).encode()) > 0


def test_deferred_tool_costs_once_a_search_found_it() -> None:
    tools = json.dumps([{**TOOL, "defer_loading": True}]).encode()

    assert tools_tokens(tools, ["other"]) == 0
    assert tools_tokens(tools, ["read"]) == sum(
        map(estimate_bytes, loaded_tools(tools, ["read"]))
    )
    assert tools_tokens(tools, ["read"]) > 0


def test_found_tools_are_named_by_the_turns_that_refer_to_them() -> None:
    found = [
        {"type": "tool_reference", "tool_name": name} for name in ("b", "a\u00e9", "b")
    ]
    told = {"type": "text", "text": '"tool_reference" "tool_name":"no"'}
    turns = [json.dumps(turn).encode() for turn in (found, told, {"tool_name": "x"})]

    assert found_tools(turns) == ("b", "a\u00e9")
    assert found_tools([b'"tool_reference" "tool_name":"\\u12"']) == ("",)


def test_tools_of_an_unknown_shape_are_still_counted() -> None:
    assert tools_tokens(b'{"read":{}}') == estimate_bytes(b'{"read":{}}')
    assert tools_tokens(b'[{"defer_loading":"yes"}]') > 0
    assert tools_tokens(b'[{"defer_loading":%b}]' % (b"[" * 9_000 + b"]" * 9_000)) > 0


def test_frame_is_anthropics_and_only_with_tools() -> None:
    assert frame_tokens("anthropic", has_tools=True) == 346
    assert frame_tokens("anthropic", has_tools=True, frame=290) == 290
    assert frame_tokens("anthropic", has_tools=False) == 0
    assert frame_tokens("openai_chat", has_tools=True) == 0
