"""What an answer of Ollama says: one JSON object a line, or one object in all.

Rules:
- Counts and the reason of the end come in the last object, whose `done` is true.
- A count that is missing is not zero: of a prompt found in the cache none may be given.
- An object with an `error` ends the stream, under a good status too.
"""

import msgspec

from deuz_compiler.wires.framing import JSON_OBJECTS
from deuz_compiler.wires.metering import ABSENT, Notes, WireReplies, is_filled
from deuz_compiler.wires.sse import ServerEvent


class _Message(msgspec.Struct):
    content: msgspec.Raw = ABSENT
    thinking: msgspec.Raw = ABSENT
    tool_calls: msgspec.Raw = ABSENT


class _Answer(msgspec.Struct):
    model: object = None
    message: _Message | None = None
    response: msgspec.Raw = ABSENT
    thinking: msgspec.Raw = ABSENT
    image: msgspec.Raw = ABSENT
    done: object = None
    done_reason: object = None
    prompt_eval_count: object = None
    eval_count: object = None
    error: msgspec.Raw = ABSENT


_ANSWER = msgspec.json.Decoder(_Answer)


def error_body(_status: int, code: str, message: str) -> bytes:
    """Return an error of ours in the provider's shape: its clients want a string."""
    error = {"error": message, "type": "sidecar_error", "code": code}
    return msgspec.json.encode(error)


def error_event(status: int, code: str, message: str) -> bytes:
    """Return an error of ours as a line of the provider's stream."""
    return error_body(status, code, message) + b"\n"


def _is_plain(chunk: bytes) -> bool:
    # Each line says, once, that it is not the last.
    lines = chunk.count(b"\n", 0, -1) + 1
    return (
        chunk.count(b'"done":false') == lines
        and chunk.count(b'"done"') == lines
        and chunk.count(b'"error"') == 0
    )


def _read_event(notes: Notes, event: ServerEvent) -> None:
    _read_body(notes, event.data)


def _read_body(notes: Notes, body: bytes) -> None:
    found = _ANSWER.decode(body)
    if is_filled(found.error):
        notes.add_error(body)
        return
    notes.add_identity(None, found.model)
    message = found.message or _Message(found.response, found.thinking)
    _read_message(notes, message)
    if is_filled(found.image):
        notes.add_content()
    if found.done is True:
        _read_end(notes, found)


def _read_message(notes: Notes, message: _Message) -> None:
    if is_filled(message.tool_calls):
        notes.had_tool_call = True
        notes.add_content()
    if is_filled(message.content):
        notes.add_content()
        notes.add_text(message.content)
    if is_filled(message.thinking):
        notes.add_content()


def _read_end(notes: Notes, found: _Answer) -> None:
    counts = {
        "prompt_eval_count": found.prompt_eval_count,
        "eval_count": found.eval_count,
    }
    notes.add_usage(counts)
    notes.add_finish(found.done_reason)
    notes.add_end()


REPLIES = WireReplies(
    is_plain=_is_plain,
    read_event=_read_event,
    read_body=_read_body,
    error_body=error_body,
    error_event=error_event,
    framing=JSON_OBJECTS,
)
