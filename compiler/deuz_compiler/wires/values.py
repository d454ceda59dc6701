"""Cut JSON objects out of a stream of chunks of any size, whatever stands between them.

Rules:
- One object a line, the elements of one array, or a single body: each object that is
  in no other is a block.
- Every split of the same bytes gives the same blocks.
- What is held is bounded: an object over the limit is skipped and counted.
- A stream with bytes and without any object counts as one that was skipped.
"""

import re

MAX_VALUE_BYTES = 8 * 1024 * 1024
"""A picture that a model made comes as one element of some megabytes."""

_MARK = re.compile(rb'[{}\[\]"]')
_MARK_IN_TEXT = re.compile(rb'["\\]')
_QUOTE, _BACKSLASH = 0x22, 0x5C
_OBJECT, _OPENERS = 0x7B, b"{["


class ValueCutter:
    """Collects chunks and gives back the objects that they complete.

    One task owns it. `is_idle` says that no byte is held back, so that the next chunk
    starts between two objects.
    """

    __slots__ = (
        "_at",
        "_depth",
        "_has_bytes",
        "_has_objects",
        "_is_in_text",
        "_is_skipping",
        "_limit_bytes",
        "_rest",
        "skipped_events",
    )

    def __init__(self, *, limit_bytes: int = MAX_VALUE_BYTES) -> None:
        self._limit_bytes = limit_bytes
        self._rest = bytearray()
        self._at = 0
        self._depth = 0
        self._is_in_text = False
        self._is_skipping = False
        self._has_bytes = False
        self._has_objects = False
        self.skipped_events = 0

    @property
    def is_idle(self) -> bool:
        """Whether the next chunk begins between two objects; false before the first."""
        return self._has_objects and not (self._depth or self._is_in_text)

    def feed(self, chunk: bytes) -> list[bytes]:
        """Return the objects that this chunk completes."""
        self._rest += chunk
        self._has_bytes = self._has_bytes or bool(chunk.strip())
        blocks: list[bytes] = []
        while (mark := self._next_mark()) >= 0:
            byte = self._rest[mark]
            self._at = mark + 1
            if self._is_in_text:
                # What is escaped is not looked at, even where it is still to come.
                self._at += byte == _BACKSLASH
                self._is_in_text = byte != _QUOTE
            elif byte == _QUOTE:
                self._is_in_text = True
            elif byte in _OPENERS:
                self._open(mark, byte)
            elif self._depth:
                self._close(mark, blocks)
        self._let_go()
        return blocks

    def close(self) -> list[bytes]:
        """Return what is left of an object that was cut off."""
        rest = bytes(self._rest) if self._depth and not self._is_skipping else b""
        self._rest.clear()
        if rest:
            return [rest]
        if self._has_bytes and not self._has_objects:
            self.skipped_events = max(self.skipped_events, 1)
        return []

    def _next_mark(self) -> int:
        pattern = _MARK_IN_TEXT if self._is_in_text else _MARK
        found = pattern.search(self._rest, self._at)
        return found.start() if found else -1

    def _open(self, mark: int, byte: int) -> None:
        if self._depth:
            self._depth += 1
        elif byte == _OBJECT:
            del self._rest[:mark]
            self._at = 1
            self._depth = 1

    def _close(self, mark: int, blocks: list[bytes]) -> None:
        self._depth -= 1
        if self._depth:
            return
        self._has_objects = True
        if not self._is_skipping:
            blocks.append(bytes(self._rest[: mark + 1]))
        self._is_skipping = False
        del self._rest[: mark + 1]
        self._at = 0

    def _let_go(self) -> None:
        """Drop what is between objects, and an object that has grown too large."""
        size = len(self._rest)
        if self._depth and not self._is_skipping and size > self._limit_bytes:
            self._is_skipping = True
            self.skipped_events += 1
        if not self._depth or self._is_skipping:
            # One more than there is: the byte behind a backslash is still to come.
            self._at = max(self._at - size, 0)
            self._rest.clear()
        else:
            self._at = max(self._at, size)
