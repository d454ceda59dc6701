"""Addresses as they are written, and the words for one that cannot be had."""

import errno
import socket

import pytest

from deuz_proxy.edge.listening import (
    hold_address,
    join_address,
    listen_failed,
    split_address,
)
from deuz_proxy.errors import ListenFailed


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


def shared(address: tuple[str, int]) -> socket.socket:
    listener = socket.socket()
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    listener.bind(address)
    listener.listen()
    return listener


def test_a_held_address_takes_no_connection_and_several_can_listen_there() -> None:
    address, held = hold_address("127.0.0.1:0")
    place = split_address(address)
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(place, timeout=5)

    with shared(place) as first, shared(place) as second:
        for _ in range(20):
            socket.create_connection(place, timeout=5).close()
        first.setblocking(False)
        second.setblocking(False)
        got = [count_accepted(first), count_accepted(second)]

    assert sum(got) == 20
    for each in held:
        each.close()


def count_accepted(listener: socket.socket) -> int:
    count = 0
    while True:
        try:
            listener.accept()[0].close()
        except BlockingIOError:
            return count
        count += 1


def test_where_somebody_listens_nothing_is_held_also_if_he_would_share() -> None:
    with shared(("127.0.0.1", 0)) as other:
        address = f"127.0.0.1:{other.getsockname()[1]}"

        with pytest.raises(ListenFailed, match=f"^address {address} .* in use$"):
            hold_address(address)


def test_all_addresses_of_a_name_are_held_at_one_port() -> None:
    address, held = hold_address("localhost:0")

    assert {each.getsockname()[1] for each in held} == {split_address(address)[1]}
    for each in held:
        each.close()


def test_a_name_that_leads_nowhere_is_told_with_the_reason() -> None:
    with pytest.raises(ListenFailed, match="name"):
        hold_address("no-such-host.invalid:0")
