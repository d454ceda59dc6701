"""What an answer of the OpenAI chat completions API says, streamed or whole.

Rules:
- Many servers speak this wire. Usage may stand beside the choices, in the first choice
  (Kimi), in `x_groq` or only in llama.cpp's `timings`; null and absent are the same.
- A first delta with a role and an empty text decides nothing: an error may follow.
- Errors come as an `error` member, an object or a string, or flat as `object: error`.
"""

import msgspec

from deuz_compiler.wires.chat_usage import decode_report
from deuz_compiler.wires.metering import (
    ABSENT,
    LONGEST_EMPTY,
    NAMED_ERRORS,
    Notes,
    WireReplies,
    is_filled,
)
from deuz_compiler.wires.openai_chat.usual import read_usual
from deuz_compiler.wires.scanner import holds
from deuz_compiler.wires.sse import ServerEvent


class _Delta(msgspec.Struct):
    content: msgspec.Raw = ABSENT
    reasoning_content: msgspec.Raw = ABSENT
    reasoning: msgspec.Raw = ABSENT
    tool_calls: msgspec.Raw = ABSENT
    function_call: msgspec.Raw = ABSENT
    refusal: msgspec.Raw = ABSENT
    audio: msgspec.Raw = ABSENT


class _Choice(msgspec.Struct):
    delta: _Delta | None = None
    message: _Delta | None = None
    text: msgspec.Raw = ABSENT
    finish_reason: object = None
    usage: object = None


class _Groq(msgspec.Struct):
    usage: object = None


class _Completion(msgspec.Struct):
    id: object = None
    kind: str = msgspec.field(default="", name="object")
    model: object = None
    choices: list[_Choice] | None = None
    usage: msgspec.Raw = ABSENT
    timings: object = None
    x_groq: _Groq | None = None
    error: msgspec.Raw = ABSENT
    message: msgspec.Raw = ABSENT
    detail: msgspec.Raw = ABSENT


_COMPLETION = msgspec.json.Decoder(_Completion)

_DONE = b"[DONE]"
# What no event of content has. In a text, quotes are escaped.
_TELLING = b'"error"\0[DONE]\0"timings"\0' + NAMED_ERRORS


def error_body(_status: int, code: str, message: str) -> bytes:
    """Return an error of ours in the provider's shape."""
    return msgspec.json.encode({"error": _error(code, message)})


def error_event(status: int, code: str, message: str) -> bytes:
    """Return an error of ours as an event of the provider's stream."""
    return b"data: " + error_body(status, code, message) + b"\n\n"


def _error(code: str, message: str) -> dict[str, str | None]:
    return {"message": message, "type": "sidecar_error", "param": None, "code": code}


def _is_plain(chunk: bytes) -> bool:
    return (
        not holds(chunk, 0, len(chunk), _TELLING)
        and _is_always_null(chunk, b'"finish_reason"')
        and _is_always_null(chunk, b'"usage"')
    )


def _is_always_null(chunk: bytes, name: bytes) -> bool:
    """Whether the member is null wherever it occurs: one chunk may hold many events."""
    occurrences = chunk.count(name)
    if not occurrences:
        return True
    nulls = chunk.count(name + b":null")
    # Few write it with a space: they alone pay for the last search.
    return occurrences == nulls or occurrences == nulls + chunk.count(name + b": null")


def _read_event(notes: Notes, event: ServerEvent) -> None:
    if event.data.strip() == _DONE:
        notes.add_end()
        return
    found = _COMPLETION.decode(event.data)
    if is_filled(found.error) or found.kind == "error":
        notes.add_error(event.data)
        return
    _read_completion(notes, found)


def _read_body(notes: Notes, body: bytes) -> None:
    found = _COMPLETION.decode(body)
    if _is_error(found):
        notes.add_error(body)
        return
    _read_completion(notes, found)
    notes.add_end()


def _is_error(found: _Completion) -> bool:
    if (found.error and is_filled(found.error)) or found.kind == "error":
        return True
    if found.choices is not None:
        return False
    return is_filled(found.message) or is_filled(found.detail)


def _read_completion(notes: Notes, found: _Completion) -> None:
    if notes.response_id is None or notes.model is None:
        notes.add_identity(found.id, found.model)
    if found.timings:
        notes.add_usage({"timings": found.timings})
    for choice in found.choices or ():
        _read_choice(notes, choice)
    if found.x_groq is not None:
        notes.add_usage(found.x_groq.usage)
    # An empty one, or null, is none: in a stream most events have it so.
    if len(found.usage) > LONGEST_EMPTY:
        notes.add_usage(decode_report(found.usage))


def _read_choice(notes: Notes, choice: _Choice) -> None:
    delta = choice.delta or choice.message
    if delta is not None:
        _read_delta(notes, delta)
    # What is absent is empty, which shows without a call.
    if choice.text and is_filled(choice.text):
        notes.add_content()
        notes.add_text(choice.text)
    if choice.usage is not None:
        notes.add_usage(choice.usage)
    notes.add_finish(choice.finish_reason)


def _read_delta(notes: Notes, delta: _Delta) -> None:
    called = delta.tool_calls or delta.function_call
    if called and (is_filled(delta.tool_calls) or is_filled(delta.function_call)):
        notes.had_tool_call = True
        notes.add_content()
    # What is longer than any empty value shows so without a call.
    if len(delta.content) > LONGEST_EMPTY or is_filled(delta.content):
        notes.add_content()
        if notes.keeps_text:
            notes.add_text(delta.content)
    if notes.has_content:
        return
    thought = (delta.reasoning_content, delta.reasoning, delta.refusal, delta.audio)
    if any(map(is_filled, thought)):
        notes.add_content()


REPLIES = WireReplies(
    is_plain=_is_plain,
    read_event=_read_event,
    read_body=_read_body,
    read_usual=read_usual,
    error_body=error_body,
    error_event=error_event,
)
