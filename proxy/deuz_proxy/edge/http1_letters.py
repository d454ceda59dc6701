"""Heads of one client's answers: one like the last is not made a second time.

Rules:
- Alike are answers that say the same but for the length of a body, which each states.
- What is sent is what would have been: the last head, with another length in its place.
"""

from collections.abc import Sequence

import msgspec

Headers = Sequence[tuple[bytes, bytes]]
Asked = tuple[int, str, bool, bool]
"""What a head depends on beside its lines: status, reason, how old, whether kept."""

_LENGTH = b"content-length"


class _Last(msgspec.Struct):
    """The last head: what it was made of, and what it was.

    `at` is where in its lines the length stands: -1 until somebody asks.
    """

    asked: Asked
    lines: Headers
    head: bytes
    at: int = -1
    before: bytes = b""
    behind: bytes = b""


class Letters:
    """What was written above the last answer of a connection."""

    __slots__ = ("_last",)

    def __init__(self) -> None:
        self._last: _Last | None = None

    def head_alike(self, asked: Asked, lines: Headers) -> tuple[bytes, int] | None:
        """Return head and length of an answer that is like the last one."""
        last = self._last
        if last is None or last.asked != asked or len(last.lines) != len(lines):
            return None
        if last.at < 0 and not _is_split(last):
            self._last = None
            return None
        at = last.at
        known, (name, digits) = last.lines[at], lines[at]
        same = list(lines)
        same[at] = known
        if name != known[0] or same != last.lines:
            return None
        return last.before + digits + last.behind, int(digits)

    def keep(self, asked: Asked, lines: Headers, head: bytes) -> None:
        """Keep a head that states a length; it was made of these lines."""
        self._last = _Last(asked, list(lines), head)


def _is_split(last: _Last) -> bool:
    """Find the length in the head; False where it is not there once."""
    places = [at for at, (name, _) in enumerate(last.lines) if name.lower() == _LENGTH]
    if len(places) != 1:
        return False
    row = b"\r\n%b: " % last.lines[places[0]][0]
    before, row, behind = last.head.partition(row)
    digits = last.lines[places[0]][1]
    if not behind.startswith(digits + b"\r\n"):
        return False
    last.at, last.before, last.behind = places[0], before + row, behind[len(digits) :]
    return True
