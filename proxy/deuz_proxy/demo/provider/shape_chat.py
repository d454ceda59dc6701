"""How OpenAI spells a chat answer: one completion, its chunks, its errors.

Rules:
- Usage includes cached tokens; a stream carries it only if it was asked for, in one
  more chunk without choices.
- Reasoning is counted, never shown.
"""

from collections.abc import Iterator
from typing import Any

from deuz_proxy.demo.provider.answers import stop_of
from deuz_proxy.demo.provider.exchange import (
    Finished,
    Json,
    Refusal,
    Text,
    TokenCount,
    ToolCall,
)
from deuz_proxy.demo.provider.fields import compact, mapping
from deuz_proxy.demo.provider.sse import data_event, deltas

_STOPS = {
    "end": "stop",
    "tool": "tool_calls",
    "length": "length",
    "refusal": "content_filter",
    "window": "length",
}
_ERROR_TYPES = {
    401: "invalid_request_error",
    403: "insufficient_permissions",
    429: "tokens",
}
SERVER_ERROR = 500


def spell_completion(finished: Finished) -> Json:
    """Return the whole completion."""
    text = "".join(p.text for p in finished.reply.parts if isinstance(p, Text))
    calls = [_call(part) for part in _tool_calls(finished)]
    has_text = any(isinstance(p, Text) for p in finished.reply.parts)
    message: Json = {
        "role": "assistant",
        "content": text if has_text else None,
        "refusal": None,
        "annotations": [],
    }
    if calls:
        message["tool_calls"] = calls
    choice = {
        "index": 0,
        "message": message,
        "logprobs": None,
        "finish_reason": _STOPS[stop_of(finished.reply)],
    }
    return {
        **_head(finished, "chat.completion"),
        "choices": [choice],
        "usage": spell_usage(finished.counts),
    }


def spell_chunks(finished: Finished) -> Iterator[bytes]:
    """Yield the chunks of a streamed completion."""
    head = _head(finished, "chat.completion.chunk")
    options = mapping(finished.request.payload.get("stream_options"))
    has_usage = options.get("include_usage") is True
    if has_usage:
        head["usage"] = None
    for delta in _deltas(finished):
        yield data_event({**head, "choices": [_choice(delta, None)]})
    stop = _STOPS[stop_of(finished.reply)]
    yield data_event({**head, "choices": [_choice({}, stop)]})
    if has_usage:
        usage = spell_usage(finished.counts)
        yield data_event({**head, "choices": [], "usage": usage})
    yield b"data: [DONE]\n\n"


def spell_usage(counts: TokenCount) -> Json:
    """Return usage with cached tokens inside the prompt's."""
    return {
        "prompt_tokens": counts.input_total,
        "completion_tokens": counts.output,
        "total_tokens": counts.input_total + counts.output,
        "prompt_tokens_details": {
            "cached_tokens": counts.cache_read,
            "audio_tokens": 0,
        },
        "completion_tokens_details": {
            "reasoning_tokens": counts.reasoning,
            "audio_tokens": 0,
            "accepted_prediction_tokens": 0,
            "rejected_prediction_tokens": 0,
        },
    }


def spell_error(refusal: Refusal, serial: str) -> Json:
    """Return the error body."""
    del serial  # OpenAI names the request in a header only.
    kind = _ERROR_TYPES.get(refusal.status, "invalid_request_error")
    if refusal.status >= SERVER_ERROR:
        kind = "server_error"
    return {
        "error": {
            "message": refusal.message,
            "type": kind,
            "param": refusal.param,
            "code": refusal.code,
        }
    }


def _head(finished: Finished, kind: str) -> Json:
    return {
        "id": f"chatcmpl-{finished.serial}",
        "object": kind,
        "created": finished.created,
        "model": finished.request.model,
        "service_tier": "default",
        "system_fingerprint": "fp_fake",
    }


def _choice(delta: Json, stop: str | None) -> Json:
    return {"index": 0, "delta": delta, "logprobs": None, "finish_reason": stop}


def _tool_calls(finished: Finished) -> list[ToolCall]:
    return [part for part in finished.reply.parts if isinstance(part, ToolCall)]


def _call(part: ToolCall) -> Json:
    return {
        "id": f"call_{part.call_id}",
        "type": "function",
        "function": {"name": part.name, "arguments": compact(part.arguments)},
    }


def _deltas(finished: Finished) -> Iterator[dict[str, Any]]:
    calls = _tool_calls(finished)
    first: Json = {"role": "assistant", "content": None if calls else ""}
    yield {**first, "refusal": None}
    for part in finished.reply.parts:
        if isinstance(part, Text):
            for piece in deltas(part.text):
                yield {"content": piece}
    for index, part in enumerate(calls):
        call = _call(part)
        opening = {**call["function"], "arguments": ""}
        yield {"tool_calls": [{"index": index, **call, "function": opening}]}
        for piece in deltas(call["function"]["arguments"]):
            yield {"tool_calls": [{"index": index, "function": {"arguments": piece}}]}
