"""The answer side of the wires, by the wire's name: meters and error shapes.

Rules:
- A wire that is not known is forwarded like any other; it is only not observed.
- An error of ours has the provider's shape, the type `sidecar_error` and our code.
"""

import msgspec

from deuz_compiler.wires.metering import (
    BodyMeter,
    ReplyFacts,
    ReplyMeter,
    SilentMeter,
    StreamMeter,
)
from deuz_compiler.wires.table import WIRES

__all__ = ["ReplyFacts", "ReplyMeter", "error_body", "error_event", "open_meter"]


def open_meter(
    wire: str, *, is_event_stream: bool, keep_text: bool = False
) -> ReplyMeter:
    """Return a meter for one answer of the wire."""
    if wire not in WIRES:
        return SilentMeter()
    replies = WIRES[wire].replies
    if is_event_stream:
        return StreamMeter(replies, keeps_text=keep_text)
    return BodyMeter(replies, keeps_text=keep_text)


def error_body(wire: str, *, status: int, code: str, message: str) -> bytes:
    """Return an error of ours as a whole body, in the wire's own shape."""
    if wire in WIRES:
        return WIRES[wire].replies.error_body(code, message)
    error = {"type": "sidecar_error", "code": code, "message": message}
    return msgspec.json.encode({"error": {**error, "status": status}})


def error_event(wire: str, *, status: int, code: str, message: str) -> bytes:
    """Return an error of ours as an event that ends a stream of the wire."""
    if wire in WIRES:
        return WIRES[wire].replies.error_event(code, message)
    body = error_body(wire, status=status, code=code, message=message)
    return b"event: error\ndata: " + body + b"\n\n"
