"""Specimens of OpenAI chat completions."""

import json
from collections.abc import Sequence
from typing import Any

from deuz_compiler.wires.usage import Usage
from deuz_testing.specimens.form import Specimens, Turns

MARK = {"prompt_cache_breakpoint": {"mode": "explicit"}}
PICTURE = {"type": "image_url", "image_url": {"url": "https://pictures.invalid/1.png"}}
DONE = b"data: [DONE]\n\n"


def text(words: str) -> dict[str, Any]:
    return {"type": "text", "text": words}


def user(content: Any) -> dict[str, Any]:
    return {"role": "user", "content": content}


def assistant(content: Any) -> dict[str, Any]:
    return {"role": "assistant", "content": content}


def call_of(call_id: str) -> dict[str, Any]:
    function = {"name": "read", "arguments": '{"path": "a"}'}
    return {"id": call_id, "type": "function", "function": function}


def called(ids: Sequence[str]) -> Turns:
    calls = [call_of(call_id) for call_id in ids]
    return [{"role": "assistant", "content": None, "tool_calls": calls}]


def resulted(ids: Sequence[str], words: str) -> Turns:
    return [{"role": "tool", "tool_call_id": i, "content": words} for i in ids]


def thought(thinking: str, words: str) -> Turns:
    return [{**assistant(words), "reasoning_content": thinking}]


def marked(turn: dict[str, Any]) -> dict[str, Any]:
    *parts, last = turn["content"]
    return {**turn, "content": [*parts, {**last, **MARK}]}


def spell(usage: Usage | None) -> dict[str, Any] | None:
    if usage is None:
        return None
    total, output = usage.input_total or 0, usage.output or 0
    details = {
        "cached_tokens": usage.cache_read,
        "cache_write_tokens": usage.cache_write,
    }
    return {
        "prompt_tokens": usage.input_total,
        "completion_tokens": usage.output,
        "total_tokens": total + output,
        "prompt_tokens_details": details,
        "completion_tokens_details": {"reasoning_tokens": usage.reasoning},
    }


def completion(message: Any, finish: str, usage: Usage | None) -> bytes:
    choice = {"index": 0, "message": message, "finish_reason": finish}
    base = {"id": "c1", "object": "chat.completion", "model": "gpt-x"}
    return json.dumps({**base, "choices": [choice], "usage": spell(usage)}).encode()


def chunk(delta: Any, *, finish: str | None = None, usage: Usage | None) -> bytes:
    choices = [{"index": 0, "delta": delta, "finish_reason": finish}]
    base = {"id": "c1", "object": "chat.completion.chunk", "model": "gpt-x"}
    whole = {**base, "choices": choices, "usage": spell(usage)}
    return b"data: " + json.dumps(whole).encode() + b"\n\n"


def stream(words: str, reports: Sequence[Usage | None]) -> bytes:
    opening = {"role": "assistant", "content": ""}
    return b"".join(
        [
            b": OPENROUTER PROCESSING\n\n",
            chunk(opening, usage=None),
            *(chunk({"content": letter}, usage=None) for letter in words),
            *(chunk({}, usage=usage) for usage in reports),
            chunk({}, finish="stop", usage=None),
            DONE,
        ]
    )


def refusal(code: str | None, words: str) -> bytes:
    kind = "invalid_request_error"
    error = {"message": words, "type": kind, "param": "messages", "code": code}
    return json.dumps({"error": error}).encode()


TOO_LONG = (
    "This model's maximum context length is 128000 tokens. However, your messages"
    " resulted in 130000 tokens. Please reduce the length of the messages."
)

SPECIMENS = Specimens(
    wire="openai_chat",
    history="messages",
    head={"model": "gpt-4o"},
    tools=[{"type": "function", "function": {"name": "read", "parameters": {}}}],
    instructed=None,
    said=user,
    listed=lambda words: user([text(words)]),
    lone=None,
    pictured=lambda words: user([text(words), PICTURE]),
    answered=assistant,
    answered_listed=lambda words: assistant([text(words)]),
    opening=lambda words: {"role": "system", "content": words},
    ruled=lambda words: {"role": "developer", "content": words},
    called=called,
    resulted=resulted,
    thought=thought,
    marked=marked,
    aliases=(),
    malformed=(1, "text", [], {"content": "no role"}, {"role": 1, "content": "x"}),
    held=(),
    whole=lambda words, usage: completion(assistant(words), "stop", usage),
    calling=lambda: completion(called(["t"])[0], "tool_calls", None),
    stream=stream,
    reports=frozenset({"cache_read", "cache_write", "reasoning"}),
    counts_as_it_goes=True,
    streams_events=True,
    is_named=True,
    ending="stop",
    overflows=(
        (400, refusal("context_length_exceeded", TOO_LONG)),
        (400, refusal(None, TOO_LONG)),
        (400, b'{"object":"error","message":"%b","code":400}' % TOO_LONG.encode()),
    ),
    others=(
        (400, refusal("invalid_value", "max_tokens is too large: 900000")),
        (429, refusal("rate_limit_exceeded", "Rate limit reached: too many tokens")),
        (500, b'{"error":{"message":"The server had an error"}}'),
    ),
    overflow_streams=(
        b"data: " + refusal("context_length_exceeded", TOO_LONG) + b"\n\n",
        b'data: {"object":"error","message":"%b","code":400}\n\n' % TOO_LONG.encode(),
    ),
    other_streams=(b'data: {"error":{"message":"Upstream went away"}}\n\n',),
    own_error=lambda body: (
        body["error"]["type"],
        body["error"]["code"],
        body["error"]["message"],
    ),
)
