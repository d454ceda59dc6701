"""The two meters: of a stream of events, and of an answer in one JSON body.

Rules:
- Up to the first content each event of a stream is read when it comes: it may decide.
- What follows tells nothing before the end. It is read some kilobytes at once.
"""

import msgspec

from deuz_compiler.wires.framing import SERVER_SENT, Framing
from deuz_compiler.wires.metering import (
    ERROR_NAME,
    UNREADABLE,
    Headers,
    Notes,
    ReplyFacts,
    WireReplies,
)
from deuz_compiler.wires.sse import BYTE_ORDER_MARK

MAX_BODY_BYTES = 8 * 1024 * 1024
"""A longer buffered answer is forwarded like any other, but not read."""

# Halves smaller than this are read block by block: to look for less is not cheaper.
_FEW_BLOCKS = 2
# Some twenty events of text: so many cost little more than one, and are no wait.
_MOST_LATE_BYTES = 4096


class StreamMeter:
    """Meters a stream of events."""

    __slots__ = (
        "_cutter",
        "_facts",
        "_framing",
        "_has_events",
        "_late",
        "_most_late_bytes",
        "_notes",
        "_wire",
    )

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
        # What came and was not read yet.
        self._late = bytearray()
        self._most_late_bytes = 0
        self._facts: ReplyFacts | None = None

    @property
    def decisive(self) -> str | None:
        """`content`, `error` or `end`; None before the first such event."""
        return self._notes.decisive

    def feed(self, chunk: bytes) -> None:
        """Read the events this chunk completes, now or with later ones."""
        late = self._late
        late += chunk
        if len(late) > self._most_late_bytes:
            self._read_late()

    def close(self) -> ReplyFacts:
        """Read what is left and return the facts."""
        if self._facts is None:
            self._facts = self._close()
        return self._facts

    def _read_late(self) -> None:
        chunk = bytes(self._late)
        self._late.clear()
        # Most are whole events of content behind the first one: they cost a few
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
            if self._notes.is_settled:
                self._most_late_bytes = _MOST_LATE_BYTES

    def _close(self) -> ReplyFacts:
        self._read_late()
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
            if event is None:
                return
            self._has_events = True
            if event.name == ERROR_NAME:
                self._notes.add_error(event.data)
            else:
                self._wire.read_event(self._notes, event)
        except UNREADABLE:
            self._notes.faults += 1


class BodyMeter(msgspec.Struct, eq=False):
    """Meters an answer in one JSON body; all is known at the end.

    `decisive` is `content`, `error` or `end`; None until the meter was closed.
    """

    _wire: WireReplies
    keeps_text: bool
    decisive: str | None = None
    _pieces: list[bytes] = []
    _held_bytes: int = 0
    _facts: ReplyFacts | None = None

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
        read_usual = None if self.keeps_text else self._wire.read_usual
        if read_usual is not None and (usual := read_usual(body)) is not None:
            self.decisive = "content"
            return usual
        if not body.startswith(b"{"):
            body = body.removeprefix(BYTE_ORDER_MARK)
            if body.lstrip().startswith((b"data:", b"event:", b":")):
                # Some gateways answer with events under a JSON label.
                return self._close_as_stream(body)
        notes = Notes(keeps_text=self.keeps_text)
        if self._held_bytes > MAX_BODY_BYTES:
            notes.faults += 1
        elif body:
            _read_body(self._wire, notes, body)
        self.decisive = notes.decisive
        return notes.facts()

    def _close_as_stream(self, body: bytes) -> ReplyFacts:
        stream = StreamMeter(self._wire, keeps_text=self.keeps_text)
        stream.feed(body)
        facts = stream.close()
        self.decisive = stream.decisive
        return facts


def _read_body(wire: WireReplies, notes: Notes, body: bytes) -> None:
    try:
        wire.read_body(notes, body)
    except UNREADABLE:
        notes.faults += 1
