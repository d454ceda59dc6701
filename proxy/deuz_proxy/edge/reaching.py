"""Why no connection to an upstream could be made, told from the fault's kind alone.

Rules:
- A kind is a word of `UpstreamUnreachable.KINDS`; the fault's own text, which may hold
  names of the network, is not passed on.
- Client libraries wrap what the system said: causes are looked through too.
"""

import socket
import ssl
from collections.abc import Iterator

from deuz_proxy.edge.proxies import NoWayThrough
from deuz_proxy.errors import UpstreamUnreachable

# What is asked first wins: a resolver's fault is an OSError as well.
_KINDS: tuple[
    tuple[type[BaseException] | tuple[type[BaseException], ...], str], ...
] = (
    (NoWayThrough, "proxy"),
    ((socket.gaierror, UnicodeError), "dns"),
    (ssl.SSLError, "tls"),
    (TimeoutError, "timeout"),
    (ConnectionRefusedError, "refused"),
)


def unreachable(upstream: str, fault: BaseException) -> UpstreamUnreachable:
    """Return the error for a connection that could not be made."""
    return UpstreamUnreachable(upstream=upstream, kind=_kind(fault))


def _kind(fault: BaseException) -> str:
    causes = tuple(_causes(fault))
    for types, word in _KINDS:
        if any(isinstance(cause, types) for cause in causes):
            return word
    return "network"


def _causes(fault: BaseException) -> Iterator[BaseException]:
    """Yield the fault and what it was made from; a chain is never longer than this."""
    current: BaseException | None = fault
    for _ in range(8):
        if current is None:
            return
        yield current
        current = current.__cause__ or current.__context__
