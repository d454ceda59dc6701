"""The heads of HTTP/1.1 messages, read from bytes; no I/O.

Rules:
- A request is read strictly, since what two readers take differently can be smuggled: a
  character out of place, a folded line, a bare line end, two statements of one length
  are errors.
- An answer's head is read as its clients would: bare line ends, folded lines and odd
  names pass. How long its body is, is read as strictly as a request's.
- Names and values are the bytes received; only the space around a value goes.
"""

import re
from functools import lru_cache

import msgspec

from deuz_proxy.calls import Letterhead
from deuz_proxy.edge.http1_framing import Chunked, Endless, Framing, Length, NotHttp
from deuz_proxy.observe.inflate import codings_named

Lines = list[tuple[bytes, bytes]]
# Values of the lines that say how a message is read, by lower-case name.
Special = dict[bytes, list[bytes]]

_LINE_ENDS = frozenset({b"\r", b"\n"})
# A head ends at the first empty line, however its lines end.
_EMPTY_LINE = re.compile(rb"\n\r?\n")
_REQUEST = re.compile(
    rb"([!#$%&'*+\-.^_`|~0-9A-Za-z]+) "
    # A path; the server itself; or, as to a forward proxy, a whole address.
    rb"((?:/|[A-Za-z][A-Za-z0-9+.\-]*://)[\x21-\x7e]*|\*) "
    rb"HTTP/1\.([01])"
)
_STATUS = re.compile(rb"HTTP/1\.([01]) ([1-9][0-9]{2})(?: (.*))?")
_FOLD = re.compile(rb"\r?\n[ \t]+")
MOST_DIGITS = 18
_NAME_BYTES = (
    b"!#$%&'*+-.^_`|~0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
)
VALUE_BYTES = b"\t" + bytes(range(0x20, 0x7F)) + bytes(range(0x80, 0x100))
_HEAD_BYTES = VALUE_BYTES + b"\r\n"
FRAMING_LINES = frozenset(
    {
        b"connection",
        b"content-length",
        b"expect",
        b"host",
        b"keep-alive",
        b"transfer-encoding",
        b"upgrade",
    }
)
# Of an answer those that say what its body is, too.
_TOLD_LINES = FRAMING_LINES | {b"content-encoding", b"content-type"}
_TIMEOUT = re.compile(
    rb"(?:^|[,;\s])timeout[ \t]*=[ \t]*\"?([0-9]{1,9})(?![0-9])", re.I
)
_BODYLESS = frozenset({204, 304})
# Providers' heads are 1 to 2 KB long.
_SHORT_BYTES = 4096
_MOST_KNOWN = 1024
_FIRST_FINAL = 200
# Four lines as long as any may be, or so many short ones.
MAX_HEAD_BYTES = 262_144
MAX_LINES = 512


class HeadTooLong(NotHttp):
    """A head is longer than the limit: a number of `bytes` or of `lines`."""

    def __init__(self, limit: int, unit: str) -> None:
        super().__init__("head too long")
        self.limit, self.unit = limit, unit


class Head:
    """Collects a head over any number of reads. One connection owns it."""

    __slots__ = ("_most_bytes", "kept")

    def __init__(self, most_bytes: int = MAX_HEAD_BYTES) -> None:
        # What has come of one that is not whole.
        self.kept = bytearray()
        self._most_bytes = most_bytes

    @property
    def is_empty(self) -> bool:
        """Whether no byte of a head has come."""
        return not self.kept

    @property
    def start(self) -> bytes:
        """What has come of one that is not whole."""
        return bytes(self.kept)

    def feed(self, data: bytes | memoryview) -> tuple[bytes, bytes] | None:
        """Return the head with its empty line, and what follows it, once it is whole.

        Of a view, which may be on what is soon overwritten, both are copies.

        Raises:
            HeadTooLong: it is longer than the limit.
        """
        if not self.kept:
            if bytes(data[:1]) in _LINE_ENDS:
                # One empty line too many was sent by old clients, and is to be let go.
                data = bytes(data).lstrip(b"\r\n")
            found = _EMPTY_LINE.search(data)
        else:
            # The empty line may have been cut anywhere in its four bytes.
            start = max(0, len(self.kept) - 3)
            self.kept += data
            found = _EMPTY_LINE.search(self.kept, start)
            data = bytes(self.kept) if found else b""
        if found is None:
            self.kept += data
            if len(self.kept) > self._most_bytes:
                raise HeadTooLong(self._most_bytes, "bytes")
            return None
        end = found.end()
        if end > self._most_bytes:
            raise HeadTooLong(self._most_bytes, "bytes")
        self.kept.clear()
        return bytes(data[:end]), bytes(data[end:])


class RequestHead(msgspec.Struct, frozen=True):
    """A request's first line and lines; no framing: no body was announced.

    Requests of one connection have one letterhead as long as their heads are alike.
    """

    method: bytes
    target: bytes
    is_old: bool
    lines: Lines
    framing: Framing | None
    is_kept_alive: bool
    expects_continue: bool
    upgrade: bytes | None
    letterhead: Letterhead


class AnswerHead(msgspec.Struct, frozen=True):
    """An answer's first line and lines; no framing: it has no body.

    `keep_seconds` is how long the connection is kept idle, where the upstream says so;
    `kind` is the body's content type, `codings` are those that were applied to it.
    """

    status: int
    reason: bytes
    lines: Lines
    framing: Framing | None
    is_kept_alive: bool
    keep_seconds: int | None = None
    kind: bytes = b""
    codings: tuple[bytes, ...] = ()


def target_of(start: bytes) -> str | None:
    """Return the target of a request of which there may be no more than this start."""
    first, is_there, _ = start.partition(b"\r\n")
    opening = _REQUEST.fullmatch(first) if is_there else None
    return opening[2].decode("latin-1") if opening else None


def read_request(head: bytes, *, most_lines: int = MAX_LINES) -> RequestHead:
    """Read a request's head.

    Raises:
        HeadTooLong: it has more lines than the limit.
        NotHttp: it breaks a rule, or can be read in two ways.
    """
    ends = head.count(b"\r\n")
    if head.count(b"\n") != ends or head.count(b"\r") != ends:
        raise NotHttp("bare line end")
    if head.translate(None, _HEAD_BYTES):
        raise NotHttp("control character")
    first, *rows = head[:-4].split(b"\r\n")
    opening = _REQUEST.fullmatch(first)
    if opening is None or opening[1] == b"CONNECT":
        raise NotHttp("not a request line")
    if len(rows) > most_lines:
        raise HeadTooLong(most_lines, "lines")
    lines = [_read_line(row) for row in rows]
    if b"".join([name for name, _ in lines]).translate(None, _NAME_BYTES):
        raise NotHttp("not the name of a line")
    special = _special(lines)
    is_old = opening[3] == b"0"
    hosts = len(special.get(b"host", ()))
    if hosts > 1 or not (hosts or is_old):
        raise NotHttp("not one host")
    options = _options(special)
    return RequestHead(
        method=opening[1],
        target=opening[2],
        is_old=is_old,
        lines=lines,
        framing=_request_framing(special, is_old=is_old),
        is_kept_alive=_is_kept(options, is_old=is_old),
        expects_continue=b"expect" in special
        and not is_old
        and _states(special, b"expect", b"100-continue"),
        upgrade=_upgrade(special) if b"upgrade" in options else None,
        letterhead=Letterhead(),
    )


def read_answer(head: bytes, *, method: bytes) -> AnswerHead:
    """Read the head of the answer to a request of this method.

    Raises:
        NotHttp: it is no answer, or its length can be read in two ways.
    """
    text = head.replace(b"\r\n", b"\n")
    # Not by `in`: it takes each needle for a number first, and throws that error away.
    if text.find(b"\n ") >= 0 or text.find(b"\n\t") >= 0:
        text = _FOLD.sub(b" ", text)
    if text.find(b"\r") >= 0 or text.find(b"\0") >= 0:
        raise NotHttp("control character")
    first, *rows = text[:-2].split(b"\n")
    if len(rows) > MAX_LINES:
        raise HeadTooLong(MAX_LINES, "lines")
    # What an upstream says in answer after answer is read once, unless it is endless.
    is_short = len(head) <= _SHORT_BYTES
    read_status = _known_status if is_short else _read_status
    read_line = _known_line if is_short else _read_loose_line
    is_old, status, reason = read_status(first)
    lines: Lines = []
    special: Special = {}
    for row in rows:
        line, low = read_line(row)
        lines.append(line)
        if low in _TOLD_LINES:
            special.setdefault(low, []).append(line[1])
    framing: Framing | None = None
    if method != b"HEAD" and status >= _FIRST_FINAL and status not in _BODYLESS:
        framing = _answer_framing(special)
    is_kept = _is_kept(_options(special), is_old=is_old)
    return AnswerHead(
        status=status,
        reason=reason,
        lines=lines,
        framing=framing,
        is_kept_alive=is_kept and not isinstance(framing, Endless),
        keep_seconds=_keep_seconds(special) if b"keep-alive" in special else None,
        kind=special[b"content-type"][0] if b"content-type" in special else b"",
        codings=codings_named(special.get(b"content-encoding", ())),
    )


def _read_line(row: bytes) -> tuple[bytes, bytes]:
    """Return name and value of a line without its end."""
    name, colon, value = row.partition(b":")
    if not name or not colon:
        raise NotHttp("line without a name")
    return name, value.strip(b" \t")


def _read_loose_line(row: bytes) -> tuple[tuple[bytes, bytes], bytes]:
    """Return an answer's line, and its name in lower case."""
    name, value = _read_line(row)
    # Space before the colon would hide a line from those who look for its name.
    name = name.rstrip(b" \t")
    return (name, value), name.lower()


def _read_status(first: bytes) -> tuple[bool, int, bytes]:
    """Return of an answer's first line whether it is old, its status and reason."""
    opening = _STATUS.fullmatch(first)
    if opening is None:
        raise NotHttp("not a status line")
    return opening[1] == b"0", int(opening[2]), opening[3] or b""


# Of answers only: a request's lines are secrets, which only its own connection keeps.
_known_line = lru_cache(maxsize=_MOST_KNOWN)(_read_loose_line)
_known_status = lru_cache(maxsize=_MOST_KNOWN)(_read_status)


def _special(lines: Lines) -> Special:
    """Return the values of the lines that say how a message is read."""
    found: Special = {}
    for name, value in lines:
        if (low := name.lower()) in FRAMING_LINES:
            if low in found:
                found[low].append(value)
            else:
                found[low] = [value]
    return found


def _options(special: Special) -> frozenset[bytes]:
    values = special.get(b"connection")
    if values is None:
        return frozenset()
    names = b",".join(values).lower().split(b",")
    return frozenset([name.strip(b" \t") for name in names])


def _is_kept(options: frozenset[bytes], *, is_old: bool) -> bool:
    return b"keep-alive" in options if is_old else b"close" not in options


def _keep_seconds(special: Special) -> int | None:
    found = _TIMEOUT.search(b",".join(special[b"keep-alive"]))
    return int(found[1]) if found else None


def _states(special: Special, name: bytes, value: bytes) -> bool:
    return any(each.lower() == value for each in special.get(name, ()))


def _upgrade(special: Special) -> bytes | None:
    return next(iter(special.get(b"upgrade", ())), None)


def _request_framing(special: Special, *, is_old: bool) -> Framing | None:
    lengths = special.get(b"content-length", ())
    codings = special.get(b"transfer-encoding", ())
    if len(lengths) + len(codings) > 1:
        raise NotHttp("length stated more than once")
    if codings:
        if is_old or codings[0].lower() != b"chunked":
            raise NotHttp("unknown transfer coding")
        return Chunked()
    stated = _stated(lengths[0]) if lengths else 0
    return Length(stated) if stated else None


def _answer_framing(special: Special) -> Framing:
    lengths = special.get(b"content-length", ())
    if b"transfer-encoding" in special:
        codings = [each.lower() for each in special[b"transfer-encoding"]]
        if codings == [b"chunked"] and not lengths:
            return Chunked()
        if codings != [b"identity"]:
            raise NotHttp("unknown transfer coding, or a length beside it")
    if not lengths:
        return Endless()
    if len(lengths) > 1 and len(set(lengths)) > 1:
        raise NotHttp("lengths that differ")
    return Length(_stated(lengths[0]))


def _stated(value: bytes) -> int:
    if not value.isdigit() or len(value) > MOST_DIGITS:
        raise NotHttp("not a length")
    return int(value)
