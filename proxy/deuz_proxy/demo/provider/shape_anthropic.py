"""How Anthropic spells an answer: one message, its events, its errors.

Rules:
- Usage excludes cached tokens; `message_delta` repeats it, cumulative.
- A ping follows the start of the first block.
"""

from collections.abc import Iterator

from deuz_proxy.demo.provider.answers import stop_of
from deuz_proxy.demo.provider.exchange import (
    Finished,
    Json,
    Part,
    Refusal,
    Text,
    Thinking,
    TokenCount,
)
from deuz_proxy.demo.provider.fields import compact
from deuz_proxy.demo.provider.signing import Seal
from deuz_proxy.demo.provider.sse import deltas, named_event

_STOPS = {
    "end": "end_turn",
    "tool": "tool_use",
    "length": "max_tokens",
    "refusal": "refusal",
    "window": "model_context_window_exceeded",
}
_ERROR_TYPES = {
    400: "invalid_request_error",
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    413: "request_too_large",
    429: "rate_limit_error",
    529: "overloaded_error",
}


def spell_message(finished: Finished) -> Json:
    """Return the whole message."""
    return {
        **_head(finished),
        "content": [block for block, _ in _blocks(finished)],
        "stop_reason": _STOPS[stop_of(finished.reply)],
        "usage": _usage(finished.counts),
    }


def spell_events(finished: Finished) -> Iterator[bytes]:
    """Yield the events of a streamed message."""
    # At the start hardly anything of the output is known.
    early = {**_usage(finished.counts), "output_tokens": 1}
    start = {**_head(finished), "content": [], "stop_reason": None, "usage": early}
    yield named_event({"type": "message_start", "message": start})
    for index, (block, pieces) in enumerate(_blocks(finished)):
        yield named_event(
            {
                "type": "content_block_start",
                "index": index,
                "content_block": _opening(block),
            }
        )
        if index == 0:
            yield named_event({"type": "ping"})
        for piece in pieces:
            yield named_event(
                {"type": "content_block_delta", "index": index, "delta": piece}
            )
        yield named_event({"type": "content_block_stop", "index": index})
    stop = {"stop_reason": _STOPS[stop_of(finished.reply)], "stop_sequence": None}
    usage = _usage(finished.counts)
    del usage["cache_creation"], usage["service_tier"]
    yield named_event({"type": "message_delta", "delta": stop, "usage": usage})
    yield named_event({"type": "message_stop"})


def spell_error(refusal: Refusal, serial: str) -> Json:
    """Return the error body."""
    kind = _ERROR_TYPES.get(refusal.status, "api_error")
    return {
        "type": "error",
        "error": {"type": kind, "message": refusal.message},
        "request_id": f"req_{serial}",
    }


def _head(finished: Finished) -> Json:
    return {
        "id": f"msg_{finished.serial}",
        "type": "message",
        "role": "assistant",
        "model": finished.request.model,
        "stop_sequence": None,
    }


def _usage(counts: TokenCount) -> Json:
    return {
        "input_tokens": counts.uncached,
        "cache_creation_input_tokens": counts.cache_write,
        "cache_read_input_tokens": counts.cache_read,
        "cache_creation": {
            "ephemeral_5m_input_tokens": counts.cache_write_short,
            "ephemeral_1h_input_tokens": counts.cache_write_long,
        },
        "output_tokens": counts.output,
        "output_tokens_details": {"thinking_tokens": counts.reasoning},
        "service_tier": "standard",
    }


def _blocks(finished: Finished) -> Iterator[tuple[Json, list[Json]]]:
    """Yield each block whole, and the deltas that build it."""
    count = sum(isinstance(part, Thinking) for part in finished.reply.parts)
    index = 0
    for part in finished.reply.parts:
        if isinstance(part, Thinking):
            yield _thinking(finished, part, Seal(index, count))
            index += 1
        else:
            yield _plain_block(part)


def _thinking(
    finished: Finished, part: Thinking, seal: Seal
) -> tuple[Json, list[Json]]:
    signer = finished.signer
    if part.is_redacted:
        return {"type": "redacted_thinking", "data": signer.wrap(part.text, seal)}, []
    signature = signer.sign(part.text, seal)
    block = {"type": "thinking", "thinking": part.text, "signature": signature}
    pieces = [{"type": "thinking_delta", "thinking": p} for p in deltas(part.text)]
    return block, [*pieces, {"type": "signature_delta", "signature": signature}]


def _plain_block(part: Part) -> tuple[Json, list[Json]]:
    if isinstance(part, Text | Thinking):
        pieces = [{"type": "text_delta", "text": p} for p in deltas(part.text)]
        return {"type": "text", "text": part.text}, pieces
    # The first piece is always empty at the provider.
    pieces = [
        {"type": "input_json_delta", "partial_json": p}
        for p in ["", *deltas(compact(part.arguments))]
    ]
    block = {
        "type": "tool_use",
        "id": f"toolu_{part.call_id}",
        "name": part.name,
        "input": part.arguments,
    }
    return block, pieces


def _opening(block: Json) -> Json:
    empty = {"text": "", "thinking": "", "signature": "", "input": {}}
    return {name: empty.get(name, value) for name, value in block.items()}
