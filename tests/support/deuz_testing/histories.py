"""Conversations for compaction: built, condensed and judged by the providers' rules."""

import json
from collections.abc import Sequence
from functools import partial
from random import Random
from typing import Any

import msgspec
from hypothesis import strategies as st

from deuz_compiler.compaction.history import TurnView, view_turns
from deuz_compiler.compaction.plan import Plan
from deuz_compiler.compaction.summary import render_summary
from deuz_compiler.errors import NotLifted
from deuz_compiler.tokens.estimate import estimate_bytes
from deuz_compiler.wires.anthropic import parts as anthropic_parts
from deuz_compiler.wires.envelope import Edit, lower
from deuz_compiler.wires.members import array_elements, object_members
from deuz_compiler.wires.openai_chat import parts as openai_chat_parts
from deuz_compiler.wires.openai_responses import parts as openai_responses_parts
from deuz_compiler.wires.parts import ReadParts
from deuz_compiler.wires.requests import lift
from deuz_compiler.wires.turns import Turn, Turns
from deuz_testing.layouts import DICE, is_heads, words

Message = dict[str, Any]
RESPONSES = "openai_responses"
WIRES = ("anthropic", "openai_chat", RESPONSES)
# Where reasoning is a piece of a turn, and not an item that the next one needs.
CUTTING_WIRES = ("anthropic", "openai_chat")
READERS: dict[str, ReadParts] = {
    "anthropic": anthropic_parts.read_parts,
    "openai_chat": openai_chat_parts.read_parts,
    RESPONSES: openai_responses_parts.read_parts,
}
_CALLS = {"function_call", "custom_tool_call"}
_OUTPUTS = {"function_call_output", "custom_tool_call_output"}
_FRESH = {"text", "image", "document"}


def body_of(messages: Sequence[Message], wire: str = "") -> bytes:
    history = "input" if wire == RESPONSES else "messages"
    body = {"model": "m", "max_tokens": 9, history: list(messages)}
    return json.dumps(body, ensure_ascii=False).encode()


def turns_of(wire: str, body: bytes) -> Turns | tuple[Turn, ...]:
    if wire != RESPONSES:
        return lift(wire, body).turns
    member = next(m for m in object_members(body) if m.key == "input")
    places = array_elements(body[member.start : member.end], shift=member.start)
    return tuple(_item_turn(body[start:end], start) for start, end in places)


def _item_turn(raw: bytes, start: int) -> Turn:
    role = openai_responses_parts.role_of(raw)
    try:
        kinds = [part.kind for part in openai_responses_parts.read_parts(raw)]
    except NotLifted:
        kinds = []
    return Turn(
        start,
        start + len(raw),
        role,
        is_fresh=role == "user" and any(kind in _FRESH for kind in kinds),
        opens_calls="tool_call" in kinds,
        tokens=estimate_bytes(raw),
        digest=b"",
    )


def history_of(wire: str, messages: Sequence[Message]) -> tuple[TurnView, ...]:
    body = body_of(messages, wire)
    return view_turns(turns_of(wire, body), body, READERS[wire])


def condense(
    wire: str, messages: Sequence[Message], plan: Plan, summary: str = "notes"
) -> list[Message]:
    """Return the messages as the plan leaves them."""
    body = body_of(messages, wire)
    turns = turns_of(wire, body)
    history = view_turns(turns, body, READERS[wire])
    fold = plan.fold
    edits = []
    for pruned in plan.prunes:
        if fold and fold.first <= pruned.turn <= fold.last:
            continue
        for index, text in pruned.stubs:
            part = history[pruned.turn].parts[index]
            base = turns[pruned.turn].start
            edits.append(Edit(base + part.start, base + part.end, text))
    if fold:
        content = render_summary(summary, fold.question)
        turn = json.dumps({"role": "user", "content": content}).encode()
        kept = [history[index].raw for index in fold.kept]
        text = b",".join([turn, *kept])
        edits.append(Edit(turns[fold.first].start, turns[fold.last].end, text))
    edits.sort(key=lambda edit: edit.start)
    key = "input" if wire == RESPONSES else "messages"
    condensed: list[Message] = msgspec.json.decode(lower(body, tuple(edits)))[key]
    return condensed


def calls_of(message: Message) -> list[str]:
    if message.get("type") in _CALLS:
        return [message["call_id"]]
    content = message.get("content")
    blocks = content if isinstance(content, list) else []
    used = [block["id"] for block in blocks if block.get("type") == "tool_use"]
    return used + [call["id"] for call in message.get("tool_calls") or []]


def results_of(message: Message) -> list[str]:
    if message.get("type") in _OUTPUTS:
        return [message["call_id"]]
    if message.get("role") == "tool":
        return [message["tool_call_id"]]
    content = message.get("content")
    blocks = content if isinstance(content, list) else []
    return [b["tool_use_id"] for b in blocks if b.get("type") == "tool_result"]


def broken_rules(messages: Sequence[Message]) -> list[str]:
    """Return what a provider would refuse: order, pairing, blank turns."""
    faults = []
    spoken = [m for m in messages if m.get("role") not in {"system", "developer"}]
    if spoken and spoken[0].get("role") != "user":
        faults.append("does not start with a user turn")
    open_calls: list[str] = []
    for message in messages:
        answered, called = results_of(message), calls_of(message)
        is_item = message.get("type") in _CALLS
        faults += [f"orphan result {i}" for i in answered if i not in open_calls]
        open_calls = [i for i in open_calls if i not in answered]
        if open_calls and not answered and not is_item:
            faults.append(f"calls without results {open_calls}")
            open_calls = []
        open_calls += called
        said = message.get("content") or message.get("output") or called
        if not said and message.get("type") != "reasoning":
            faults.append("blank turn")
    return faults + _lone_reasoning(messages)


def _lone_reasoning(messages: Sequence[Message]) -> list[str]:
    pairs = zip(messages, [*messages[1:], {}], strict=True)
    return [
        "reasoning without its item"
        for message, follower in pairs
        if message.get("type") == "reasoning"
        and follower.get("role") != "assistant"
        and follower.get("type") not in _CALLS
    ]


def broken_system_turns(messages: Sequence[Message]) -> list[int]:
    """Return later system turns that Anthropic would refuse where they stand."""
    found = []
    for index, message in enumerate(messages):
        others = [m for m in messages[index + 1 :] if m["role"] != "system"]
        before = [m for m in messages[:index] if m["role"] != "system"]
        if message["role"] == "system" and (
            not before
            or before[-1]["role"] != "user"
            or (others and others[0]["role"] != "assistant")
        ):
            found.append(index)
    return found


def tool_round(wire: str, ids: Sequence[str], result: str, think: str) -> list[Message]:
    """Return an assistant turn with calls and what answers them."""
    return _ROUNDS[wire](ids, result, think)


def _anthropic_round(ids: Sequence[str], result: str, think: str) -> list[Message]:
    thoughts = [{"type": "thinking", "thinking": think, "signature": "s"}]
    calls = [
        {"type": "tool_use", "id": i, "name": "read", "input": {"path": i}} for i in ids
    ]
    answers = [
        {"type": "tool_result", "tool_use_id": i, "content": result} for i in ids
    ]
    return [
        {"role": "assistant", "content": (thoughts if think else []) + calls},
        {"role": "user", "content": answers},
    ]


def _chat_round(ids: Sequence[str], result: str, think: str) -> list[Message]:
    functions = [
        {"id": i, "type": "function", "function": {"name": "read", "arguments": "{}"}}
        for i in ids
    ]
    assistant: Message = {
        "role": "assistant",
        "content": None,
        "tool_calls": functions,
    }
    if think:
        assistant["reasoning_content"] = think
    answered = [{"role": "tool", "tool_call_id": i, "content": result} for i in ids]
    return [assistant, *answered]


def _responses_round(ids: Sequence[str], result: str, think: str) -> list[Message]:
    summary = [{"type": "summary_text", "text": think}]
    thought = {"type": "reasoning", "summary": summary, "encrypted_content": "sealed"}
    calls = [
        {"type": "function_call", "call_id": i, "name": "read", "arguments": "{}"}
        for i in ids
    ]
    outputs = [
        {"type": "function_call_output", "call_id": i, "output": result} for i in ids
    ]
    return [*([thought] if think else []), *calls, *outputs]


_ROUNDS = {
    "anthropic": _anthropic_round,
    "openai_chat": _chat_round,
    RESPONSES: _responses_round,
}


_LETTERS = "abc \n<&\u00e9\U0001f600"


@st.composite
def conversations(draw: st.DrawFn, wire: str) -> list[Message]:
    """Draw a legal conversation of plain exchanges, tool rounds and system turns."""
    steps, dice = draw(st.integers(0, 12)), draw(DICE)
    messages: list[Message] = []
    if wire != "anthropic":
        messages.append({"role": "system", "content": _words(dice)})
    messages.append({"role": "user", "content": _words(dice)})
    for number in range(steps):
        kind = dice.choice(("tools", "tools", "say", "ask", "rules"))
        if kind == "tools":
            ids = [f"c{number}_{n}" for n in range(dice.randint(1, 3))]
            result = _words(dice) * dice.randint(1, 40)
            messages += tool_round(wire, ids, result, dice.choice(("", "a thought")))
        elif kind == "say":
            messages.append({"role": "assistant", "content": _words(dice)})
        elif kind == "ask":
            messages.append({"role": "user", "content": _words(dice)})
        elif messages[-1].get("role") == "user":
            messages.append({"role": "system", "content": _words(dice)})
            messages.append({"role": "assistant", "content": "understood"})
    return messages


def _words(dice: Random) -> str:
    return words(dice, _LETTERS, most=60)


_ODD_KEYS = (
    "type",
    "role",
    "content",
    "text",
    "thinking",
    "output",
    "call_id",
    "tool_use_id",
    "tool_calls",
    "summary",
    "input",
    "id",
)
_ODD_TYPES = (
    "tool_result",
    "tool_use",
    "thinking",
    "text",
    "function_call",
    "function_call_output",
    "reasoning",
    "compaction",
    "item_reference",
    "image",
)
_LONG = "x" * 9_000
_ODD_VALUES: tuple[Any, ...] = (
    None,
    7,
    1.5,
    True,
    "",
    "\u00e9",
    _LONG,
    [],
    {},
    [[]],
    [None],
    [{"type": "text", "text": _LONG}],
    [{"type": "tool_result", "tool_use_id": "a", "content": [{"text": 1}, _LONG]}],
    [{"type": "thinking"}, {"type": "tool_use", "id": "a"}],
    [{"id": "a", "function": {"name": "f"}}],
    {"type": "text", "text": _LONG},
)


@st.composite
def odd_views(draw: st.DrawFn, wire: str) -> tuple[TurnView, ...]:
    """Draw turns of shapes that no provider takes, but a lifter might pass."""
    turns, dice = draw(st.integers(0, 8)), draw(DICE)
    views: list[TurnView] = []
    for _ in range(turns):
        raw = json.dumps(_odd_turn(dice)).encode()
        place = Turn(
            0,
            len(raw),
            dice.choice(("system", "user", "assistant", "tool")),
            is_fresh=is_heads(dice),
            opens_calls=is_heads(dice),
            tokens=dice.randint(0, 5_000),
            digest=b"",
        )
        views += view_turns([place], raw, partial(READERS[wire]))
    return tuple(views)


def _odd_turn(dice: Random) -> Message:
    turn: Message = {"role": dice.choice(("user", "assistant", "tool", 1))}
    if is_heads(dice):
        turn["type"] = dice.choice(_ODD_TYPES)
    for key in dice.choices(_ODD_KEYS[2:], k=dice.randint(0, 4)):
        turn[key] = dice.choice(_ODD_VALUES)
    return turn
