"""Heads of one connection's answers: one like the last is not read a second time.

Rules:
- Alike are heads that differ in nothing but the length of a body, byte for byte.
- Only a short head of a whole answer with one plain statement of its length is kept.
- A length is read as strictly here as in a head that is read whole.
"""

from collections.abc import Callable

import msgspec

from deuz_proxy.edge.http1_flow import Inbox
from deuz_proxy.edge.http1_framing import Framing, Length
from deuz_proxy.edge.http1_wire import MOST_DIGITS, AnswerHead, Lines, read_answer

SWITCHED = 101
Inform = Callable[[int, bytes, Lines], None]

_LENGTH = b"content-length"
# Providers' heads are 1 to 2 KB long.
_SHORT_BYTES = 4096


class Exchange(msgspec.Struct):
    """One request and its answer: what is known of it so far."""

    inbox: Inbox
    method: bytes
    is_switch: bool
    inform: Inform | None
    answer: AnswerHead | None = None
    framing: Framing | None = None


class _Last(msgspec.Struct, frozen=True):
    """The bytes around the last head's length, and what they were read as."""

    before: bytes
    behind: bytes
    # The most digits with which it is no longer than the last one.
    most_digits: int
    # Where in its lines the length stands.
    at: int
    answer: AnswerHead


class AnswerReader:
    """Reads the heads of one connection's answers."""

    __slots__ = ("_last",)

    def __init__(self) -> None:
        self._last: _Last | None = None

    def read_alike(
        self, data: bytes, exchange: Exchange
    ) -> tuple[AnswerHead, bytes] | None:
        """Return the answer that these bytes begin with, and what follows its head.

        None unless the head is like the last one, and no longer: then it ends where
        that one did, and keeps the limits.
        """
        last = self._last
        if (
            last is None
            or exchange.method == b"HEAD"
            or not data.startswith(last.before)
        ):
            return None
        start = len(last.before)
        end = data.find(b"\r", start, start + last.most_digits + 1)
        if end < 0 or not data.startswith(last.behind, end):
            return None
        digits = data[start:end]
        if not digits.isdigit():
            return None
        answer = last.answer
        lines = list(answer.lines)
        lines[last.at] = (lines[last.at][0], digits)
        alike = AnswerHead(
            answer.status,
            answer.reason,
            lines,
            Length(int(digits)),
            answer.is_kept_alive,
            answer.keep_seconds,
            answer.kind,
            answer.codings,
        )
        return alike, data[end + len(last.behind) :]

    def read(self, head: bytes, exchange: Exchange) -> AnswerHead:
        """Return the answer that this head begins.

        Raises:
            NotHttp: it is no answer, or its length can be read in two ways.
        """
        answer = read_answer(head, method=exchange.method)
        if isinstance(answer.framing, Length) and len(head) <= _SHORT_BYTES:
            self._last = _kept(head, answer)
        return answer


def _kept(head: bytes, answer: AnswerHead) -> _Last | None:
    """Return what the next head is compared with; None where lengths are untidy."""
    places = [
        at for at, (name, _) in enumerate(answer.lines) if name.lower() == _LENGTH
    ]
    if len(places) != 1:
        return None
    name, digits = answer.lines[places[0]]
    before, row, behind = head.partition(b"\r\n%b: %b\r\n" % (name, digits))
    if not row or len(digits) > MOST_DIGITS:
        return None
    start = b"%b\r\n%b: " % (before, name)
    return _Last(start, b"\r\n" + behind, len(digits), places[0], answer)
