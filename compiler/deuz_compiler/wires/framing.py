"""How an answer is cut into events: by empty lines, as JSON objects, or in frames.

Rules:
- A cutter holds a bounded number of bytes and counts what it skips.
- What a block means is told by the framing's `read`, what an event means by the wire.
"""

from collections.abc import Callable
from typing import Protocol

import msgspec

from deuz_compiler.wires.sse import EventCutter, ServerEvent, read_event
from deuz_compiler.wires.values import ValueCutter


class Cutter(Protocol):
    """Collects chunks and gives back the blocks that they complete.

    `is_idle` says that the next chunk starts a block; `skipped_events` counts blocks
    that were too large or damaged.
    """

    skipped_events: int

    @property
    def is_idle(self) -> bool:
        """Whether no byte is held back."""

    def feed(self, chunk: bytes) -> list[bytes]:
        """Return the blocks that this chunk completes."""

    def close(self) -> list[bytes]:
        """Return what is left."""


class Framing(msgspec.Struct, frozen=True, gc=False):
    """One way of cutting. A chunk with one of the `ends` ends with a whole block."""

    cutter: Callable[[], Cutter]
    read: Callable[[bytes], ServerEvent | None]
    ends: tuple[bytes, ...] = ()


def _bare_event(block: bytes) -> ServerEvent:
    return ServerEvent(b"", block)


SERVER_SENT = Framing(EventCutter, read_event, (b"\n\n", b"\r\n\r\n"))
JSON_OBJECTS = Framing(ValueCutter, _bare_event, (b"}\n",))
