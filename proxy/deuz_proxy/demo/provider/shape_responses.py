"""How OpenAI spells a Responses answer: one response, its typed events, its errors.

Rules:
- Usage includes cached tokens and stands in the last event only.
- An overflow is a plain error without numbers; in a stream it comes after the head, as
  an `error` event and a failed response.
"""

from collections.abc import Callable, Iterator

from deuz_proxy.demo.provider.answers import stop_of
from deuz_proxy.demo.provider.exchange import (
    Finished,
    Json,
    Part,
    ProviderRequest,
    Refusal,
    Text,
    Thinking,
    TokenCount,
    ToolCall,
)
from deuz_proxy.demo.provider.fields import compact, mapping
from deuz_proxy.demo.provider.signing import Seal
from deuz_proxy.demo.provider.sse import deltas, named_event

_INCOMPLETE = {
    "length": "max_output_tokens",
    # There is no reason of its own for a full window.
    "window": "max_output_tokens",
    "refusal": "content_filter",
}
_ENCRYPTED = "reasoning.encrypted_content"
_DEFAULTS: Json = {
    "background": False,
    "error": None,
    "incomplete_details": None,
    "instructions": None,
    "max_output_tokens": None,
    "max_tool_calls": None,
    "metadata": {},
    "parallel_tool_calls": True,
    "previous_response_id": None,
    "prompt_cache_key": None,
    "reasoning": {"effort": None, "summary": None},
    "safety_identifier": None,
    "service_tier": "default",
    "store": True,
    "temperature": 1.0,
    "text": {"format": {"type": "text"}, "verbosity": "medium"},
    "tool_choice": "auto",
    "tools": [],
    "top_logprobs": 0,
    "top_p": 1.0,
    "truncation": "disabled",
    "user": None,
}


def spell_response(finished: Finished) -> Json:
    """Return the whole response."""
    reason = _INCOMPLETE.get(stop_of(finished.reply))
    status = "incomplete" if reason else "completed"
    return {
        **_head(finished.request, finished.serial, finished.created),
        "status": status,
        "incomplete_details": {"reason": reason} if reason else None,
        "output": output_items(finished),
        "usage": spell_usage(finished.counts),
    }


def spell_events(finished: Finished) -> Iterator[bytes]:
    """Yield the typed events of a streamed response."""
    number = _Numbers()
    head = _head(finished.request, finished.serial, finished.created)
    yield number("response.created", response=head)
    yield number("response.in_progress", response=head)
    items = output_items(finished)
    for index, (part, item) in enumerate(zip(finished.reply.parts, items, strict=True)):
        write = _WRITERS[type(part)]
        place = {"output_index": index}
        yield number("response.output_item.added", **place, item=_opening(item))
        inner = {**place, "item_id": item["id"]}
        for kind, fields in write(item):
            yield number(kind, **inner, **fields)
        yield number("response.output_item.done", **place, item=item)
    whole = spell_response(finished)
    yield number(f"response.{whole['status']}", response=whole)


def spell_failed_events(
    request: ProviderRequest, refusal: Refusal, *, serial: str, created: int
) -> Iterator[bytes]:
    """Yield the events of a stream that fails after its head."""
    number = _Numbers()
    head = _head(request, serial, created)
    yield number("response.created", response=head)
    yield number("response.in_progress", response=head)
    error = {"code": refusal.code, "message": refusal.message}
    yield number("error", **error, param=refusal.param)
    failed = {**head, "status": "failed", "error": error}
    yield number("response.failed", response=failed)


def spell_usage(counts: TokenCount) -> Json:
    """Return usage with cached tokens inside the input's."""
    return {
        "input_tokens": counts.input_total,
        "input_tokens_details": {
            "cached_tokens": counts.cache_read,
            "cache_write_tokens": counts.cache_write,
        },
        "output_tokens": counts.output,
        "output_tokens_details": {"reasoning_tokens": counts.reasoning},
        "total_tokens": counts.input_total + counts.output,
    }


def output_items(finished: Finished) -> list[Json]:
    """Return the items of the answer, one for each part."""
    return [
        _item(finished, part, f"{finished.serial}{place:02d}")
        for place, part in enumerate(finished.reply.parts)
    ]


class _Numbers:
    """Numbers the events of one stream."""

    def __init__(self) -> None:
        self._next = 0

    def __call__(self, kind: str, **fields: object) -> bytes:
        payload = {"type": kind, "sequence_number": self._next, **fields}
        self._next += 1
        return named_event(payload)


def _head(request: ProviderRequest, serial: str, created: int) -> Json:
    asked = {
        name: request.payload[name]
        for name in _DEFAULTS
        if request.payload.get(name) is not None
    }
    text = {**_DEFAULTS["text"], **mapping(asked.get("text"))}
    return {
        "id": f"resp_{serial}",
        "object": "response",
        "created_at": created,
        "status": "in_progress",
        **_DEFAULTS,
        **asked,
        "text": text,
        "model": request.model,
        "output": [],
        "usage": None,
    }


def _item(finished: Finished, part: Part, serial: str) -> Json:
    if isinstance(part, Text):
        content = {"type": "output_text", "text": part.text, "annotations": []}
        return {
            "id": f"msg_{serial}",
            "type": "message",
            "role": "assistant",
            "status": "completed",
            "content": [{**content, "logprobs": []}],
        }
    if isinstance(part, Thinking):
        summary = [{"type": "summary_text", "text": part.text}]
        item: Json = {"id": f"rs_{serial}", "type": "reasoning", "summary": summary}
        if _ENCRYPTED in (finished.request.payload.get("include") or ()):
            item["encrypted_content"] = finished.signer.wrap(part.text, Seal(0, 1))
        return item
    return {
        "id": f"fc_{serial}",
        "type": "function_call",
        "status": "completed",
        "call_id": f"call_{part.call_id}",
        "name": part.name,
        "arguments": compact(part.arguments),
    }


def _opening(item: Json) -> Json:
    opening = dict(item)
    opening.update({name: [] for name in ("content", "summary") if name in item})
    if "arguments" in item:
        opening["arguments"] = ""
    if "status" in item:
        opening["status"] = "in_progress"
    return opening


def _write_text(item: Json) -> Iterator[tuple[str, Json]]:
    part = item["content"][0]
    place = {"content_index": 0}
    empty = {**part, "text": ""}
    yield "response.content_part.added", {**place, "part": empty}
    for piece in deltas(part["text"]):
        delta = {"delta": piece, "logprobs": []}
        yield "response.output_text.delta", {**place, **delta}
    done = {"text": part["text"], "logprobs": []}
    yield "response.output_text.done", {**place, **done}
    yield "response.content_part.done", {**place, "part": part}


def _write_reasoning(item: Json) -> Iterator[tuple[str, Json]]:
    part = item["summary"][0]
    place = {"summary_index": 0}
    empty = {**part, "text": ""}
    yield "response.reasoning_summary_part.added", {**place, "part": empty}
    for piece in deltas(part["text"]):
        yield "response.reasoning_summary_text.delta", {**place, "delta": piece}
    yield "response.reasoning_summary_text.done", {**place, "text": part["text"]}
    yield "response.reasoning_summary_part.done", {**place, "part": part}


def _write_call(item: Json) -> Iterator[tuple[str, Json]]:
    for piece in deltas(item["arguments"]):
        yield "response.function_call_arguments.delta", {"delta": piece}
    done = {"arguments": item["arguments"], "name": item["name"]}
    yield "response.function_call_arguments.done", done


_Writer = Callable[[Json], Iterator[tuple[str, Json]]]
_WRITERS: dict[type[Part], _Writer] = {
    Text: _write_text,
    Thinking: _write_reasoning,
    ToolCall: _write_call,
}
