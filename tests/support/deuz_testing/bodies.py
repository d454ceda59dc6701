"""Request bodies for tests: plain builders, and strategies for odd layouts.

The strategies write JSON themselves: blanks, escapes, number spellings and key orders
that no encoder would give, as real clients have them in sum.
"""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from hypothesis import strategies as st

BLANKS = st.sampled_from(["", " ", "\n", "\t", "  ", "\r\n  "])


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
def odd_strings(draw: st.DrawFn) -> str:
    """Return a JSON string literal, escaped in one of the legal ways."""
    text = draw(st.text(max_size=12))
    is_ascii = draw(st.booleans())
    literal = json.dumps(text, ensure_ascii=is_ascii)
    try:
        literal.encode()
    except UnicodeEncodeError:
        literal = json.dumps(text, ensure_ascii=True)
    return literal.replace("/", "\\/") if draw(st.booleans()) else literal


ODD_NUMBERS = st.sampled_from(
    ["1.0", "1e3", "-0", "1234567890123456789012345", "0.30000000000000004", "2"]
)


@st.composite
def odd_values(draw: st.DrawFn, depth: int = 2) -> str:
    """Return any JSON value as text, in an odd layout."""
    leaf = st.one_of(
        odd_strings(), ODD_NUMBERS, st.sampled_from(["true", "false", "null"])
    )
    if depth == 0 or draw(st.booleans()):
        return draw(leaf)
    inner = [draw(odd_values(depth=depth - 1)) for _ in range(draw(st.integers(0, 3)))]
    if draw(st.booleans()):
        return "[" + _joined(draw, inner) + "]"
    members = [f'"k{i}"{draw(BLANKS)}:{draw(BLANKS)}{v}' for i, v in enumerate(inner)]
    return "{" + _joined(draw, members) + "}"


def _joined(draw: st.DrawFn, pieces: Sequence[str]) -> str:
    text = draw(BLANKS)
    for position, piece in enumerate(pieces):
        comma = f"{draw(BLANKS)},{draw(BLANKS)}" if position else ""
        text += comma + piece
    return text + draw(BLANKS)


@st.composite
def odd_objects(draw: st.DrawFn, members: Mapping[str, str]) -> str:
    """Return an object with these members (JSON texts) and others, in any order."""
    extra = {f"x_{i}": draw(odd_values()) for i in range(draw(st.integers(0, 2)))}
    names = draw(st.permutations(sorted({**members, **extra})))
    every = {**members, **extra}
    return (
        "{"
        + _joined(
            draw,
            [f'"{n}"{draw(BLANKS)}:{draw(BLANKS)}{every[n]}' for n in names],
        )
        + "}"
    )


@st.composite
def odd_messages(draw: st.DrawFn, role: str) -> str:
    """Return one message of the role, its content a string or a list of text."""
    text = draw(odd_strings())
    block = draw(odd_objects({"type": '"text"', "text": text}))
    content = text if draw(st.booleans()) else f"[{draw(BLANKS)}{block}]"
    return draw(odd_objects({"role": f'"{role}"', "content": content}))


@st.composite
def odd_bodies(draw: st.DrawFn) -> bytes:
    """Return a request body in an odd layout that ends with a user's turn."""
    steps = draw(st.integers(0, 3))
    roles = ["user", "assistant"] * steps + ["user"]
    messages = [draw(odd_messages(role)) for role in roles]
    members = {
        "model": '"m-1"',
        "messages": "[" + _joined(draw, messages) + "]",
        "max_tokens": draw(st.sampled_from(["1", "1024", "null"])),
    }
    if draw(st.booleans()):
        members["tools"] = draw(odd_values())
    if draw(st.booleans()):
        members["system"] = draw(odd_strings())
    mark = draw(st.sampled_from([b"", b"\xef\xbb\xbf"]))
    tail = draw(st.sampled_from([b"", b"\n", b" \r\n"]))
    return mark + draw(odd_objects(members)).encode() + tail
