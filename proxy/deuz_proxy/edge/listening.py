"""Addresses as they are written, and why one cannot be listened on."""

import os
import socket

from deuz_proxy.errors import ListenFailed


def split_address(address: str) -> tuple[str, int]:
    """Return host and port of `host:port`; brackets around a host of IPv6 go."""
    host, _, port = address.rpartition(":")
    return host.strip("[]"), int(port)


def join_address(address: str, port: int) -> str:
    """Return the address with the port that was really bound."""
    return f"{address.rpartition(':')[0]}:{port}"


def listen_failed(fault: OSError, *, name: str, address: str) -> ListenFailed:
    """Return the error that tells why `address` cannot be listened on."""
    return ListenFailed(name=name, address=address, reason=listen_words(fault))


def listen_words(fault: OSError) -> str:
    """Return why an address cannot be listened on; the loop's own words repeat it."""
    is_name = isinstance(fault, socket.gaierror) or not fault.errno
    words = fault.strerror if is_name else os.strerror(fault.errno or 0)
    return (words or type(fault).__name__).lower()


def hold_address(address: str) -> tuple[str, list[socket.socket]]:
    """Keep an address for processes that share it, without accepting there.

    Returns:
        The address, with the port that was taken, and the sockets that keep it.

    Raises:
        ListenFailed: somebody listens there, or it cannot be had.
    """
    held: list[socket.socket] = []
    host, port = split_address(address)
    try:
        for found in socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        ):
            place = (found[4][0], port, *found[4][2:])
            if port:
                # Who shares would share with anybody, another sidecar for one.
                _bind(found[0], place, is_shared=False).close()
            held.append(_bind(found[0], place, is_shared=True))
            # All names of a host are held at one port, also where any was asked for.
            port = held[-1].getsockname()[1]
    except OSError as fault:
        for each in held:
            each.close()
        raise listen_failed(fault, name="listen", address=address) from fault
    return join_address(address, port), held


def _bind(family: int, place: tuple[object, ...], *, is_shared: bool) -> socket.socket:
    bound = socket.socket(family, socket.SOCK_STREAM)
    try:
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if is_shared:
            bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        if family == socket.AF_INET6:
            bound.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        bound.bind(place)
    except OSError:
        bound.close()
        raise
    return bound
