"""A forward proxy made of sockets: whole addresses, tunnels, a password if it asks."""

import asyncio
import contextlib
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from urllib.parse import urlsplit

Pair = tuple[asyncio.StreamReader, asyncio.StreamWriter]


@dataclass
class ForwardProxy:
    """A listening proxy, and the heads that it was asked with."""

    refuses: bool = False
    # Where a name that only the proxy knows really is.
    known: dict[str, str] = field(default_factory=dict)
    port: int = 0
    heads: list[bytes] = field(default_factory=list)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def line(self, name: bytes) -> list[bytes]:
        """Return the values of a header in the newest head."""
        pairs = [each.partition(b": ") for each in self.heads[-1].split(b"\r\n")]
        return [value for key, _, value in pairs if key.lower() == name]


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(ConnectionError):
        while data := await reader.read(65_536):
            writer.write(data)
            await writer.drain()
    writer.close()


async def _message(reader: asyncio.StreamReader) -> tuple[bytes, bytes]:
    """Read a head and a body of stated length."""
    head = await reader.readuntil(b"\r\n\r\n")
    length = re.search(rb"content-length: (\d+)", head.lower())
    return head, await reader.readexactly(int(length[1]) if length else 0)


async def _serve(proxy: ForwardProxy, here: Pair) -> None:
    reader, writer = here
    head, body = await _message(reader)
    proxy.heads.append(head)
    method, target, _ = head.split(b" ", 2)
    if proxy.refuses:
        writer.write(b"HTTP/1.1 407 Who?\r\nContent-Length: 0\r\n\r\n")
        return
    if method == b"CONNECT":
        host, _, port = target.decode().rpartition(":")
        there = await asyncio.open_connection(host, int(port))
        writer.write(b"HTTP/1.1 200 Go\r\nVia: us\r\n\r\n")
    else:
        at = urlsplit(target.decode())
        place = f"{at.scheme}://{at.netloc}".encode()
        at = urlsplit(proxy.known.get(at.netloc, target.decode()))
        there = await asyncio.open_connection(at.hostname, at.port)
        kept = re.sub(rb"(?i)proxy-authorization:.*?\r\n", b"", head)
        there[1].write(kept.replace(b" " + place, b" ", 1) + body)
        writer.write(b"".join(await _message(there[0])))
        there[1].close()
        await _serve(proxy, here)
        return
    try:
        await asyncio.gather(_copy(reader, there[1]), _copy(there[0], writer))
    finally:
        there[1].close()


@asynccontextmanager
async def forward_proxy(*, refuses: bool = False) -> AsyncIterator[ForwardProxy]:
    """Listen on a free port for the life of the block."""
    proxy = ForwardProxy(refuses)
    tasks: set[asyncio.Task[None]] = set()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        tasks.add(task)
        ends = (asyncio.CancelledError, asyncio.IncompleteReadError, OSError)
        with contextlib.suppress(*ends):
            await _serve(proxy, (reader, writer))
        writer.close()
        tasks.discard(task)

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    proxy.port = server.sockets[0].getsockname()[1]
    try:
        yield proxy
    finally:
        server.close()
        for task in list(tasks):
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
