"""Watch an answer's bytes go by and tell at the end what they said.

Rules:
- A meter never raises, never asks for a byte more and holds a bounded number of bytes.
- What it cannot read it counts in `ReplyFacts.faults` and goes on.
- What the bytes mean is the wire's: a `WireReplies` of three functions over `Notes`.
"""

from collections.abc import Callable, Sequence
from typing import Protocol

import msgspec

from deuz_compiler.wires.chat_usage import Reports, merge_reports, read_reports
from deuz_compiler.wires.framing import SERVER_SENT, Framing
from deuz_compiler.wires.sse import BYTE_ORDER_MARK, ServerEvent
from deuz_compiler.wires.usage import Usage

MAX_BODY_BYTES = 8 * 1024 * 1024
"""A longer buffered answer is forwarded like any other, but not read."""

MAX_TEXT_CHARS = 1024 * 1024
"""Far more than a summary may have; the rest of the text is not kept."""

UNREADABLE = (ValueError, RecursionError)
"""What decoding raises: msgspec's errors are ValueErrors, deep nesting is not."""

ABSENT = msgspec.Raw()
"""Stands for a member that is not there; told by identity, which is cheap."""

Headers = Sequence[tuple[bytes, bytes]]
"""The header lines of an answer, as they came."""

EMPTY_VALUES = (b"", b"null", b'""', b"[]", b"{}")
"""Raw JSON values that carry nothing."""

LONGEST_EMPTY = 4
"""Bytes of the longest of these: a longer value carries something."""

# Halves smaller than this are read block by block: to look for less is not cheaper.
_FEW_BLOCKS = 2


class ReplyFacts(msgspec.Struct, frozen=True, gc=False):
    """What is known of one answer.

    `is_complete` says that the final event, or a whole body, was seen. `error_body` is
    the event or body in which an answer with a good status told of an error. `text` and
    `had_tool_call` are known only to a meter that keeps the text. `faults` counts
    events and bodies that could not be read, too long ones included.
    """

    usage: Usage | None = None
    finish_reason: str | None = None
    response_id: str | None = None
    model: str | None = None
    has_content: bool = False
    is_complete: bool = False
    error_body: bytes | None = None
    text: str | None = None
    had_tool_call: bool = False
    faults: int = 0

    @property
    def is_finished(self) -> bool:
        """Whether the model was done, even where the end marker never came."""
        return self.is_complete or self.finish_reason is not None


class ReplyMeter(Protocol):
    """Takes decoded chunks of one answer and tells what the answer turned to."""

    @property
    def decisive(self) -> str | None:
        """`content`, `error` or `end`; None while it may still become an error.

        It stays None behind pings, comments, the opening event and deltas that have a
        role only.
        """

    def feed(self, chunk: bytes) -> None:
        """Take the next bytes, already decompressed, in pieces of any size."""

    def close(self) -> ReplyFacts:
        """Return the facts, the same ones each time; nothing is fed afterwards."""


class Notes(msgspec.Struct, eq=False):
    """What a wire's reader has found so far; owned by one meter."""

    keeps_text: bool
    decisive: str | None = None
    reports: Reports = {}
    finish_reason: str | None = None
    response_id: str | None = None
    model: str | None = None
    has_content: bool = False
    had_tool_call: bool = False
    is_complete: bool = False
    error_body: bytes | None = None
    faults: int = 0
    _text: list[str] = []
    _text_chars: int = 0

    @property
    def is_settled(self) -> bool:
        """Whether more content would tell nothing new."""
        return self.has_content and not self.keeps_text

    def add_identity(self, response_id: object, model: object) -> None:
        """Keep the first id and model that are not empty."""
        if self.response_id is None and isinstance(response_id, str) and response_id:
            self.response_id = response_id
        if self.model is None and isinstance(model, str) and model:
            self.model = model

    def add_usage(self, report: object) -> None:
        """Lay a newer usage report over what is known."""
        if report is not None:
            self.reports = merge_reports(self.reports, report)

    def add_content(self) -> None:
        """The model has begun to answer."""
        self.has_content = True
        if self.decisive is None:
            self.decisive = "content"

    def add_text(self, text: msgspec.Raw) -> None:
        """Keep a raw JSON string of the answer's text, if the text is wanted."""
        if not self.keeps_text or self._text_chars >= MAX_TEXT_CHARS:
            return
        decoded = msgspec.json.decode(text)
        if isinstance(decoded, str):
            self._text.append(decoded)
            self._text_chars += len(decoded)

    def add_finish(self, reason: object) -> None:
        """Keep the newest finish reason; an empty one is none."""
        if isinstance(reason, str) and reason:
            self.finish_reason = reason
            self.decisive = self.decisive or "end"

    def add_error(self, body: bytes) -> None:
        """Keep the first error."""
        self.is_complete = True
        self.decisive = self.decisive or "error"
        if self.error_body is None:
            self.error_body = bytes(body)

    def add_end(self) -> None:
        """The final event, or a whole body, was read."""
        self.is_complete = True
        self.decisive = self.decisive or "end"

    def facts(self) -> ReplyFacts:
        """Return what is known now."""
        return ReplyFacts(
            read_reports(self.reports) if self.reports else None,
            self.finish_reason,
            self.response_id,
            self.model,
            self.has_content,
            self.is_complete,
            self.error_body,
            "".join(self._text)[:MAX_TEXT_CHARS] if self.keeps_text else None,
            self.had_tool_call,
            self.faults,
        )


class WireReplies(msgspec.Struct, frozen=True, gc=False):
    """What one wire's answers mean, and how an error of ours looks on it.

    `is_plain` tells, without decoding, that whole events hold nothing but content.
    `read_event` and `read_body` write into the notes and may raise `UNREADABLE`.
    `error_body` and `error_event` take a status, our code and a message. `framing` is
    how the wire's own streams are cut, where they are no server-sent events; a body
    that is whole is then cut in the same way. `read_headers` notes what the head of an
    answer tells. `read_usual` tells all of a whole answer that has content, if it is
    one like most.
    """

    is_plain: Callable[[bytes], bool]
    read_event: Callable[[Notes, ServerEvent], None]
    read_body: Callable[[Notes, bytes], None]
    error_body: Callable[[int, str, str], bytes]
    error_event: Callable[[int, str, str], bytes]
    framing: Framing | None = None
    read_headers: Callable[[Notes, Headers], None] | None = None
    read_usual: Callable[[bytes], ReplyFacts | None] | None = None


class StreamMeter:
    """Meters a stream of events."""

    __slots__ = ("_cutter", "_facts", "_framing", "_has_events", "_notes", "_wire")

    def __init__(
        self,
        wire: WireReplies,
        *,
        keeps_text: bool,
        framing: Framing = SERVER_SENT,
        headers: Headers = (),
    ) -> None:
        self._wire = wire
        self._notes = Notes(keeps_text=keeps_text)
        if wire.read_headers is not None:
            wire.read_headers(self._notes, headers)
        self._framing = framing
        self._cutter = framing.cutter()
        self._has_events = False
        self._facts: ReplyFacts | None = None

    @property
    def decisive(self) -> str | None:
        """`content`, `error` or `end`; None before the first such event."""
        return self._notes.decisive

    def feed(self, chunk: bytes) -> None:
        """Read the events this chunk completes."""
        # Most chunks are whole events of content behind the first one: they cost a few
        # searches for bytes, and are not cut or decoded.
        if (
            self._notes.is_settled
            and self._cutter.is_idle
            and chunk.endswith(self._framing.ends)
            and self._wire.is_plain(chunk)
        ):
            return
        blocks = self._cutter.feed(chunk)
        if blocks:
            self._read_telling(blocks)

    def close(self) -> ReplyFacts:
        """Read what is left and return the facts."""
        if self._facts is None:
            self._facts = self._close()
        return self._facts

    def _close(self) -> ReplyFacts:
        for block in self._cutter.close():
            if self._has_events or block[:1] not in b"{[":
                self._read(block)
            else:
                # Some servers label a plain JSON error as an event stream.
                _read_body(self._wire, self._notes, block)
        self._notes.faults += self._cutter.skipped_events
        return self._notes.facts()

    def _read_telling(self, blocks: list[bytes]) -> None:
        """Read blocks in their order, but for what behind the first content is plain.

        In a burst, the first content or the last word comes with dozens of others.
        """
        if self._notes.is_settled and self._wire.is_plain(b"\n".join(blocks)):
            return
        half = len(blocks) // 2
        if half < _FEW_BLOCKS:
            for block in blocks:
                self._read(block)
        else:
            self._read_telling(blocks[:half])
            self._read_telling(blocks[half:])

    def _read(self, block: bytes) -> None:
        try:
            event = self._framing.read(block)
            if event is not None:
                self._has_events = True
                self._wire.read_event(self._notes, event)
        except UNREADABLE:
            self._notes.faults += 1


class BodyMeter:
    """Meters an answer in one JSON body; all is known at the end.

    `decisive` is `content`, `error` or `end`; None until the meter was closed.
    """

    __slots__ = ("_facts", "_held_bytes", "_keeps_text", "_pieces", "_wire", "decisive")

    def __init__(self, wire: WireReplies, *, keeps_text: bool) -> None:
        self._wire = wire
        self._keeps_text = keeps_text
        self.decisive: str | None = None
        self._pieces: list[bytes] = []
        self._held_bytes = 0
        self._facts: ReplyFacts | None = None

    def feed(self, chunk: bytes) -> None:
        """Hold the chunk, or let go of all once the body is over the bound."""
        self._held_bytes += len(chunk)
        if self._held_bytes <= MAX_BODY_BYTES:
            self._pieces.append(chunk)
        else:
            self._pieces.clear()

    def close(self) -> ReplyFacts:
        """Read the body and return the facts."""
        if self._facts is None:
            self._facts = self._close()
        return self._facts

    def _close(self) -> ReplyFacts:
        body, self._pieces = b"".join(self._pieces), []
        read_usual = None if self._keeps_text else self._wire.read_usual
        if read_usual is not None and (usual := read_usual(body)) is not None:
            self.decisive = "content"
            return usual
        if not body.startswith(b"{"):
            body = body.removeprefix(BYTE_ORDER_MARK)
            if body.lstrip().startswith((b"data:", b"event:", b":")):
                # Some gateways answer with events under a JSON label.
                return self._close_as_stream(body)
        notes = Notes(keeps_text=self._keeps_text)
        if self._held_bytes > MAX_BODY_BYTES:
            notes.faults += 1
        elif body:
            _read_body(self._wire, notes, body)
        self.decisive = notes.decisive
        return notes.facts()

    def _close_as_stream(self, body: bytes) -> ReplyFacts:
        stream = StreamMeter(self._wire, keeps_text=self._keeps_text)
        stream.feed(body)
        facts = stream.close()
        self.decisive = stream.decisive
        return facts


def never_plain(_chunk: bytes) -> bool:
    """Tell that each event may hold more than content: a usage, or a frame's name."""
    return False


def is_filled(value: msgspec.Raw) -> bool:
    """Whether a raw JSON member is there and carries something."""
    if value is ABSENT:
        return False
    # Without a copy of a long one.
    return len(value) > LONGEST_EMPTY or bytes(value) not in EMPTY_VALUES


def _read_body(wire: WireReplies, notes: Notes, body: bytes) -> None:
    try:
        wire.read_body(notes, body)
    except UNREADABLE:
        notes.faults += 1
