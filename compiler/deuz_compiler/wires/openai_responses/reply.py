"""What an answer of the OpenAI Responses API says, streamed or whole.

Rules:
- Usage and the finish reason stand in the terminal event only.
- The finish reason is the incomplete answer's reason, else the response's status.
- `response.created` and the opening of a message or of reasoning decide nothing.
- `error` events come with a nested error or flat; `response.failed` holds one too.
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


class _Part(msgspec.Struct):
    text: msgspec.Raw = ABSENT


class _Item(msgspec.Struct):
    type: str = ""
    content: list[_Part] | None = None


class _Incomplete(msgspec.Struct):
    reason: object = None


class _Response(msgspec.Struct):
    id: object = None
    model: object = None
    kind: str = msgspec.field(default="", name="object")
    status: msgspec.Raw = ABSENT
    output: list[_Item] | None = None
    incomplete_details: _Incomplete | None = None
    usage: msgspec.Raw = ABSENT
    error: msgspec.Raw = ABSENT
    message: msgspec.Raw = ABSENT
    detail: msgspec.Raw = ABSENT


class _Event(msgspec.Struct):
    type: str = ""
    response: _Response | None = None
    item: _Item | None = None
    delta: msgspec.Raw = ABSENT
    error: msgspec.Raw = ABSENT


_EVENT = msgspec.json.Decoder(_Event)
_RESPONSE = msgspec.json.Decoder(_Response)

_TERMINAL = (
    "response.completed",
    "response.incomplete",
    "response.failed",
    "response.cancelled",
)
_SHELLS = ("message", "reasoning")
# Every terminal event carries the response object; in text the quotes are escaped.
_TELLING = b'"response"\0"error"\0' + NAMED_ERRORS


def error_body(_status: int, code: str, message: str) -> bytes:
    """Return an error of ours in the provider's shape."""
    return msgspec.json.encode({"error": _error(code, message)})


def error_event(status: int, code: str, message: str) -> bytes:
    """Return an error of ours as an event of the provider's stream.

    The nested form: the official SDKs raise on it, and pass the flat form on as data.
    """
    event = msgspec.json.encode({"type": "error", "error": _error(code, message)})
    return b"event: error\ndata: " + event + b"\n\n"


def _error(code: str, message: str) -> dict[str, str | None]:
    return {"message": message, "type": "sidecar_error", "param": None, "code": code}


def _is_plain(chunk: bytes) -> bool:
    return not holds(chunk, 0, len(chunk), _TELLING)


def _read_event(notes: Notes, event: ServerEvent) -> None:
    if event.data == b"[DONE]":
        return
    found = _EVENT.decode(event.data)
    if found.type == "error" or is_filled(found.error):
        notes.add_error(event.data)
    elif found.response is not None:
        _read_lifecycle(notes, found.type, found.response, event.data)
    elif found.item is not None:
        _read_item(notes, found.item)
    elif found.type.endswith(".delta") and is_filled(found.delta):
        notes.add_content()
        if found.type == "response.output_text.delta":
            notes.add_text(found.delta)


def _read_lifecycle(
    notes: Notes, event_type: str, response: _Response, data: bytes
) -> None:
    notes.add_identity(response.id, response.model)
    if event_type not in _TERMINAL:
        return
    if event_type == "response.failed":
        notes.add_error(data)
    # The text of the deltas is not collected a second time from the final response.
    if not notes.has_content and response.output:
        _read_output(notes, response)
    _read_outcome(notes, response)


def _read_body(notes: Notes, body: bytes) -> None:
    found = _RESPONSE.decode(body)
    notes.add_identity(found.id, found.model)
    if _is_error(found):
        notes.add_error(body)
    _read_output(notes, found)
    _read_outcome(notes, found)


def _is_error(found: _Response) -> bool:
    if is_filled(found.error) or found.kind == "error":
        return True
    has_reason = is_filled(found.message) or is_filled(found.detail)
    return found.kind != "response" and found.output is None and has_reason


def _read_output(notes: Notes, response: _Response) -> None:
    for item in response.output or ():
        _read_item(notes, item)
        for part in item.content or () if item.type == "message" else ():
            if is_filled(part.text):
                notes.add_content()
                notes.add_text(part.text)


def _read_item(notes: Notes, item: _Item) -> None:
    if item.type and item.type not in _SHELLS:
        notes.add_content()
        notes.had_tool_call = notes.had_tool_call or item.type.endswith("_call")


def _read_outcome(notes: Notes, response: _Response) -> None:
    if is_filled(response.usage):
        notes.add_usage(msgspec.json.decode(response.usage))
    details = response.incomplete_details
    if details is not None and details.reason:
        notes.add_finish(details.reason)
    elif is_filled(response.status):
        notes.add_finish(msgspec.json.decode(response.status))
    notes.add_end()


REPLIES = WireReplies(
    is_plain=_is_plain,
    read_event=_read_event,
    read_body=_read_body,
    error_body=error_body,
    error_event=error_event,
)
