"""Heads of one connection's requests: one like the last is not read a second time.

Rules:
- Alike are heads that differ in nothing but the length of a body, byte for byte: they
  have one letterhead.
- Of a head that differs in the values of some lines, as by a new trace id, these are
  read; lines that say how a message is framed are none of them, but for the length.
- A length, and a value, are read as strictly here as in a head that is read whole.
"""

import msgspec

from deuz_proxy.calls import Change, Letterhead
from deuz_proxy.edge.http1_framing import Chunked, Framing, Length
from deuz_proxy.edge.http1_wire import (
    FRAMING_LINES,
    MOST_DIGITS,
    VALUE_BYTES,
    RequestHead,
    read_request,
)

_LENGTH = b"content-length"
_END = b"\r\n\r\n"


class _Last(msgspec.Struct, frozen=True):
    """The last head: the bytes around its length, and what they were read as.

    Where no length is stated all stand ahead of it. It has `size_bytes` in all.
    """

    before: bytes
    length: bytes
    behind: bytes
    # Where in its lines the length stands; -1 if it does not.
    at: int
    request: RequestHead
    size_bytes: int

    def rows(self) -> list[bytes]:
        """Return the head's first line and all others, without their ends."""
        head = self.before + self.length + self.behind
        return head[: -len(_END)].split(b"\r\n")


class HeadReader:
    """Reads the heads of one connection's requests."""

    __slots__ = ("_last", "_most_lines")

    def __init__(self, most_lines: int) -> None:
        self._most_lines = most_lines
        self._last: _Last | None = None

    def read_alike(self, data: memoryview) -> tuple[RequestHead, bytes] | None:
        """Return the request that these bytes begin with, and what follows its head.

        None unless the head is like the last one, and no longer: then it ends where
        that one did, and keeps the limits.
        """
        last = self._last
        if last is None:
            return None
        # What follows may be a long body: of that, one copy is made.
        start = data[: last.size_bytes].tobytes()
        alike = _alike(last, start, len(last.length))
        return alike and (alike[0], data[alike[1] :].tobytes())

    def read(self, head: bytes) -> RequestHead:
        """Return the request, with the letterhead of the last one if it is alike.

        Raises:
            HeadTooLong: it has more lines than the limit.
            NotHttp: it breaks a rule, or can be read in two ways.
        """
        last = self._last
        if last is None:
            request = read_request(head, most_lines=self._most_lines)
        else:
            alike = _alike(last, head, MOST_DIGITS)
            if alike is not None:
                # Its length has one digit more: those that follow are as long.
                self._last = _kept(head, alike[0])
                return alike[0]
            changed = _changed(last, head)
            request = changed or read_request(head, most_lines=self._most_lines)
        self._last = _kept(head, request)
        return request


def _alike(
    last: _Last, data: bytes, most_digits: int
) -> tuple[RequestHead, int] | None:
    """Return the request of a head alike, and where it ends; None of any other."""
    if not last.length or not data.startswith(last.before):
        return None
    start = len(last.before)
    end = data.find(last.behind[:1], start, start + most_digits + 1)
    if end < 0 or not data.startswith(last.behind, end):
        return None
    digits = data[start:end]
    length = int(digits) if digits.isdigit() and len(digits) <= MOST_DIGITS else 0
    if not length:
        # Without a body it is not alike: something else is made of it.
        return None
    request = last.request
    lines = list(request.lines)
    lines[last.at] = (lines[last.at][0], digits)
    same = _same(request, lines, Length(length), request.letterhead)
    return same, end + len(last.behind)


def _is_length(digits: bytes) -> bool:
    return digits.isdigit() and len(digits) <= MOST_DIGITS and int(digits) > 0


def _changed(last: _Last, head: bytes) -> RequestHead | None:
    """Return the request of a head that differs in values only; None of any other."""
    rows, known_rows = head[: -len(_END)].split(b"\r\n"), last.rows()
    request = last.request
    is_odd = not head.endswith(_END) or rows[0] != known_rows[0]
    if is_odd or len(rows) != len(known_rows):
        return None
    lines, changes = list(request.lines), []
    framing = _fresh(request.framing)
    for at, (row, known) in enumerate(zip(rows, known_rows, strict=True)):
        if row == known:
            continue
        change = _change(lines[at - 1], row)
        if change is None:
            return None
        name, value = lines[at - 1] = change[1]
        if at - 1 == last.at and _is_length(value):
            framing = Length(int(value))
        elif name.lower() in FRAMING_LINES:
            return None
        else:
            changes.append(change)
    return _same(request, lines, framing, Letterhead(request.letterhead, changes))


def _change(line: tuple[bytes, bytes], row: bytes) -> Change | None:
    """Return the line and what this row makes of it; None if it is another line."""
    name = line[0]
    if not row.startswith(name + b":") or row.translate(None, VALUE_BYTES):
        return None
    return line, (name, row[len(name) + 1 :].strip(b" \t"))


def _fresh(framing: Framing | None) -> Framing | None:
    """Return what takes such a body out of a connection, from its first byte on."""
    if isinstance(framing, Length):
        return Length(framing.stated_bytes)
    return framing and Chunked()


def _same(
    request: RequestHead,
    lines: list[tuple[bytes, bytes]],
    framing: Framing | None,
    letterhead: Letterhead,
) -> RequestHead:
    return RequestHead(
        request.method,
        request.target,
        request.is_old,
        lines,
        framing,
        request.is_kept_alive,
        request.expects_continue,
        request.upgrade,
        letterhead,
    )


def _kept(head: bytes, request: RequestHead) -> _Last:
    """Return what the next head is compared with."""
    if isinstance(request.framing, Length):
        for at, (name, digits) in enumerate(request.lines):
            if name.lower() == _LENGTH:
                # There is one such line, and only space between its colon and its
                # value.
                line = head.index(b"\r\n%b:" % name)
                start = head.index(digits, line + len(name) + 3)
                behind = head[start + len(digits) :]
                return _Last(head[:start], digits, behind, at, request, len(head))
    return _Last(head, b"", b"", -1, request, len(head))
