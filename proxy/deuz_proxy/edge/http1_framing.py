"""The bodies of HTTP/1.1 messages, taken out of their framing; no I/O.

Rules:
- However the bytes are cut, the body is the same; what came in one read is one piece.
- Chunk extensions and trailers end here.
- A frame that is not exactly what it should be is an error, never repaired.
"""

import re
from functools import lru_cache
from typing import Protocol

import msgspec

_CHUNK = re.compile(rb"([0-9A-Fa-f]{1,15})[ \t]*(?:;[\t\x20-\x7e\x80-\xff]*)?")
# Of any chunk but the last, whose length begins with a zero.
_PLAIN_LINE = re.compile(rb"([1-9A-Fa-f][0-9A-Fa-f]{0,14})\r\n")
_NEXT_LINE = re.compile(rb"\r\n" + _PLAIN_LINE.pattern)
_CR, _LF = b"\r\n"
MAX_CHUNK_LINE_BYTES = 4096
MAX_TRAILER_BYTES = 65_536


class NotHttp(Exception):
    """These bytes are not what they should be. The message never holds any of them.

    `taken` is what came of a body ahead of them, in the same read.
    """

    taken = b""


class Framing(Protocol):
    """What takes one body out of the bytes of its connection."""

    is_complete: bool

    def feed(self, data: bytes) -> tuple[bytes, bytes]:
        """Return the body's bytes among these, and what stands behind its end.

        Raises:
            NotHttp: the framing is broken.
        """


class Length(msgspec.Struct):
    """A body whose length was stated; one without bytes is complete once it is fed."""

    stated_bytes: int
    _taken_bytes: int = 0
    is_complete: bool = False

    def feed(self, data: bytes) -> tuple[bytes, bytes]:
        """Take no more than was stated; what was read at once stays uncopied."""
        left = self.stated_bytes - self._taken_bytes
        if len(data) > left:
            data, rest = data[:left], data[left:]
        else:
            rest = b""
        self.skip(len(data))
        return data, rest

    def skip(self, length: int) -> None:
        """Take note that so much of the body was read, here or past us."""
        self._taken_bytes += length
        self.is_complete = self._taken_bytes == self.stated_bytes


class Endless:
    """A body that ends with its connection, or a tunnel."""

    __slots__ = ("is_complete",)

    def __init__(self) -> None:
        self.is_complete = False

    def feed(self, data: bytes) -> tuple[bytes, bytes]:
        """Take everything."""
        return data, b""


class Chunked:
    """A body in chunks. What came in one read comes out as one piece."""

    __slots__ = ("_is_in_trailer", "_kept", "_left", "_trailer_bytes", "is_complete")

    def __init__(self) -> None:
        self._kept = b""
        # Bytes of the current chunk that have not come, its line end included.
        self._left = 0
        self._is_in_trailer = False
        self._trailer_bytes = 0
        self.is_complete = False

    def feed(self, data: bytes) -> tuple[bytes, bytes]:
        """Take chunks out of their framing; cut anywhere, the bytes are the same."""
        if not self._left and not self._kept and not self._is_in_trailer:
            # An event of a stream is most often one chunk in one read.
            size, _, chunk = data.partition(b"\r\n")
            plain = _plain_size(len(chunk) - 2)
            # Some write it in capitals.
            is_one = size == plain or size.lower() == plain
            if is_one and chunk[-1] == _LF and chunk[-2] == _CR:
                return chunk[:-2], b""
        if self._kept:
            data, self._kept = self._kept + data, b""
        pieces: list[bytes] = []
        try:
            at = self._take_chunks(data, pieces)
        except NotHttp as fault:
            fault.taken = b"".join(pieces)
            raise
        body = pieces[0] if len(pieces) == 1 else b"".join(pieces)
        return body, data[at:]

    def _take_chunks(self, data: bytes, pieces: list[bytes]) -> int:
        """Take what there is of the body; return where these bytes go on behind it."""
        at = self._take_chunk(data, 0, pieces) if self._left else 0
        if not self._left and not self._is_in_trailer:
            at = _take_whole(data, at, pieces)
        while at < len(data) and not self.is_complete:
            if self._left:
                at = self._take_chunk(data, at, pieces)
                continue
            end = data.find(b"\r\n", at)
            if end < 0:
                self._keep(data[at:])
                return len(data)
            self._read_line(data[at:end])
            at = end + 2
        return at

    def _take_chunk(self, data: bytes, at: int, pieces: list[bytes]) -> int:
        """Take what there is of the current chunk; return where to go on."""
        end = min(at + self._left, len(data))
        self._left -= end - at
        # The last two of them are the line end behind the chunk.
        ends_in = max(0, 2 - self._left)
        piece = data[at : max(at, end - ends_in)]
        if piece:
            pieces.append(piece)
        line_end = data[at + len(piece) : end]
        first = 2 - self._left - len(line_end)
        if line_end and line_end != b"\r\n"[first : first + len(line_end)]:
            raise NotHttp("chunk without its line end")
        return end

    def _read_line(self, line: bytes) -> None:
        if self._is_in_trailer:
            self._trailer_bytes += len(line)
            if self._trailer_bytes > MAX_TRAILER_BYTES:
                raise NotHttp("trailer too long")
            self.is_complete = not line
            return
        size = _CHUNK.fullmatch(line)
        if size is None:
            raise NotHttp("not the size of a chunk")
        length = int(size[1], 16)
        self._is_in_trailer = length == 0
        self._left = length + 2 if length else 0

    def _keep(self, start: bytes) -> None:
        """Keep the start of a line until the rest of it comes."""
        if len(start) > MAX_CHUNK_LINE_BYTES and not self._is_in_trailer:
            raise NotHttp("size of a chunk too long")
        if len(start) > MAX_TRAILER_BYTES:
            raise NotHttp("trailer too long")
        self._kept = start


@lru_cache(maxsize=1024)
def _plain_size(length: int) -> bytes | None:
    """Return how the size of a chunk is written; None of one without bytes."""
    return b"%x" % length if length > 0 else None


def _take_whole(data: bytes, at: int, pieces: list[bytes]) -> int:
    """Take the chunks that are here whole, in plain frames; return where to go on.

    A burst of a stream's events comes so: dozens of them in one read.
    """
    line = _PLAIN_LINE.match(data, at)
    while line is not None:
        start = line.end()
        end = start + int(line[1], 16)
        line = _NEXT_LINE.match(data, end)
        if line is None and not data.startswith(b"\r\n", end):
            break
        pieces.append(data[start:end])
        at = end + 2
    return at
