"""What accepted connections may ask of us: time, heads, how many, how much at once."""

from dataclasses import dataclass

from deuz_proxy.edge.http1_framing import NotHttp
from deuz_proxy.edge.http1_wire import MAX_HEAD_BYTES, MAX_LINES, HeadTooLong
from deuz_proxy.errors import HeadTooLarge, RequestMalformed, SidecarError

# All connections are read into one place in turn, and what was read is taken from there
# at once. A body that is here whole with its head needs no place of its own.
DESK_BYTES = 2**18


@dataclass(frozen=True, slots=True)
class Bounds:
    """How long connections may be silent, how long heads may be, how many of both."""

    # Above what clients' pools keep a connection for: who closes first should be they.
    idle_seconds: float = 3600.0
    # From a connection's first byte, or a head's, to the head's end.
    head_seconds: float = 60.0
    # Between two pieces of a request's body, while nothing was answered yet.
    body_seconds: float = 300.0
    connections: int = 10_000
    head_bytes: int = MAX_HEAD_BYTES
    head_lines: int = MAX_LINES


def refusal_of(fault: NotHttp) -> SidecarError:
    """Return what a client is told of a head that cannot be served."""
    if isinstance(fault, HeadTooLong):
        return HeadTooLarge(limit=fault.limit, unit=fault.unit)
    return RequestMalformed()
