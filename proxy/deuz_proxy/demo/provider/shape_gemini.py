"""How Gemini spells an answer: one response, its chunks, its errors.

Rules:
- Cached tokens are inside the prompt's; thoughts are beside the candidates'; every
  chunk repeats the usage.
- Without `alt=sse` a stream is one JSON array, and so is its error.
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
)
from deuz_proxy.demo.provider.fields import compact
from deuz_proxy.demo.provider.signing import Seal
from deuz_proxy.demo.provider.sse import data_event, deltas

_STOPS = {
    "end": "STOP",
    "tool": "STOP",
    "length": "MAX_TOKENS",
    "refusal": "SAFETY",
    "window": "MAX_TOKENS",
}
_STATUSES = {
    400: "INVALID_ARGUMENT",
    401: "UNAUTHENTICATED",
    403: "PERMISSION_DENIED",
    404: "NOT_FOUND",
    429: "RESOURCE_EXHAUSTED",
    503: "UNAVAILABLE",
}


def spell_content(finished: Finished) -> Json:
    """Return the whole response."""
    parts = [_part(finished, part) for part in finished.reply.parts]
    return _response(finished, parts, _STOPS[stop_of(finished.reply)])


def spell_chunks(finished: Finished) -> Iterator[bytes]:
    """Yield the responses of a stream, as events or as elements of one array."""
    responses = _responses(finished)
    if finished.request.query.get("alt") == "sse":
        yield from (data_event(response) for response in responses)
        return
    yield b"["
    for place, response in enumerate(responses):
        yield (b",\r\n" if place else b"") + compact(response).encode()
    yield b"]"


def spell_error(refusal: Refusal, serial: str) -> Json:
    """Return the error body."""
    del serial  # Google does not name the request.
    return {
        "error": {
            "code": refusal.status,
            "message": refusal.message,
            "status": _STATUSES.get(refusal.status, "INTERNAL"),
        }
    }


def _responses(finished: Finished) -> list[Json]:
    pieces = [
        piece for part in finished.reply.parts for piece in _pieces(finished, part)
    ]
    stop = _STOPS[stop_of(finished.reply)]
    last = len(pieces) - 1
    return [
        _response(finished, [piece], stop if place == last else None)
        for place, piece in enumerate(pieces)
    ]


def _pieces(finished: Finished, part: Part) -> list[Json]:
    if isinstance(part, Text):
        return [{"text": piece} for piece in deltas(part.text) or [""]]
    return [_part(finished, part)]


def _part(finished: Finished, part: Part) -> Json:
    if isinstance(part, Text):
        return {"text": part.text}
    if isinstance(part, Thinking):
        return {"text": part.text, "thought": True}
    call = {"name": part.name, "args": part.arguments}
    signature = finished.signer.wrap(compact(call), Seal(0, 1))
    return {"functionCall": call, "thoughtSignature": signature}


def _response(finished: Finished, parts: list[Json], stop: str | None) -> Json:
    candidate: Json = {"content": {"role": "model", "parts": parts}, "index": 0}
    if stop is not None:
        candidate["finishReason"] = stop
    return {
        "candidates": [candidate],
        "usageMetadata": _usage(finished),
        "modelVersion": finished.request.model,
        "responseId": finished.serial,
    }


def _usage(finished: Finished) -> Json:
    counts = finished.counts
    usage = {
        "promptTokenCount": counts.input_total,
        "candidatesTokenCount": counts.output - counts.reasoning,
        "totalTokenCount": counts.input_total + counts.output,
    }
    if counts.cache_read:
        usage["cachedContentTokenCount"] = counts.cache_read
    if counts.reasoning:
        usage["thoughtsTokenCount"] = counts.reasoning
    return usage
