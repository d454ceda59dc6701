"""The answer side of the wires, by the wire's name: meters and error shapes.

Rules:
- A wire that is not known is forwarded like any other; it is only not observed.
- An error of ours has the provider's shape, the type `sidecar_error` and our code.
"""

import msgspec

from deuz_compiler.wires.anthropic import reply as anthropic
from deuz_compiler.wires.metering import (
    BodyMeter,
    ReplyFacts,
    ReplyMeter,
    SilentMeter,
    StreamMeter,
    WireReplies,
)
from deuz_compiler.wires.openai_chat import reply as openai_chat
from deuz_compiler.wires.openai_responses import reply as openai_responses

__all__ = ["ReplyFacts", "ReplyMeter", "error_body", "error_event", "open_meter"]

_WIRES: dict[str, WireReplies] = {
    "anthropic": anthropic.REPLIES,
    "openai_chat": openai_chat.REPLIES,
    "openai_responses": openai_responses.REPLIES,
}


def open_meter(
    wire: str, *, is_event_stream: bool, keep_text: bool = False
) -> ReplyMeter:
    """Return a meter for one answer of the wire."""
    replies = _WIRES.get(wire)
    if replies is None:
        return SilentMeter()
    if is_event_stream:
        return StreamMeter(replies, keeps_text=keep_text)
    return BodyMeter(replies, keeps_text=keep_text)


def error_body(wire: str, *, status: int, code: str, message: str) -> bytes:
    """Return an error of ours as a whole body, in the wire's own shape."""
    replies = _WIRES.get(wire)
    if replies is not None:
        return replies.error_body(code, message)
    error = {"type": "sidecar_error", "code": code, "message": message}
    return msgspec.json.encode({"error": {**error, "status": status}})


def error_event(wire: str, *, status: int, code: str, message: str) -> bytes:
    """Return an error of ours as an event that ends a stream of the wire."""
    replies = _WIRES.get(wire)
    if replies is not None:
        return replies.error_event(code, message)
    body = error_body(wire, status=status, code=code, message=message)
    return b"event: error\ndata: " + body + b"\n\n"
