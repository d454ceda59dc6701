"""Cut a stream of server-sent events out of chunks of any size.

Rules:
- Every split of the same bytes gives the same events.
- A line ends with LF, CRLF or CR, also when the pair is split over two chunks.
- What is held is bounded: an event over the limit is skipped and counted.
- A rest without an empty line counts as an event when the stream ends. The standard
  would drop it, but it holds the usage of servers that end without a newline.
"""

from typing import NamedTuple

BYTE_ORDER_MARK = b"\xef\xbb\xbf"
MAX_EVENT_BYTES = 4 * 1024 * 1024
"""A final Responses event repeats the whole answer and the tools: hundreds of KB."""

_EVENT_END = b"\n\n"


class ServerEvent(NamedTuple):
    """One event; the name is empty where the stream names none."""

    name: bytes
    data: bytes


class EventCutter:
    """Collects chunks and gives back the blocks of lines between empty lines.

    One task owns it. A block may hold only comments; `read_event` tells. `is_idle` says
    that no byte is held back, so that the next chunk starts at a line's start.
    """

    __slots__ = (
        "_ends_in_return",
        "_is_skipping",
        "_is_started",
        "_limit_bytes",
        "_rest",
        "skipped_events",
    )

    def __init__(self, *, limit_bytes: int = MAX_EVENT_BYTES) -> None:
        self._limit_bytes = limit_bytes
        self._rest = bytearray()
        self._ends_in_return = False
        self._is_skipping = False
        self._is_started = False
        self.skipped_events = 0

    @property
    def is_idle(self) -> bool:
        """Whether the next chunk begins a new event; false before the first."""
        return self._is_started and not (
            self._rest or self._is_skipping or self._ends_in_return
        )

    def feed(self, chunk: bytes) -> list[bytes]:
        """Return the blocks that this chunk completes."""
        # Found: `in` makes and drops an error each time, which here is each event.
        if self._ends_in_return or chunk.find(b"\r") >= 0:
            chunk = self._unify_line_ends(chunk)
        if not self._rest and not self._is_skipping and chunk.endswith(_EVENT_END):
            # Nearly every chunk of a real stream: whole events, nothing to hold back.
            return self._take(chunk.split(_EVENT_END))
        # An empty line may begin in the bytes held and end in the new ones.
        searched = max(0, len(self._rest) - 1)
        self._rest += chunk
        end = self._rest.rfind(_EVENT_END, searched)
        if end < 0:
            self._bound_rest()
            return []
        blocks = bytes(self._rest[:end]).split(_EVENT_END)
        del self._rest[: end + 2]
        if self._is_skipping:
            self._is_skipping = False
            blocks = blocks[1:]
        taken = self._take(blocks)
        self._bound_rest()
        return taken

    def close(self) -> list[bytes]:
        """Return what is left as a last block; one cut off looks like any other."""
        rest = bytes(self._rest)
        self._rest.clear()
        if self._is_skipping:
            return []
        return self._take([rest])

    def _take(self, blocks: list[bytes]) -> list[bytes]:
        # A newline more than two between events is left at the start of a block.
        taken = [stripped for block in blocks if (stripped := block.strip(b"\n"))]
        if taken and not self._is_started:
            self._is_started = True
            taken[0] = taken[0].removeprefix(BYTE_ORDER_MARK)
        if any(len(block) > self._limit_bytes for block in taken):
            short = [block for block in taken if len(block) <= self._limit_bytes]
            self.skipped_events += len(taken) - len(short)
            return short
        return taken

    def _bound_rest(self) -> None:
        # Two more bytes: a newline before the event, and the first half of its end.
        if len(self._rest) <= self._limit_bytes + 2:
            return
        if not self._is_skipping:
            self._is_skipping = True
            self._is_started = True
            self.skipped_events += 1
        # The last byte stays: it may be the first half of the empty line.
        del self._rest[:-1]

    def _unify_line_ends(self, chunk: bytes) -> bytes:
        if self._ends_in_return and chunk:
            self._ends_in_return = False
            chunk = chunk.removeprefix(b"\n")
        if chunk.endswith(b"\r"):
            self._ends_in_return = True
        return chunk.replace(b"\r\n", b"\n").replace(b"\r", b"\n")


def read_event(block: bytes) -> ServerEvent | None:
    """Return the event of a block, or None where it is only comments or names."""
    if block.startswith(b"data: ") and block.find(b"\n") < 0:
        return ServerEvent(b"", block[6:])
    name = b""
    data: list[bytes] = []
    for line in block.split(b"\n"):
        field, _, value = line.partition(b":")
        value = value.removeprefix(b" ")
        if field == b"data":
            data.append(value)
        elif field == b"event":
            name = value
    return ServerEvent(name, b"\n".join(data)) if data else None


def cut_events(body: bytes) -> tuple[ServerEvent, ...]:
    """Return all events of a stream that is already whole."""
    cutter = EventCutter()
    blocks = cutter.feed(body) + cutter.close()
    events = (read_event(block) for block in blocks)
    return tuple(event for event in events if event is not None)
