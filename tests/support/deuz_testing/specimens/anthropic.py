"""Specimens of Anthropic Messages."""

import json
from collections.abc import Sequence
from typing import Any

from deuz_compiler.wires.usage import Usage
from deuz_proxy.demo.provider.signing import Seal, Signer
from deuz_testing.specimens.form import Specimens, Turns

MARK = {"cache_control": {"type": "ephemeral"}}
PICTURE = {
    "type": "image",
    "source": {"type": "base64", "media_type": "image/png", "data": "iVBORw0KGgo="},
}


def text(words: str) -> dict[str, Any]:
    return {"type": "text", "text": words}


def user(content: Any) -> dict[str, Any]:
    return {"role": "user", "content": content}


def assistant(content: Any) -> dict[str, Any]:
    return {"role": "assistant", "content": content}


def called(ids: Sequence[str]) -> Turns:
    inputs = {"path": "a", "cache_control": "no marker of ours"}
    call = {"type": "tool_use", "name": "read", "input": inputs}
    return [assistant([{**call, "id": i} for i in ids])]


def resulted(ids: Sequence[str], words: str) -> Turns:
    return [
        user([{"type": "tool_result", "tool_use_id": i, "content": words} for i in ids])
    ]


def thought(thinking: str, words: str) -> Turns:
    signature = Signer().sign(thinking, Seal(0, 1))
    block = {"type": "thinking", "thinking": thinking, "signature": signature}
    return [assistant([block, text(words)])]


def marked(turn: dict[str, Any]) -> dict[str, Any]:
    *blocks, last = turn["content"]
    return {**turn, "content": [*blocks, {**last, **MARK}]}


def spell(usage: Usage | None) -> dict[str, Any]:
    if usage is None:
        return {}
    counts: dict[str, Any] = {
        "input_tokens": usage.input_uncached,
        "cache_creation_input_tokens": usage.cache_write,
        "cache_read_input_tokens": usage.cache_read,
        "output_tokens": usage.output,
    }
    if usage.reasoning is not None:
        counts["output_tokens_details"] = {"thinking_tokens": usage.reasoning}
    return {"usage": counts}


def message(content: Any, stop: str | None, usage: Usage | None) -> dict[str, Any]:
    base = {"id": "msg_1", "type": "message", "role": "assistant", "model": "claude-x"}
    return {**base, "content": content, "stop_reason": stop, **spell(usage)}


def event(kind: str, **members: Any) -> bytes:
    data = json.dumps({"type": kind, **members})
    return f"event: {kind}\ndata: {data}\n\n".encode()


def whole(words: str, usage: Usage | None) -> bytes:
    return json.dumps(message([text(words)], "end_turn", usage)).encode()


def calling() -> bytes:
    call = {"type": "tool_use", "id": "t", "name": "read", "input": {}}
    return json.dumps(message([call], "tool_use", None)).encode()


def stream(words: str, reports: Sequence[Usage | None]) -> bytes:
    first, *later = reports
    ended = {"stop_reason": "end_turn", "stop_sequence": None}
    deltas = [
        event("content_block_delta", index=0, delta={"type": "text_delta", "text": c})
        for c in words
    ]
    return b"".join(
        [
            event("message_start", message=message([], None, first)),
            event("content_block_start", index=0, content_block=text("")),
            event("ping"),
            *deltas,
            event("content_block_stop", index=0),
            *(event("message_delta", delta=ended, **spell(usage)) for usage in later),
            event("message_delta", delta=ended),
            event("message_stop"),
        ]
    )


def refusal(kind: str, words: str) -> dict[str, Any]:
    return {"type": "error", "error": {"type": kind, "message": words}}


def failed(kind: str, words: str) -> bytes:
    opening = event("message_start", message=message([], None, None))
    return opening + event("error", error=refusal(kind, words)["error"])


TOO_LONG = "prompt is too long: 204511 tokens > 200000 maximum"

SPECIMENS = Specimens(
    wire="anthropic",
    history="messages",
    head={"model": "claude-opus-4-8", "max_tokens": 1024},
    tools=[{"name": "read", "description": "d", "input_schema": {"type": "object"}}],
    instructed=lambda words: {"system": words},
    said=user,
    listed=lambda words: user([text(words)]),
    lone=None,
    pictured=lambda words: user([text(words), PICTURE]),
    answered=assistant,
    answered_listed=lambda words: assistant([text(words)]),
    opening=None,
    ruled=lambda words: {"role": "system", "content": words},
    called=called,
    resulted=resulted,
    thought=thought,
    marked=marked,
    aliases=(
        (
            user([{"type": "tool_result", "tool_use_id": "t", "content": [text("r")]}]),
            user(
                [
                    {
                        "type": "tool_result",
                        "tool_use_id": "t",
                        "content": [{**text("r"), **MARK}],
                    }
                ]
            ),
        ),
    ),
    malformed=(1, "text", [], {"content": "no role"}, {"role": 1, "content": "x"}),
    held=({"thread": {"type": "continue", "id": "t"}},),
    whole=whole,
    calling=calling,
    stream=stream,
    reports=frozenset({"cache_read", "cache_write", "reasoning"}),
    counts_as_it_goes=True,
    streams_events=True,
    is_named=True,
    ending="end_turn",
    overflows=((400, json.dumps(refusal("invalid_request_error", TOO_LONG)).encode()),),
    others=(
        (400, json.dumps(refusal("invalid_request_error", "max_tokens: 1")).encode()),
        (429, json.dumps(refusal("rate_limit_error", "Too many tokens")).encode()),
        (529, json.dumps(refusal("overloaded_error", "Overloaded")).encode()),
    ),
    overflow_streams=(failed("invalid_request_error", TOO_LONG),),
    other_streams=(failed("overloaded_error", "Overloaded"),),
    own_error=lambda body: (
        body["error"]["type"],
        body["error"]["code"],
        body["error"]["message"],
    ),
)
