"""What an answer of the Anthropic Messages API says, streamed or whole.

Rules:
- Input counts come with `message_start` and are corrected by `message_delta`.
- `message_start`, pings and an empty text block decide nothing: an error may follow.
- Servers that imitate the API are met half-way: an error event may lack its `type`.
"""

import msgspec

from deuz_compiler.wires.metering import (
    ABSENT,
    NAMED_ERRORS,
    Notes,
    WireReplies,
    is_filled,
)
from deuz_compiler.wires.scanner import holds
from deuz_compiler.wires.sse import ServerEvent


class _Block(msgspec.Struct):
    type: str = ""
    text: msgspec.Raw = ABSENT
    thinking: msgspec.Raw = ABSENT
    partial_json: msgspec.Raw = ABSENT
    signature: msgspec.Raw = ABSENT
    stop_reason: object = None


class _Message(msgspec.Struct):
    type: object = None
    id: object = None
    model: object = None
    content: list[_Block] | None = None
    stop_reason: object = None
    usage: object = None
    error: msgspec.Raw = ABSENT


class _Event(msgspec.Struct):
    type: str = ""
    message: _Message | None = None
    content_block: _Block | None = None
    delta: _Block | None = None
    usage: object = None
    error: msgspec.Raw = ABSENT


_EVENT = msgspec.json.Decoder(_Event)
_BODY = msgspec.json.Decoder(_Message)

_TELLING = b'message_\0"error"\0' + NAMED_ERRORS
_TEXTUAL_BLOCKS = ("text", "thinking", "redacted_thinking")


def error_body(_status: int, code: str, message: str) -> bytes:
    """Return an error of ours in the provider's shape."""
    error = {"type": "sidecar_error", "code": code, "message": message}
    return msgspec.json.encode({"type": "error", "error": error})


def error_event(status: int, code: str, message: str) -> bytes:
    """Return an error of ours as an event of the provider's stream."""
    return b"event: error\ndata: " + error_body(status, code, message) + b"\n\n"


def _is_plain(chunk: bytes) -> bool:
    return not holds(chunk, 0, len(chunk), _TELLING)


def _read_event(notes: Notes, event: ServerEvent) -> None:
    if event.name == b"ping":
        return
    found = _EVENT.decode(event.data)
    if found.type == "error" or is_filled(found.error):
        notes.add_error(event.data)
    elif found.content_block is not None:
        _read_block(notes, found.content_block)
    elif found.type == "content_block_delta" and found.delta is not None:
        _read_delta(notes, found.delta)
    elif found.message is not None:
        notes.add_identity(found.message.id, found.message.model)
        notes.add_usage(found.message.usage)
    elif found.type == "message_delta":
        notes.add_usage(found.usage)
        notes.add_finish(None if found.delta is None else found.delta.stop_reason)
    elif found.type == "message_stop":
        notes.add_end()


def _read_body(notes: Notes, body: bytes) -> None:
    found = _BODY.decode(body)
    if found.type == "error" or is_filled(found.error):
        notes.add_error(body)
        return
    notes.add_identity(found.id, found.model)
    notes.add_usage(found.usage)
    for block in found.content or ():
        _read_block(notes, block)
    notes.add_finish(found.stop_reason)
    notes.add_end()


def _read_block(notes: Notes, block: _Block) -> None:
    if block.type not in _TEXTUAL_BLOCKS:
        # A tool call or a server tool's result: there is more than an empty shell.
        notes.add_content()
        notes.had_tool_call = notes.had_tool_call or block.type == "tool_use"
    else:
        _read_delta(notes, block)


def _read_delta(notes: Notes, delta: _Block) -> None:
    if is_filled(delta.text):
        notes.add_content()
        notes.add_text(delta.text)
    elif any(map(is_filled, (delta.thinking, delta.partial_json, delta.signature))):
        notes.add_content()


REPLIES = WireReplies(
    is_plain=_is_plain,
    read_event=_read_event,
    read_body=_read_body,
    error_body=error_body,
    error_event=error_event,
)
