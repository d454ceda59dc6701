"""Specimens of Ollama's chat; streams are one object a line."""

import json
from collections.abc import Sequence
from typing import Any

from deuz_compiler.wires.usage import Usage
from deuz_testing.specimens.form import Specimens, Turns

BORN = {"model": "llama3", "created_at": "2026-01-01T00:00:00Z"}


def user(words: str) -> dict[str, Any]:
    return {"role": "user", "content": words}


def assistant(words: str) -> dict[str, Any]:
    return {"role": "assistant", "content": words}


def called(ids: Sequence[str]) -> Turns:
    function = {"name": "read", "arguments": {"path": "a"}}
    return [
        {
            "role": "assistant",
            "content": "",
            "tool_calls": [{"id": i, "function": function} for i in ids],
        }
    ]


def resulted(ids: Sequence[str], words: str) -> Turns:
    return [
        {"role": "tool", "tool_name": "read", "tool_call_id": i, "content": words}
        for i in ids
    ]


def answer(message: dict[str, Any], *, is_done: bool, usage: Usage | None) -> bytes:
    ended: dict[str, Any] = {"done": is_done}
    if is_done:
        ended["done_reason"] = "stop"
    if usage is not None:
        ended["prompt_eval_count"] = usage.input_uncached
        ended["eval_count"] = usage.output
    return json.dumps({**BORN, "message": message, **ended}).encode()


def stream(words: str, reports: Sequence[Usage | None]) -> bytes:
    pieces = [answer(assistant(c), is_done=False, usage=None) for c in ["", *words]]
    last = answer(assistant(""), is_done=True, usage=reports[-1])
    return b"".join(piece + b"\n" for piece in (*pieces, last))


def refusal(words: str) -> bytes:
    return json.dumps({"error": words}).encode()


TOO_LONG = "prompt too long; exceeded max context length by 100918 tokens"

SPECIMENS = Specimens(
    wire="ollama_chat",
    history="messages",
    head={"model": "llama3", "options": {"num_ctx": 8192}, "stream": False},
    tools=[{"type": "function", "function": {"name": "read", "parameters": {}}}],
    instructed=None,
    said=user,
    listed=user,
    lone=None,
    pictured=lambda words: {**user(words), "images": ["iVBORw0KGgo="]},
    answered=assistant,
    answered_listed=assistant,
    opening=lambda words: {"role": "system", "content": words},
    ruled=lambda words: {"role": "system", "content": words},
    called=called,
    resulted=resulted,
    thought=lambda thinking, words: [{**assistant(words), "thinking": thinking}],
    marked=None,
    aliases=(),
    malformed=(1, "text", [], {"content": "no role"}, {"role": 1, "content": "x"}),
    held=(),
    whole=lambda words, usage: answer(assistant(words), is_done=True, usage=usage),
    calling=lambda: answer(called(["t"])[0], is_done=True, usage=None),
    stream=stream,
    reports=frozenset(),
    counts_as_it_goes=False,
    streams_events=False,
    is_named=False,
    ending="stop",
    overflows=(
        (400, refusal(TOO_LONG)),
        (400, refusal("the input length exceeds the context length")),
    ),
    others=(
        (400, refusal("invalid options: num_predict")),
        (404, refusal("model 'x' not found")),
        (500, refusal("requested context size too large for model")),
    ),
    overflow_streams=(refusal(TOO_LONG) + b"\n",),
    other_streams=(refusal("llama runner process has terminated") + b"\n",),
    own_error=lambda body: (body["type"], body["code"], body["error"]),
)
