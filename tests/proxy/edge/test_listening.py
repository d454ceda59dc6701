"""Addresses as they are written, and the words for one that cannot be had."""

import errno
import socket

import pytest

from deuz_proxy.edge.listening import join_address, listen_failed, split_address


@pytest.mark.parametrize(
    ("address", "parts"),
    [("127.0.0.1:0", ("127.0.0.1", 0)), ("[::1]:4141", ("::1", 4141))],
)
def test_an_address_is_host_and_port(address: str, parts: tuple[str, int]) -> None:
    assert split_address(address) == parts


def test_the_port_that_was_bound_takes_the_place_of_the_one_asked_for() -> None:
    assert join_address("[::1]:0", 4141) == "[::1]:4141"


@pytest.mark.parametrize(
    ("fault", "words"),
    [
        (OSError(errno.EADDRINUSE, "long words of a loop"), "address already in use"),
        (socket.gaierror(-2, "Name or service not known"), "name or service not known"),
        (OSError(), "oserror"),
    ],
)
def test_the_reason_is_the_systems_own(fault: OSError, words: str) -> None:
    failed = listen_failed(fault, name="admin", address="h:1")

    assert str(failed) == f"admin address h:1 cannot be listened on: {words}"
