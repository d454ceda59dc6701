"""What an answer of Amazon Bedrock says, of both its APIs, streamed or whole.

Rules:
- Converse has one shape for all models; its usage is in the last event, `metadata`.
- InvokeModel hands the model's own answer through: events in base64, one in a frame.
  Beside the last one stand Bedrock's own counts, which are the same for all models;
  beside a whole answer they stand in the headers.
- Of the models' own words only those are read that say how the answer ended.
- An exception in a stream is an error, by the name in its frame.
"""

import base64
import binascii
from collections.abc import Sequence

import msgspec

from deuz_compiler.wires.bedrock.frames import FrameCutter, read_frame
from deuz_compiler.wires.framing import Framing
from deuz_compiler.wires.metering import (
    ABSENT,
    Notes,
    WireReplies,
    is_filled,
    never_plain,
)
from deuz_compiler.wires.sse import ServerEvent

FRAMES = Framing(FrameCutter, read_frame)
_FAILED = (b"Exception", b"Error", b"exception", b"error")
_COUNT_HEADERS = {
    b"x-amzn-bedrock-input-token-count": "inputTokenCount",
    b"x-amzn-bedrock-output-token-count": "outputTokenCount",
    b"x-amzn-bedrock-cache-read-input-token-count": "cacheReadInputTokenCount",
    b"x-amzn-bedrock-cache-write-input-token-count": "cacheWriteInputTokenCount",
}


class _Delta(msgspec.Struct, rename="camel"):
    text: msgspec.Raw = ABSENT
    tool_use: msgspec.Raw = ABSENT
    reasoning_content: msgspec.Raw = ABSENT
    image: msgspec.Raw = ABSENT


class _Message(msgspec.Struct):
    content: list[_Delta] | None = None


class _Output(msgspec.Struct):
    message: _Message | None = None


class _Converse(msgspec.Struct, rename="camel"):
    output: _Output | None = None
    delta: _Delta | None = None
    start: _Delta | None = None
    stop_reason: object = None
    usage: object = None
    message: msgspec.Raw = ABSENT


class _Chunk(msgspec.Struct):
    text: str = msgspec.field(default="", name="bytes")


class _Text(msgspec.Struct):
    text: msgspec.Raw = ABSENT
    thinking: msgspec.Raw = ABSENT
    partial_json: msgspec.Raw = ABSENT
    stop_reason: object = None
    finish_reason: object = None
    completion_reason: object = msgspec.field(default=None, name="completionReason")
    output: msgspec.Raw = msgspec.field(default=ABSENT, name="outputText")
    tokens: object = msgspec.field(default=None, name="tokenCount")


class _Started(msgspec.Struct):
    id: object = None
    model: object = None
    usage: object = None


class _Native(msgspec.Struct):
    """What models' own answers have in common, and the words of the better known."""

    id: object = None
    model: object = None
    type: object = None
    message: msgspec.Raw = ABSENT
    content: msgspec.Raw = ABSENT
    delta: _Text | None = None
    stop_reason: object = None
    finish_reason: object = None
    completion_reason: object = msgspec.field(default=None, name="completionReason")
    generation: msgspec.Raw = ABSENT
    output: msgspec.Raw = msgspec.field(default=ABSENT, name="outputText")
    results: list[_Text] | None = None
    outputs: list[_Text] | None = None
    choices: list[_Text] | None = None
    usage: object = None
    prompt_token_count: object = None
    generation_token_count: object = None
    input_tokens: object = msgspec.field(default=None, name="inputTextTokenCount")
    error: msgspec.Raw = ABSENT
    metrics: object = msgspec.field(
        default=None, name="amazon-bedrock-invocationMetrics"
    )
    # Nova speaks Converse, each event under its name.
    nova_whole: _Output | None = msgspec.field(default=None, name="output")
    nova_start: _Converse | None = msgspec.field(default=None, name="contentBlockStart")
    nova_delta: _Converse | None = msgspec.field(default=None, name="contentBlockDelta")
    nova_stop: _Converse | None = msgspec.field(default=None, name="messageStop")
    nova_usage: _Converse | None = msgspec.field(default=None, name="metadata")
    nova_reason: object = msgspec.field(default=None, name="stopReason")


_CONVERSE = msgspec.json.Decoder(_Converse)
_CHUNK = msgspec.json.Decoder(_Chunk)
_NATIVE = msgspec.json.Decoder(_Native)
_STARTED = msgspec.json.Decoder(_Started)
_BLOCKS = msgspec.json.Decoder(list[_Text])


def error_body(_status: int, code: str, message: str) -> bytes:
    """Return an error of ours in the provider's shape."""
    error = {"__type": "sidecar_error", "code": code, "message": message}
    return msgspec.json.encode(error)


def error_event(status: int, code: str, message: str) -> bytes:
    """Return an error of ours; no frame is written, so a stream just holds a body."""
    return error_body(status, code, message)


def _is_failed(event: ServerEvent) -> bool:
    return any(word in event.name for word in _FAILED)


def _add_failure(notes: Notes, event: ServerEvent) -> None:
    """Keep the exception with its name: alone, its words could be a quota's."""
    name = msgspec.json.encode(event.name.decode("latin-1"))
    if event.data.startswith(b'{"'):
        notes.add_error(b'{"__type":%b,%b' % (name, event.data[1:]))
    else:
        notes.add_error(b'{"__type":%b,"message":""}' % name)


def _read_converse_event(notes: Notes, event: ServerEvent) -> None:
    if _is_failed(event):
        _add_failure(notes, event)
        return
    _read_converse(notes, _CONVERSE.decode(event.data))
    if event.name == b"metadata":
        notes.add_end()


def _read_converse_body(notes: Notes, body: bytes) -> None:
    found = _CONVERSE.decode(body)
    if found.output is None and is_filled(found.message):
        notes.add_error(body)
        return
    _read_converse(notes, found)
    notes.add_end()


def _read_converse(notes: Notes, found: _Converse) -> None:
    message = found.output.message if found.output else None
    blocks = (message.content if message else None) or ()
    for delta in (found.start, found.delta, *blocks):
        if delta is not None:
            _read_delta(notes, delta)
    notes.add_finish(found.stop_reason)
    notes.add_usage(found.usage)


def _read_delta(notes: Notes, delta: _Delta) -> None:
    if is_filled(delta.tool_use):
        notes.had_tool_call = True
        notes.add_content()
    if is_filled(delta.text):
        notes.add_content()
        notes.add_text(delta.text)
    if is_filled(delta.reasoning_content) or is_filled(delta.image):
        notes.add_content()


def _read_native_event(notes: Notes, event: ServerEvent) -> None:
    if _is_failed(event):
        _add_failure(notes, event)
        return
    try:
        inner = base64.b64decode(_CHUNK.decode(event.data).text, validate=True)
    except binascii.Error as fault:
        raise ValueError("a chunk is no base64") from fault
    found = _NATIVE.decode(inner)
    _read_native(notes, found)
    if is_filled(found.error):
        notes.add_error(inner)
    if found.metrics is not None:
        notes.add_end()


def _read_native_body(notes: Notes, body: bytes) -> None:
    found = _NATIVE.decode(body)
    is_bare = found.content is ABSENT and found.nova_whole is None
    if is_filled(found.error) or (is_bare and bytes(found.message)[:1] == b'"'):
        notes.add_error(body)
        return
    _read_native(notes, found)
    notes.add_end()


def _read_native(notes: Notes, found: _Native) -> None:
    notes.add_identity(found.id, found.model)
    _read_started(notes, bytes(found.message))
    notes.add_usage(found.usage)
    _read_counts(notes, found)
    notes.add_usage(found.metrics)
    pieces = [found.delta, *(found.results or ()), *(found.outputs or ())]
    for piece in (*pieces, *(found.choices or ()), *_blocks(bytes(found.content))):
        if piece is not None:
            _read_piece(notes, piece)
    if is_filled(found.generation) or is_filled(found.output):
        notes.add_content()
    whole = _Converse(output=found.nova_whole, stop_reason=found.nova_reason)
    novas = (found.nova_start, found.nova_delta, found.nova_stop, found.nova_usage)
    for nova in (whole, *novas):
        if nova is not None:
            _read_converse(notes, nova)
    for reason in (found.stop_reason, found.finish_reason, found.completion_reason):
        notes.add_finish(reason)


def _read_started(notes: Notes, message: bytes) -> None:
    if message.startswith(b"{"):
        started = _STARTED.decode(message)
        notes.add_identity(started.id, started.model)
        notes.add_usage(started.usage)


def _read_counts(notes: Notes, found: _Native) -> None:
    counts = {
        "prompt_token_count": found.prompt_token_count,
        "generation_token_count": found.generation_token_count,
        "inputTextTokenCount": found.input_tokens,
    }
    notes.add_usage(counts)


def _blocks(content: bytes) -> Sequence[_Text]:
    return _BLOCKS.decode(content) if content.startswith(b"[") else ()


def _read_piece(notes: Notes, piece: _Text) -> None:
    texts = (piece.text, piece.thinking, piece.partial_json, piece.output)
    if any(map(is_filled, texts)):
        notes.add_content()
    notes.add_usage({"tokenCount": piece.tokens})
    for reason in (piece.stop_reason, piece.finish_reason, piece.completion_reason):
        notes.add_finish(reason)


def read_headers(notes: Notes, headers: Sequence[tuple[bytes, bytes]]) -> None:
    """Note the counts in the headers of an answer."""
    for name, value in headers:
        member = _COUNT_HEADERS.get(name.lower())
        if member and value.isdigit():
            notes.add_usage({member: int(value)})


CONVERSE = WireReplies(
    is_plain=never_plain,
    read_event=_read_converse_event,
    read_body=_read_converse_body,
    error_body=error_body,
    error_event=error_event,
    framing=FRAMES,
)
INVOKE = WireReplies(
    is_plain=never_plain,
    read_event=_read_native_event,
    read_body=_read_native_body,
    error_body=error_body,
    error_event=error_event,
    framing=FRAMES,
    read_headers=read_headers,
)
