"""What a keeper and its worker say to each other, and the socket pair it goes over.

Rules:
- One line each: events as `encoding` writes them, messages behind a `=`.
- The keeper asks, the worker answers; a closed channel means that the other is gone.
- Nobody else has an end of it: what comes is trusted as one's own.
"""

import asyncio
import pickle
from collections.abc import Callable
from typing import cast

import msgspec

from deuz_proxy.config.model import Config

_MARK = b"="


class Begin(msgspec.Struct, frozen=True, tag=True):
    """To the worker, once: serve at this address, with this config.

    `folder` is the keeper's own; if it is killed, the workers remove it.
    """

    config: bytes
    address: str
    folder: str


class Prepare(msgspec.Struct, frozen=True, tag=True):
    """To the worker: build what a new config needs, and answer; nothing changes yet."""

    config: bytes


class Take(msgspec.Struct, frozen=True, tag=True):
    """To the worker: put in force what was prepared, and answer."""


class Drain(msgspec.Struct, frozen=True, tag=True):
    """To the worker: stop accepting, let requests end, then end."""


class Listening(msgspec.Struct, frozen=True, tag=True):
    """To the keeper: requests are accepted."""


class Prepared(msgspec.Struct, frozen=True, tag=True):
    """To the keeper: a new config can be taken."""


class Taken(msgspec.Struct, frozen=True, tag=True):
    """To the keeper: what was prepared is in force for all that comes from now on."""


class Refused(msgspec.Struct, frozen=True, tag=True):
    """To the keeper: it cannot be begun or prepared, and why."""

    reason: str


Message = Begin | Prepare | Take | Drain | Listening | Prepared | Taken | Refused

_encode = msgspec.json.Encoder().encode
_decode: Callable[[bytes], Message] = msgspec.json.Decoder(Message).decode


class Channel(asyncio.Protocol):
    """One end: lines to `take_line` (events), messages to `take`, the end to `lost`."""

    transport: asyncio.Transport

    def __init__(
        self,
        take: Callable[[Message], None],
        lost: Callable[[], None],
        take_line: Callable[[bytes], None] = lambda line: None,
    ) -> None:
        self._take = take
        self._take_line = take_line
        self._lost = lost
        self._rest = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin."""
        self.transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        """Hand over the lines that are whole."""
        *lines, self._rest = (self._rest + data).split(b"\n")
        for line in lines:
            if line.startswith(_MARK):
                self._take(_decode(line[1:]))
            else:
                self._take_line(line)

    def connection_lost(self, exc: Exception | None) -> None:
        """Tell that the other end is gone."""
        self._lost()

    def send(self, message: Message) -> None:
        """Send a message; to one who is gone, nothing happens."""
        if not self.transport.is_closing():
            self.transport.write(_MARK + _encode(message) + b"\n")


def pack_config(config: Config) -> bytes:
    """Return the config as bytes, secrets included: for the channel alone."""
    return pickle.dumps(config)


def unpack_config(packed: bytes) -> Config:
    """Return the config that the keeper packed."""
    config: Config = pickle.loads(packed)  # noqa: S301  # From the keeper alone.
    return config
