"""Conversations for compaction: built, condensed and judged by the providers' rules."""

import json
from collections.abc import Sequence
from functools import partial
from typing import Any

import msgspec
from hypothesis import strategies as st

from deuz_compiler.compaction.history import TurnView, view_turns
from deuz_compiler.compaction.plan import Plan
from deuz_compiler.compaction.summary import render_summary
from deuz_compiler.wires.envelope import Edit, lower
from deuz_compiler.wires.requests import lift, read_parts

Message = dict[str, Any]
WIRES = ("anthropic", "openai_chat")


def body_of(messages: Sequence[Message]) -> bytes:
    body = {"model": "m", "max_tokens": 9, "messages": list(messages)}
    return json.dumps(body, ensure_ascii=False).encode()


def history_of(wire: str, messages: Sequence[Message]) -> tuple[TurnView, ...]:
    body = body_of(messages)
    return view_turns(lift(wire, body).turns, body, partial(read_parts, wire))


def condense(
    wire: str, messages: Sequence[Message], plan: Plan, summary: str = "notes"
) -> list[Message]:
    """Return the messages as the plan leaves them."""
    body = body_of(messages)
    turns = lift(wire, body).turns
    history = view_turns(turns, body, partial(read_parts, wire))
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
        edits.append(Edit(turns[fold.first].start, turns[fold.last].end, turn))
    edits.sort(key=lambda edit: edit.start)
    condensed: list[Message] = msgspec.json.decode(lower(body, tuple(edits)))[
        "messages"
    ]
    return condensed


def calls_of(message: Message) -> list[str]:
    content = message.get("content")
    blocks = content if isinstance(content, list) else []
    used = [block["id"] for block in blocks if block.get("type") == "tool_use"]
    return used + [call["id"] for call in message.get("tool_calls") or []]


def results_of(message: Message) -> list[str]:
    if message["role"] == "tool":
        return [message["tool_call_id"]]
    content = message.get("content")
    blocks = content if isinstance(content, list) else []
    return [b["tool_use_id"] for b in blocks if b.get("type") == "tool_result"]


def broken_rules(messages: Sequence[Message]) -> list[str]:
    """Return what a provider would refuse: order, pairing, blank turns."""
    faults = []
    spoken = [m for m in messages if m["role"] not in {"system", "developer"}]
    if spoken and spoken[0]["role"] != "user":
        faults.append("does not start with a user turn")
    open_calls: list[str] = []
    for message in messages:
        answered = results_of(message)
        faults += [f"orphan result {i}" for i in answered if i not in open_calls]
        open_calls = [i for i in open_calls if i not in answered]
        if open_calls and not answered:
            faults.append(f"calls without results {open_calls}")
            open_calls = []
        open_calls += calls_of(message)
        if not message.get("content") and not calls_of(message):
            faults.append("blank turn")
    return faults


def tool_round(wire: str, ids: Sequence[str], result: str, think: str) -> list[Message]:
    """Return an assistant turn with calls and what answers them."""
    if wire == "anthropic":
        thoughts = [{"type": "thinking", "thinking": think, "signature": "s"}]
        calls = [
            {"type": "tool_use", "id": i, "name": "read", "input": {"path": i}}
            for i in ids
        ]
        answers = [
            {"type": "tool_result", "tool_use_id": i, "content": result} for i in ids
        ]
        return [
            {"role": "assistant", "content": (thoughts if think else []) + calls},
            {"role": "user", "content": answers},
        ]
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


@st.composite
def conversations(draw: st.DrawFn, wire: str) -> list[Message]:
    """Draw a legal conversation of plain exchanges, tool rounds and system turns."""
    text = st.text("abc \n<&\u00e9\U0001f600", min_size=1, max_size=60)
    words = text.map(lambda drawn: "w" + drawn)
    messages: list[Message] = []
    if wire == "openai_chat":
        messages.append({"role": "system", "content": draw(words)})
    messages.append({"role": "user", "content": draw(words)})
    for number in range(draw(st.integers(0, 12))):
        kind = draw(st.sampled_from(["tools", "tools", "say", "ask", "rules"]))
        if kind == "tools":
            ids = [f"c{number}_{n}" for n in range(draw(st.integers(1, 3)))]
            result = draw(words) * draw(st.integers(1, 40))
            think = draw(st.sampled_from(["", "a thought"]))
            messages += tool_round(wire, ids, result, think)
        elif kind == "say":
            messages.append({"role": "assistant", "content": draw(words)})
        elif kind == "ask":
            messages.append({"role": "user", "content": draw(words)})
        elif messages[-1]["role"] == "user":
            messages.append({"role": "system", "content": draw(words)})
            messages.append({"role": "assistant", "content": "understood"})
    return messages
