"""What a meter is, what it notes of an answer, and what a wire tells it.

Rules:
- A meter never raises, never asks for a byte more and holds a bounded number of bytes.
- What it cannot read it counts in `ReplyFacts.faults` and goes on.
- What the bytes mean is the wire's: a `WireReplies` of three functions over `Notes`.
"""

from collections.abc import Callable, Sequence
from typing import Protocol

import msgspec

from deuz_compiler.wires.chat_usage import Reports, merge_reports, read_reports
from deuz_compiler.wires.framing import Framing
from deuz_compiler.wires.sse import ServerEvent
from deuz_compiler.wires.usage import Usage

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

ERROR_NAME = b"error"
"""An event of this name is an error, whatever its data are: they need be no JSON."""

NAMED_ERRORS = b"event: error\0event:error\0"
"""How one begins, as words for `holds`."""

LONGEST_EMPTY = 4
"""Bytes of the longest of these: a longer value carries something."""


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


def never_plain(_chunk: bytes) -> bool:
    """Tell that each event may hold more than content: a usage, or a frame's name."""
    return False


def is_filled(value: msgspec.Raw) -> bool:
    """Whether a raw JSON member is there and carries something."""
    if value is ABSENT:
        return False
    # Without a copy of a long one.
    return len(value) > LONGEST_EMPTY or bytes(value) not in EMPTY_VALUES
