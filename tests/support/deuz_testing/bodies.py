"""Request bodies for tests: plain builders, and strategies for odd layouts."""

import json
from collections.abc import Mapping, Sequence
from random import Random
from typing import Any

from hypothesis import strategies as st

from deuz_testing.layouts import (
    DICE,
    blank,
    is_heads,
    joined,
    odd_body,
    odd_object,
    odd_string,
    odd_value,
    unknown_members,
)


def compact(value: object) -> bytes:
    """Return the value as the SDKs write it: no blanks, raw UTF-8."""
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode()


def user(text: str) -> dict[str, Any]:
    return {"role": "user", "content": text}


def assistant(text: str) -> dict[str, Any]:
    return {"role": "assistant", "content": text}


def anthropic_body(messages: Sequence[Mapping[str, Any]], **members: Any) -> bytes:
    """Return a Messages request with the given turns."""
    base = {"model": "claude-sonnet-4-5", "max_tokens": 1024, "messages": messages}
    return compact({**base, **members})


def chat_body(messages: Sequence[Mapping[str, Any]], **members: Any) -> bytes:
    """Return a chat completions request with the given turns."""
    return compact({"model": "gpt-4o", "messages": messages, **members})


def tool_use(call_id: str, name: str = "read_file") -> dict[str, Any]:
    block = {"type": "tool_use", "id": call_id, "name": name, "input": {"path": "a"}}
    return {"role": "assistant", "content": [block]}


def tool_result(call_id: str, text: str) -> dict[str, Any]:
    block = {"type": "tool_result", "tool_use_id": call_id, "content": text}
    return {"role": "user", "content": [block]}


def chat_call(call_id: str, name: str = "read_file") -> dict[str, Any]:
    function = {"name": name, "arguments": '{"path": "a"}'}
    call = {"id": call_id, "type": "function", "function": function}
    return {"role": "assistant", "content": None, "tool_calls": [call]}


def chat_result(call_id: str, text: str) -> dict[str, Any]:
    return {"role": "tool", "tool_call_id": call_id, "content": text}


@st.composite
def odd_values(draw: st.DrawFn) -> str:
    """Draw any JSON value as text, in an odd layout."""
    return odd_value(draw(DICE))


@st.composite
def odd_objects(draw: st.DrawFn, members: Mapping[str, str]) -> str:
    """Draw an object with these members (JSON texts) and others, in any order."""
    return odd_object(draw(DICE), members)


def _odd_message(dice: Random, role: str) -> str:
    """Return one message of the role, its content a string or a list of text."""
    text = odd_string(dice)
    if is_heads(dice):
        block = odd_object(dice, {"type": '"text"', "text": text})
        text = f"[{blank(dice)}{block}]"
    return odd_object(dice, {"role": f'"{role}"', "content": text})


@st.composite
def odd_bodies(draw: st.DrawFn) -> bytes:
    """Draw a request body in an odd layout that ends with a user's turn."""
    steps, dice = draw(st.integers(0, 3)), draw(DICE)
    roles = ["user", "assistant"] * steps + ["user"]
    messages = [_odd_message(dice, role) for role in roles]
    members = {
        "model": '"m-1"',
        "messages": "[" + joined(dice, messages) + "]",
        "max_tokens": dice.choice(("1", "1024", "null")),
    }
    if is_heads(dice):
        members["tools"] = odd_value(dice)
    if is_heads(dice):
        members["system"] = odd_string(dice)
    return odd_body(dice, {**members, **unknown_members(dice)})
