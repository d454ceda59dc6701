"""Cut the binary event stream of AWS out of chunks of any size.

Rules:
- A frame is: its length, the length of its headers, a checksum of both; headers; the
  payload; a checksum of all. Numbers are big-endian.
- Every split of the same bytes gives the same frames; one over the limit is skipped.
- A length whose checksum is wrong cannot be trusted: what follows is not read, but
  counted, once.
- What does not begin like a frame is a body, and is given back when it ends: an error
  comes as JSON.
"""

import struct
import zlib
from collections.abc import Iterator

from deuz_compiler.wires.sse import ServerEvent

MAX_FRAME_BYTES = 16 * 1024 * 1024
"""What AWS allows a message to have."""

_PRELUDE = struct.Struct(">III")
_CHECKSUM_BYTES = 4
_TEXT = 7
# The value's bytes by its type; of bytes and text the length comes first.
_SIZES = {0: 0, 1: 0, 2: 1, 3: 2, 4: 4, 5: 8, 8: 8, 9: 16}
_LONG = (6, _TEXT)
# The kinds of a message; only an event is not told by its name.
_NAMES = (b":exception-type", b":error-code", b":event-type")
UNNAMED_FRAME = b"?"


class FrameCutter:
    """Collects chunks and gives back whole frames. One task owns it."""

    __slots__ = (
        "_is_body",
        "_is_lost",
        "_left",
        "_limit_bytes",
        "_rest",
        "_was_fed",
        "skipped_events",
    )

    def __init__(self, *, limit_bytes: int = MAX_FRAME_BYTES) -> None:
        self._limit_bytes = limit_bytes
        self._rest = bytearray()
        self._left = 0
        self._is_body = False
        self._is_lost = False
        self._was_fed = False
        self.skipped_events = 0

    @property
    def is_idle(self) -> bool:
        """Whether the next chunk begins a frame; false before the first."""
        return self._was_fed and not (self._rest or self._left or self._is_lost)

    def feed(self, chunk: bytes) -> list[bytes]:
        """Return the frames that this chunk completes."""
        if chunk and not self._was_fed:
            self._was_fed = True
            # The first byte of a length is zero: no frame has 16 MB.
            self._is_body = chunk[:1] > b"\x01"
        if self._is_lost:
            return []
        self._rest += chunk
        if self._is_body:
            self._bound_body()
            return []
        return list(self._frames())

    def close(self) -> list[bytes]:
        """Return a body that is no stream; count a frame that was cut off."""
        rest = bytes(self._rest)
        self._rest.clear()
        if self._is_body and not self._is_lost:
            return [rest]
        self.skipped_events += bool(rest)
        return []

    def _frames(self) -> Iterator[bytes]:
        while True:
            skipped = min(self._left, len(self._rest))
            del self._rest[:skipped]
            self._left -= skipped
            if self._left or len(self._rest) < _PRELUDE.size:
                return
            size, _, checksum = _PRELUDE.unpack_from(self._rest)
            if checksum != zlib.crc32(self._rest[:8]) or size < _PRELUDE.size:
                self._lose()
                return
            if size > self._limit_bytes:
                self._left = size
                self.skipped_events += 1
                continue
            if len(self._rest) < size:
                return
            yield bytes(self._rest[:size])
            del self._rest[:size]

    def _bound_body(self) -> None:
        if len(self._rest) > self._limit_bytes:
            self._lose()

    def _lose(self) -> None:
        self._is_lost = True
        self._rest.clear()
        self.skipped_events += 1


def read_frame(frame: bytes) -> ServerEvent:
    """Return the frame's event or exception by name, and its payload.

    The name is `?` where the headers tell none.

    Raises:
        ValueError: it is no frame, but a short body.
    """
    if len(frame) < _PRELUDE.size:
        raise ValueError("shorter than a frame")
    _, headers_bytes, _ = _PRELUDE.unpack_from(frame)
    end = min(_PRELUDE.size + headers_bytes, len(frame) - _CHECKSUM_BYTES)
    headers = dict(_headers(frame[_PRELUDE.size : end]))
    name = next((headers[n] for n in _NAMES if n in headers), UNNAMED_FRAME)
    return ServerEvent(name, frame[end:-_CHECKSUM_BYTES])


def _headers(text: bytes) -> Iterator[tuple[bytes, bytes]]:
    """Yield names and texts of the headers; what is damaged ends them."""
    at = 0
    while at < len(text):
        name_end = at + 1 + text[at]
        name, kind = text[at + 1 : name_end], text[name_end : name_end + 1]
        if not kind:
            return
        at = name_end + 1
        if kind[0] in _LONG:
            size = int.from_bytes(text[at : at + 2])
            if kind[0] == _TEXT:
                yield name, text[at + 2 : at + 2 + size]
            at += 2 + size
        elif kind[0] in _SIZES:
            at += _SIZES[kind[0]]
        else:
            return
