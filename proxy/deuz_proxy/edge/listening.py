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
