"""How Ollama spells an answer: one object, its lines, its errors.

Rules:
- A stream is one object a line; counts stand in the last one alone.
- There is no count of cached tokens. A prompt that is in the cache but for less than a
  step is told without a count: what is zero is left out.
"""

import time
from collections.abc import Iterator

from deuz_proxy.demo.provider.answers import stop_of
from deuz_proxy.demo.provider.exchange import (
    OLLAMA_CHAT,
    Finished,
    Json,
    Refusal,
    Text,
    Thinking,
    ToolCall,
)
from deuz_proxy.demo.provider.fields import compact
from deuz_proxy.demo.provider.sse import deltas

_STOPS = {"length": "length", "window": "length"}
_NANOSECONDS = 1_000_000


def spell_answer(finished: Finished) -> Json:
    """Return the whole answer."""
    parts = finished.reply.parts
    text = "".join(part.text for part in parts if isinstance(part, Text))
    thought = "".join(part.text for part in parts if isinstance(part, Thinking))
    calls = [_call(part) for part in parts if isinstance(part, ToolCall)]
    said = _said(finished, text, thought, calls)
    return {**_head(finished), **said, **_tail(finished)}


def spell_lines(finished: Finished) -> Iterator[bytes]:
    """Yield the lines of a stream."""
    for part in finished.reply.parts:
        for said in _pieces(finished, part):
            yield _line({**_head(finished), **said, "done": False})
    yield _line({**_head(finished), **_said(finished, ""), **_tail(finished)})


def spell_error(refusal: Refusal, serial: str) -> Json:
    """Return the error body."""
    del serial  # Nothing names the request.
    return {"error": refusal.message}


def _pieces(finished: Finished, part: Text | Thinking | ToolCall) -> list[Json]:
    if isinstance(part, ToolCall):
        return [_said(finished, "", calls=[_call(part)])]
    if isinstance(part, Thinking):
        return [_said(finished, "", piece) for piece in deltas(part.text)]
    return [_said(finished, piece) for piece in deltas(part.text)]


def _said(
    finished: Finished, text: str, thought: str = "", calls: list[Json] | None = None
) -> Json:
    thinking = {"thinking": thought} if thought else {}
    if finished.request.wire != OLLAMA_CHAT:
        return {"response": text, **thinking}
    message = {"role": "assistant", "content": text, **thinking}
    return {"message": {**message, "tool_calls": calls} if calls else message}


def _call(call: ToolCall) -> Json:
    return {"function": {"name": call.name, "arguments": call.arguments}}


def _head(finished: Finished) -> Json:
    born = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(finished.created))
    return {"model": finished.request.model, "created_at": born}


def _tail(finished: Finished) -> Json:
    counts = finished.counts
    tail: Json = {
        "done": True,
        "done_reason": _STOPS.get(stop_of(finished.reply), "stop"),
        "total_duration": 3 * _NANOSECONDS,
        "load_duration": _NANOSECONDS,
        "prompt_eval_count": counts.input_total,
        "prompt_eval_duration": _NANOSECONDS,
        "eval_count": counts.output,
        "eval_duration": _NANOSECONDS,
    }
    if counts.cache_read and counts.uncached <= finished.step_tokens:
        del tail["prompt_eval_count"]
    if finished.request.wire != OLLAMA_CHAT:
        # Tokens of the conversation so far, as numbers; these name it, no more.
        tail["context"] = [counts.input_total, counts.output]
    return tail


def _line(payload: Json) -> bytes:
    return compact(payload).encode("utf-8", "surrogatepass") + b"\n"
