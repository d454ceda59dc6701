"""Specimens of OpenAI Responses."""

import json
from collections.abc import Sequence
from typing import Any

from deuz_compiler.wires.usage import Usage
from deuz_proxy.demo.provider.signing import Seal, Signer
from deuz_testing.specimens.form import Specimens, Turns

MARK = {"prompt_cache_breakpoint": {"mode": "explicit"}}
PICTURE = {"type": "input_image", "image_url": "https://pictures.invalid/1.png"}


def text(words: str) -> dict[str, Any]:
    return {"type": "input_text", "text": words}


def output(words: str) -> dict[str, Any]:
    return {"type": "output_text", "text": words, "annotations": [], "logprobs": []}


def user(content: Any) -> dict[str, Any]:
    return {"role": "user", "content": content}


def item(role: str, content: Any) -> dict[str, Any]:
    return {"type": "message", "role": role, "content": content}


def called(ids: Sequence[str]) -> Turns:
    call = {"type": "function_call", "name": "read", "arguments": '{"path": "a"}'}
    return [{**call, "call_id": i} for i in ids]


def resulted(ids: Sequence[str], words: str) -> Turns:
    return [
        {"type": "function_call_output", "call_id": i, "output": words} for i in ids
    ]


def reasoning(thinking: str) -> dict[str, Any]:
    return {
        "type": "reasoning",
        "id": "rs_1",
        "summary": [{"type": "summary_text", "text": thinking}],
        "encrypted_content": Signer().wrap(thinking, Seal(0, 1)),
    }


def thought(thinking: str, words: str) -> Turns:
    # Without ids, as clients that keep nothing at the provider send it back.
    sealed = {k: v for k, v in reasoning(thinking).items() if k != "id"}
    return [sealed, item("assistant", [output(words)])]


def marked(turn: dict[str, Any]) -> dict[str, Any]:
    *parts, last = turn["content"]
    return {**turn, "content": [*parts, {**last, **MARK}]}


def spell(usage: Usage | None) -> dict[str, Any] | None:
    if usage is None:
        return None
    details = {
        "cached_tokens": usage.cache_read,
        "cache_write_tokens": usage.cache_write,
    }
    return {
        "input_tokens": usage.input_total,
        "input_tokens_details": details,
        "output_tokens": usage.output,
        "output_tokens_details": {"reasoning_tokens": usage.reasoning},
        "total_tokens": (usage.input_total or 0) + (usage.output or 0),
    }


def response(status: str, items: Turns, usage: Usage | None) -> dict[str, Any]:
    base = {"id": "resp_1", "object": "response", "model": "gpt-x", "error": None}
    return {**base, "status": status, "output": items, "usage": spell(usage)}


def event(kind: str, **members: Any) -> bytes:
    data = json.dumps({"type": kind, **members})
    return f"event: {kind}\ndata: {data}\n\n".encode()


def whole(words: str, usage: Usage | None) -> bytes:
    items = [item("assistant", [output(words)])]
    return json.dumps(response("completed", items, usage)).encode()


def stream(words: str, reports: Sequence[Usage | None]) -> bytes:
    place = {"item_id": "m", "output_index": 0, "content_index": 0}
    answer = item("assistant", [output(words)])
    shell = {**answer, "content": []}
    ended = response("completed", [answer], reports[-1])
    return b"".join(
        [
            event("response.created", response=response("in_progress", [], None)),
            event("response.in_progress", response=response("in_progress", [], None)),
            event("response.output_item.added", output_index=0, item=shell),
            event("response.content_part.added", **place, part=output("")),
            *(
                event("response.output_text.delta", **place, delta=letter)
                for letter in words
            ),
            event("response.output_text.done", **place, text=words),
            event("response.output_item.done", output_index=0, item=answer),
            event("response.completed", response=ended),
        ]
    )


def error(code: str | None, words: str) -> dict[str, Any]:
    kind = "invalid_request_error"
    return {"message": words, "type": kind, "param": "input", "code": code}


def refusal(code: str | None, words: str) -> bytes:
    return json.dumps({"error": error(code, words)}).encode()


def failed(code: str, words: str) -> bytes:
    opening = response("in_progress", [], None)
    told = {**response("failed", [], None), "error": {"code": code, "message": words}}
    return event("response.created", response=opening) + event(
        "response.failed", response=told
    )


TOO_LONG = (
    "Your input exceeds the context window of this model. Please adjust your input and"
    " try again."
)
RATE = "Rate limit reached for gpt-5.5 on tokens"
OPENING = event("response.created", response=response("in_progress", [], None))

SPECIMENS = Specimens(
    wire="openai_responses",
    history="input",
    head={"model": "gpt-5.5"},
    tools=[{"type": "function", "name": "read", "parameters": {}, "strict": True}],
    instructed=lambda words: {"instructions": words},
    said=user,
    listed=lambda words: item("user", [text(words)]),
    lone=lambda words: words,
    pictured=lambda words: item("user", [text(words), PICTURE]),
    answered=lambda words: {"role": "assistant", "content": words},
    answered_listed=lambda words: item("assistant", [output(words)]),
    opening=lambda words: {"role": "developer", "content": words},
    ruled=lambda words: item("system", [text(words)]),
    called=called,
    resulted=resulted,
    thought=thought,
    marked=marked,
    aliases=(
        ({"id": "msg_a", **item("user", "x")}, {"id": "msg_b", **item("user", "x")}),
        ({"id": "fc_1", "status": "completed", **called(["c"])[0]}, called(["c"])[0]),
        ({"content": "x", "role": "user"}, {"role": "user", "content": "x"}),
        (reasoning("hm") | {"id": "rs_1"}, reasoning("hm") | {"id": "rs_2"}),
        (
            {**resulted(["c"], "")[0], "output": [text("r")]},
            {**resulted(["c"], "")[0], "output": [{**text("r"), **MARK}]},
        ),
    ),
    malformed=(
        1,
        "text",
        [],
        {"content": "no role"},
        {"role": 1, "content": "x"},
        {"type": 1},
    ),
    held=(
        {"previous_response_id": "resp_1"},
        {"conversation": "conv_1"},
        {"conversation": {"id": "conv_1"}},
    ),
    whole=whole,
    calling=lambda: json.dumps(
        response("completed", [{"id": "fc_1", **called(["t"])[0]}], None)
    ).encode(),
    stream=stream,
    reports=frozenset({"cache_read", "cache_write", "reasoning"}),
    counts_as_it_goes=False,
    streams_events=True,
    is_named=True,
    ending="completed",
    overflows=(
        (400, refusal("context_length_exceeded", TOO_LONG)),
        (400, refusal(None, TOO_LONG)),
    ),
    others=(
        (400, refusal(None, "No tool output found for function call call_1.")),
        (400, refusal("string_above_max_length", "Invalid 'input': string too long.")),
        (
            429,
            refusal("rate_limit_exceeded", RATE),
        ),
    ),
    overflow_streams=(
        failed("context_length_exceeded", TOO_LONG),
        OPENING + event("error", error=error("context_length_exceeded", TOO_LONG)),
        OPENING + event("error", **error("context_length_exceeded", TOO_LONG)),
    ),
    other_streams=(
        failed("server_error", "The model failed to answer."),
        failed("rate_limit_exceeded", RATE),
    ),
    own_error=lambda body: (
        body["error"]["type"],
        body["error"]["code"],
        body["error"]["message"],
    ),
)
