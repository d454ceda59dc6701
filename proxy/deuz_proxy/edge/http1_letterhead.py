"""Heads of one connection's requests: one like the last is not read a second time.

Rules:
- Alike are heads that differ in nothing but the length of a body, byte for byte.
- A length is read as strictly here as in a head that is read whole.
"""

import msgspec

from deuz_proxy.edge.http1_framing import Length
from deuz_proxy.edge.http1_wire import MOST_DIGITS, RequestHead, read_request


class _Last(msgspec.Struct, frozen=True):
    """The last head: the bytes around its length, and what they were read as."""

    before: bytes
    behind: bytes
    # Where in its lines the length stands.
    at: int
    request: RequestHead


class HeadReader:
    """Reads the heads of one connection's requests."""

    __slots__ = ("_last", "_most_lines")

    def __init__(self, most_lines: int) -> None:
        self._most_lines = most_lines
        self._last: _Last | None = None

    def read(self, head: bytes) -> RequestHead:
        """Return the request, with the letterhead of the last one if it is alike.

        Raises:
            HeadTooLong: it has more lines than the limit.
            NotHttp: it breaks a rule, or can be read in two ways.
        """
        last = self._last
        if last and head.startswith(last.before) and head.endswith(last.behind):
            digits = head[len(last.before) : len(head) - len(last.behind)]
            if digits.isdigit() and len(digits) <= MOST_DIGITS:
                # Without a body it is not alike: something else is made of it.
                length_bytes = int(digits)
                if length_bytes:
                    return _alike(last, digits, length_bytes)
        request = read_request(head, most_lines=self._most_lines)
        self._last = _around_length(head, request)
        return request


def _alike(last: _Last, digits: bytes, length_bytes: int) -> RequestHead:
    request = last.request
    lines = list(request.lines)
    lines[last.at] = (lines[last.at][0], digits)
    return RequestHead(
        request.method,
        request.target,
        request.is_old,
        lines,
        Length(length_bytes),
        request.is_kept_alive,
        request.expects_continue,
        request.upgrade,
        request.letterhead,
    )


def _around_length(head: bytes, request: RequestHead) -> _Last | None:
    """Return the bytes around the length of a body; None where none is stated."""
    if not isinstance(request.framing, Length):
        return None
    for at, (name, digits) in enumerate(request.lines):
        if name.lower() == b"content-length":
            # There is one such line, and only space between its colon and its value.
            line = head.index(b"\r\n%b:" % name)
            start = head.index(digits, line + len(name) + 3)
            return _Last(head[:start], head[start + len(digits) :], at, request)
    return None
