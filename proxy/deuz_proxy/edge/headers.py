"""Which header lines cross the proxy.

Rules:
- End-to-end lines cross as received: name, value, order, repetitions.
- Hop-by-hop lines, those that `Connection` names, and framing belong to one hop.
- `x-deuz-*` is addressed to the sidecar and ends here.
"""

from collections.abc import Sequence

Headers = Sequence[tuple[bytes, bytes]]

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
_REQUEST_ONLY = frozenset({b"host", b"expect", b"content-length"})
_OURS = b"x-deuz-"


def request_headers(headers: Headers) -> list[tuple[bytes, bytes]]:
    """Return the lines to send on; the upstream call adds host and length itself."""
    drop = _HOP | _REQUEST_ONLY | _nominated(headers)
    return [
        (name, value)
        for name, value in headers
        if (low := name.lower()) not in drop and not low.startswith(_OURS)
    ]


def response_headers(headers: Headers) -> list[tuple[bytes, bytes]]:
    """Return the lines to give the client; the length stays, framing is ours."""
    drop = _HOP | _nominated(headers)
    return [line for line in headers if line[0].lower() not in drop]


def _nominated(headers: Headers) -> frozenset[bytes]:
    names: set[bytes] = set()
    for name, value in headers:
        if name.lower() == b"connection":
            names.update(part.strip().lower() for part in value.split(b","))
    return frozenset(names)
