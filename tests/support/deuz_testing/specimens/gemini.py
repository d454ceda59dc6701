"""Specimens of Gemini's generateContent; streams are those with `alt=sse`."""

import json
from collections.abc import Sequence
from typing import Any

from deuz_compiler.wires.usage import Usage
from deuz_proxy.demo.provider.signing import Seal, Signer
from deuz_testing.specimens.form import Specimens, Turns

PICTURE = {"inlineData": {"mimeType": "image/png", "data": "iVBORw0KGgo="}}


def text(words: str) -> dict[str, Any]:
    return {"text": words}


def turn(role: str, *parts: dict[str, Any]) -> dict[str, Any]:
    return {"role": role, "parts": list(parts)}


def called(ids: Sequence[str]) -> Turns:
    calls = []
    for call_id in ids:
        call = {"id": call_id, "name": "read", "args": {"path": "a"}}
        signature = Signer().wrap(json.dumps(call), Seal(0, 1))
        calls.append({"functionCall": call, "thoughtSignature": signature})
    return [turn("model", *calls)]


def resulted(ids: Sequence[str], words: str) -> Turns:
    responses = [
        {"functionResponse": {"id": i, "name": "read", "response": {"output": words}}}
        for i in ids
    ]
    return [turn("user", *responses)]


def thought(thinking: str, words: str) -> Turns:
    return [turn("model", {"text": thinking, "thought": True}, text(words))]


def spell(usage: Usage | None) -> dict[str, Any]:
    if usage is None:
        return {}
    read, reasoning = usage.cache_read, usage.reasoning
    counts: dict[str, Any] = {
        "promptTokenCount": (usage.input_uncached or 0) + (read or 0),
        "candidatesTokenCount": (usage.output or 0) - (reasoning or 0),
        "totalTokenCount": (usage.input_total or 0) + (usage.output or 0),
    }
    if read is not None:
        counts["cachedContentTokenCount"] = read
    if reasoning is not None:
        counts["thoughtsTokenCount"] = reasoning
    return {"usageMetadata": counts}


def response(
    *parts: dict[str, Any], finish: str | None = None, usage: Usage | None
) -> dict[str, Any]:
    candidate: dict[str, Any] = {"content": turn("model", *parts), "index": 0}
    if finish is not None:
        candidate["finishReason"] = finish
    base = {"modelVersion": "gemini-x", "responseId": "r1"}
    return {"candidates": [candidate], **base, **spell(usage)}


def whole(words: str, usage: Usage | None) -> bytes:
    answer = response(text(words), finish="STOP", usage=usage)
    return json.dumps(answer, indent=2).encode()


def calling() -> bytes:
    (call,) = called(["t"])
    return json.dumps(response(*call["parts"], finish="STOP", usage=None)).encode()


def stream(words: str, reports: Sequence[Usage | None]) -> bytes:
    chunks = [
        response(text(""), usage=None),
        *(response(text(letter), usage=None) for letter in words),
        *(response(text(""), usage=usage) for usage in reports),
        response(text(""), finish="STOP", usage=None),
    ]
    return b"".join(b"data: " + json.dumps(c).encode() + b"\r\n\r\n" for c in chunks)


def refusal(code: int, status: str, words: str) -> bytes:
    error = {"code": code, "message": words, "status": status}
    return json.dumps({"error": error}).encode()


TOO_LONG = (
    "The input token count (1200293) exceeds the maximum number of tokens allowed"
    " (1048576)."
)
QUOTA = (
    "Quota exceeded for metric: generativelanguage.googleapis.com/"
    "generate_content_free_tier_input_token_count, limit: 250000"
)

SPECIMENS = Specimens(
    wire="gemini",
    history="contents",
    head={
        "model": "gemini-3-pro",
        "generation_config": {"temperature": 0.2, "max_output_tokens": 1024},
    },
    tools=[{"functionDeclarations": [{"name": "read", "parameters": {}}]}],
    instructed=lambda words: {"systemInstruction": {"parts": [text(words)]}},
    said=lambda words: {"parts": text(words)},
    listed=lambda words: turn("user", text(words)),
    lone=lambda words: {"parts": text(words)},
    pictured=lambda words: turn("user", text(words), PICTURE),
    answered=lambda words: {"parts": text(words), "role": "model"},
    answered_listed=lambda words: turn("model", text(words)),
    opening=None,
    ruled=None,
    called=called,
    resulted=resulted,
    thought=thought,
    marked=None,
    aliases=(
        ({"parts": [text("a")]}, turn("user", text("a"))),
        ({"role": None, "parts": text("a")}, turn("user", text("a"))),
        ({"parts": [text("a")], "role": "model"}, turn("model", text("a"))),
    ),
    malformed=(
        1,
        "text",
        [],
        {"role": "user"},
        {"role": 1, "parts": []},
        {"role": "user", "parts": "text"},
        {"role": "user", "parts": [1]},
    ),
    held=(),
    whole=whole,
    calling=calling,
    stream=stream,
    reports=frozenset({"cache_read", "reasoning"}),
    counts_as_it_goes=True,
    streams_events=True,
    is_named=True,
    ending="STOP",
    overflows=((400, refusal(400, "INVALID_ARGUMENT", TOO_LONG)),),
    others=(
        (400, refusal(400, "INVALID_ARGUMENT", "Invalid value at 'temperature'")),
        (429, refusal(429, "RESOURCE_EXHAUSTED", QUOTA)),
        (503, refusal(503, "UNAVAILABLE", "The model is overloaded.")),
    ),
    overflow_streams=(
        b"data: " + refusal(400, "INVALID_ARGUMENT", TOO_LONG) + b"\n\n",
    ),
    other_streams=(
        b"data: " + refusal(503, "UNAVAILABLE", "The model is overloaded.") + b"\n\n",
    ),
    own_error=lambda body: (
        body["error"]["type"],
        body["error"]["details"][0]["reason"],
        body["error"]["message"],
    ),
)
