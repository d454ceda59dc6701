"""The answer side of the wires, by the wire's name: meters and error shapes.

Rules:
- A wire that is not known is forwarded like any other; it is only not observed.
- An error of ours has the provider's shape, the type `sidecar_error` and our code.
"""

import msgspec

from deuz_compiler.wires.bedrock import reply as bedrock
from deuz_compiler.wires.gemini import reply as gemini
from deuz_compiler.wires.metering import (
    Headers,
    ReplyFacts,
    ReplyMeter,
    WireReplies,
)
from deuz_compiler.wires.meters import BodyMeter, StreamMeter
from deuz_compiler.wires.ollama import reply as ollama
from deuz_compiler.wires.table import WIRES

__all__ = ["ReplyFacts", "ReplyMeter", "error_body", "error_event", "open_meter"]

# Beside the wires whose bodies are understood: those whose answers are, and families
# whose own errors have a shape.
_REPLIES: dict[str, WireReplies] = {
    **{name: wire.replies for name, wire in WIRES.items()},
    "bedrock": bedrock.CONVERSE,
    "bedrock_converse": bedrock.CONVERSE,
    "bedrock_invoke": bedrock.INVOKE,
    "gemini": gemini.REPLIES,
    "ollama": ollama.REPLIES,
}


def open_meter(
    wire: str,
    *,
    is_event_stream: bool,
    keep_text: bool = False,
    headers: Headers = (),
) -> ReplyMeter:
    """Return a meter for one answer of the wire.

    `is_event_stream` tells server-sent events; other streams are the wire's own.
    """
    replies = _REPLIES.get(wire)
    if replies is None:
        return SilentMeter()
    if is_event_stream:
        return StreamMeter(replies, keeps_text=keep_text)
    if replies.framing is None:
        return BodyMeter(replies, keeps_text=keep_text)
    return StreamMeter(
        replies, keeps_text=keep_text, framing=replies.framing, headers=headers
    )


def error_body(wire: str, *, status: int, code: str, message: str) -> bytes:
    """Return an error of ours as a whole body, in the wire's own shape."""
    if wire in _REPLIES:
        return _REPLIES[wire].error_body(status, code, message)
    error = {"type": "sidecar_error", "code": code, "message": message}
    return msgspec.json.encode({"error": {**error, "status": status}})


def error_event(wire: str, *, status: int, code: str, message: str) -> bytes:
    """Return an error of ours as an event that ends a stream of the wire."""
    if wire in _REPLIES:
        return _REPLIES[wire].error_event(status, code, message)
    body = error_body(wire, status=status, code=code, message=message)
    return b"event: error\ndata: " + body + b"\n\n"


class SilentMeter:
    """Observes nothing: the meter of an unknown wire."""

    __slots__ = ()

    @property
    def decisive(self) -> str | None:
        """Unknown bytes are content: nothing may be held back for them."""
        return "content"

    def feed(self, chunk: bytes) -> None:
        """Let the chunk go."""

    def close(self) -> ReplyFacts:
        """Return that nothing is known."""
        return ReplyFacts()
