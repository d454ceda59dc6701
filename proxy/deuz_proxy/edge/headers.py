"""Which header lines cross the proxy.

Rules:
- End-to-end lines cross as received: name, value, order, repetitions.
- Lines of this hop's own take the place of the client's, in its spelling.
- Hop-by-hop lines, those that `Connection` names, and framing belong to one hop.
- `x-deuz-*` is addressed to the sidecar and ends here.
"""

from collections.abc import Mapping, Sequence

Headers = Sequence[tuple[bytes, bytes]]
Lines = list[tuple[bytes, bytes]]
Own = Mapping[bytes, bytes]

NOTHING_OWN: Own = {}
_CONNECTION = b"connection"

_HOP = frozenset(
    {
        b"connection",
        b"keep-alive",
        b"proxy-connection",
        b"te",
        b"trailer",
        b"transfer-encoding",
        b"upgrade",
    }
)
_DROPPED = _HOP | {b"host", b"expect", b"content-length"}
_OURS = b"x-deuz-"


def request_headers(headers: Headers, own: Own = NOTHING_OWN) -> Lines:
    """Return the lines to send on, with this hop's `own` where the client's stood.

    `own` are values by lower-case name; what the client did not send stands at an end.
    """
    names = [name.lower() for name, _ in headers]
    named = _nominated(headers) if _CONNECTION in names else ()
    places = dict(own)
    lines: Lines = []
    for line, low in zip(headers, names, strict=True):
        if low in places:
            lines.append((line[0], places.pop(low)))
        elif not (low in _DROPPED or low in named or low.startswith(_OURS)):
            lines.append(line)
    if not places:
        return lines
    missing = [(name.title(), value) for name, value in places.items()]
    # A head begins with its host where the client did not say otherwise.
    return [*missing, *lines] if b"host" in places else [*lines, *missing]


def response_headers(headers: Headers) -> Lines:
    """Return the lines to give the client; the length stays, framing is ours."""
    names = [name.lower() for name, _ in headers]
    if _HOP.isdisjoint(names):
        return list(headers)
    drop = _HOP | _nominated(headers)
    return [line for line in headers if line[0].lower() not in drop]


def joined_head(first: bytes, lines: Lines) -> bytes:
    """Return a head as it is sent, from its first line and the others."""
    return b"\r\n".join([first, *map(b": ".join, lines), b"\r\n"])


def _nominated(headers: Headers) -> frozenset[bytes]:
    values = [value for name, value in headers if name.lower() == _CONNECTION]
    return frozenset([part.strip().lower() for v in values for part in v.split(b",")])
