import errno
import os
import socket
import ssl

import pytest

from deuz_proxy.edge.proxies import NoWayThrough
from deuz_proxy.edge.reaching import unreachable
from deuz_proxy.errors import UpstreamUnreachable


@pytest.mark.parametrize(
    ("fault", "kind"),
    [
        (ConnectionRefusedError(errno.ECONNREFUSED, "x"), "refused"),
        (socket.gaierror(socket.EAI_NONAME, "x"), "dns"),
        (UnicodeEncodeError("idna", "x", 0, 1, "label too long"), "dns"),
        (ssl.SSLCertVerificationError(1, "x"), "tls"),
        (TimeoutError(), "timeout"),
        (OSError(errno.ECONNREFUSED, "Multiple exceptions"), "refused"),
        (OSError(errno.ENETUNREACH, os.strerror(errno.ENETUNREACH)), "network"),
        (ConnectionResetError(), "network"),
        (NoWayThrough(), "proxy"),
    ],
)
def test_a_fault_of_the_system_has_its_kind(fault: OSError, kind: str) -> None:
    told = unreachable("http://h", fault)

    assert told.kind == kind
    assert str(told) == (
        f"upstream http://h cannot be reached: {UpstreamUnreachable.KINDS[kind]}"
    )


def test_a_fault_that_a_library_wrapped_is_looked_through() -> None:
    wrapped = RuntimeError("of a library")
    wrapped.__cause__ = ConnectionRefusedError()

    assert unreachable("u", wrapped).kind == "refused"


def test_a_chain_that_bites_its_tail_comes_to_an_end() -> None:
    first, second = OSError(), OSError()
    first.__cause__, second.__cause__ = second, first

    assert unreachable("u", first).kind == "network"


def test_without_a_kind_nothing_is_claimed() -> None:
    assert str(UpstreamUnreachable(upstream="u")) == "upstream u cannot be reached"
