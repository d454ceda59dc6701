"""What an answer of Gemini says, streamed in either form or whole.

Rules:
- Every chunk repeats the usage; the newest counts.
- Nothing ends a stream but the chunk that says why the model stopped.
- Without `alt=sse` a stream is one JSON array, and so is its error.
- A prompt that was blocked has no candidates: why it was blocked is why it stopped.
"""

from http import HTTPStatus

import msgspec

from deuz_compiler.wires.framing import JSON_OBJECTS
from deuz_compiler.wires.metering import (
    ABSENT,
    Notes,
    WireReplies,
    is_filled,
    never_plain,
)
from deuz_compiler.wires.sse import ServerEvent

# What Google's clients know for a status; each is one of the canonical codes.
_STATUSES = {
    HTTPStatus.BAD_REQUEST: "INVALID_ARGUMENT",
    HTTPStatus.NOT_FOUND: "NOT_FOUND",
    HTTPStatus.REQUEST_ENTITY_TOO_LARGE: "INVALID_ARGUMENT",
    HTTPStatus.SERVICE_UNAVAILABLE: "UNAVAILABLE",
    HTTPStatus.BAD_GATEWAY: "UNAVAILABLE",
}


class _Part(msgspec.Struct):
    text: msgspec.Raw = ABSENT
    thought: object = None
    call: msgspec.Raw = msgspec.field(default=ABSENT, name="functionCall")
    inline: msgspec.Raw = msgspec.field(default=ABSENT, name="inlineData")
    code: msgspec.Raw = msgspec.field(default=ABSENT, name="executableCode")
    output: msgspec.Raw = msgspec.field(default=ABSENT, name="codeExecutionResult")


class _Content(msgspec.Struct):
    parts: list[_Part] | None = None


class _Candidate(msgspec.Struct, rename="camel"):
    content: _Content | None = None
    finish_reason: object = None


class _Feedback(msgspec.Struct, rename="camel"):
    block_reason: object = None


class _Response(msgspec.Struct, rename="camel"):
    candidates: list[_Candidate] | None = None
    prompt_feedback: _Feedback | None = None
    usage_metadata: object = None
    response_id: object = None
    model_version: object = None
    error: msgspec.Raw = ABSENT


_RESPONSE = msgspec.json.Decoder(_Response)


def error_body(status: int, code: str, message: str) -> bytes:
    """Return an error of ours in the provider's shape."""
    reason = {
        "@type": "type.googleapis.com/google.rpc.ErrorInfo",
        "reason": code,
        "domain": "deuz-sidecar",
    }
    error = {
        "code": status,
        "message": message,
        "status": _STATUSES.get(HTTPStatus(status), "INTERNAL"),
        "type": "sidecar_error",
        "details": [reason],
    }
    return msgspec.json.encode({"error": error})


def error_event(status: int, code: str, message: str) -> bytes:
    """Return an error of ours as an event of the provider's stream."""
    return b"data: " + error_body(status, code, message) + b"\n\n"


def _read_event(notes: Notes, event: ServerEvent) -> None:
    _read_body(notes, event.data)


def _read_body(notes: Notes, body: bytes) -> None:
    found = _RESPONSE.decode(body)
    if is_filled(found.error):
        notes.add_error(body)
        return
    notes.add_identity(found.response_id, found.model_version)
    notes.add_usage(found.usage_metadata)
    for candidate in found.candidates or ():
        _read_candidate(notes, candidate)
    if found.prompt_feedback is not None and not found.candidates:
        notes.add_finish(found.prompt_feedback.block_reason)
    if notes.finish_reason is not None:
        notes.add_end()


def _read_candidate(notes: Notes, candidate: _Candidate) -> None:
    parts = candidate.content.parts if candidate.content else None
    for part in parts or ():
        _read_part(notes, part)
    notes.add_finish(candidate.finish_reason)


def _read_part(notes: Notes, part: _Part) -> None:
    if is_filled(part.call):
        notes.had_tool_call = True
        notes.add_content()
    if is_filled(part.text):
        notes.add_content()
        if part.thought is not True:
            notes.add_text(part.text)
    if any(map(is_filled, (part.inline, part.code, part.output))):
        notes.add_content()


REPLIES = WireReplies(
    is_plain=never_plain,
    read_event=_read_event,
    read_body=_read_body,
    error_body=error_body,
    error_event=error_event,
    framing=JSON_OBJECTS,
)
