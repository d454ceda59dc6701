"""A client made of a socket: it sends the bytes it is given and keeps what it gets."""

import asyncio
import contextlib
import socket
import struct
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from urllib.parse import urlsplit

from deuz_testing.waiting import WAIT_SECONDS


@dataclass
class Answered:
    """One answer as it came in."""

    head: bytes
    body: bytes
    is_whole: bool

    @property
    def status(self) -> int:
        return int(self.head.split(b" ")[1])

    @property
    def lines(self) -> list[bytes]:
        """The header lines, without the framing of this hop."""
        return [
            line
            for line in self.head.rstrip(b"\r\n").split(b"\r\n")[1:]
            if line.split(b":")[0].lower() != b"transfer-encoding"
        ]


@dataclass
class RawClient:
    """One connection to an address."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter

    async def send(self, text: bytes) -> None:
        self.writer.write(text)
        await self.writer.drain()

    async def read_head(self) -> bytes:
        async with asyncio.timeout(WAIT_SECONDS):
            return await self.reader.readuntil(b"\r\n\r\n")

    async def read_chunk(self) -> bytes:
        """Read one chunk of a chunked body; empty at its end."""
        async with asyncio.timeout(WAIT_SECONDS):
            size = int(await self.reader.readline(), 16)
            chunk = await self.reader.readexactly(size)
            await self.reader.readexactly(2)
            return chunk

    async def read_answer(self, *, has_body: bool = True) -> Answered:
        """Read one answer; `is_whole` tells whether its framing was complete."""
        head = await self.read_head()
        low = head.lower()
        if not has_body or b" 204 " in low or b" 304 " in low:
            return Answered(head, b"", is_whole=True)
        body = b""
        try:
            if b"transfer-encoding: chunked" in low:
                while chunk := await self.read_chunk():
                    body += chunk
            elif b"content-length:" in low:
                size = int(low.split(b"content-length:")[1].split(b"\r\n")[0])
                while len(body) < size:
                    got = await self._some()
                    if not got:
                        return Answered(head, body, is_whole=False)
                    body += got
            else:
                body = await self.read_to_end()
        except (asyncio.IncompleteReadError, ConnectionError, ValueError):
            return Answered(head, body, is_whole=False)
        return Answered(head, body, is_whole=True)

    async def read_to_end(self) -> bytes:
        async with asyncio.timeout(WAIT_SECONDS):
            return await self.reader.read()

    async def _some(self) -> bytes:
        async with asyncio.timeout(WAIT_SECONDS):
            return await self.reader.read(65_536)

    def leave(self) -> None:
        """End the connection in the polite way."""
        self.writer.close()

    def reset(self) -> None:
        """End the connection with a reset."""
        sock = self.writer.get_extra_info("socket")
        linger = struct.pack("ii", 1, 0)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
        self.writer.transport.abort()


@asynccontextmanager
async def raw_client(url: str) -> AsyncIterator[RawClient]:
    """Connect for the life of the block."""
    at = urlsplit(url)
    reader, writer = await asyncio.open_connection(at.hostname, at.port, limit=2**24)
    try:
        yield RawClient(reader, writer)
    finally:
        writer.close()
        with contextlib.suppress(ConnectionError):
            await writer.wait_closed()


def post(path: str, body: bytes, *lines: bytes) -> bytes:
    """Return a POST with a body of stated length."""
    return request("POST", path, body, *lines)


def request(method: str, path: str, body: bytes | None, *lines: bytes) -> bytes:
    """Return a request; without a body it has no length either."""
    framing = [] if body is None else [b"Content-Length: %d" % len(body)]
    first = f"{method} {path} HTTP/1.1".encode()
    head = b"\r\n".join([first, b"Host: sidecar", *lines, *framing])
    return head + b"\r\n\r\n" + (body or b"")


async def ask(url: str, text: bytes, *, has_body: bool = True) -> Answered:
    """Send one request on a connection of its own and return the answer."""
    async with raw_client(url) as client:
        await client.send(text)
        return await client.read_answer(has_body=has_body)
