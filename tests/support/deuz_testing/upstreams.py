"""An upstream made of a socket: it keeps the very bytes it got, and says any bytes.

Rules:
- One `answer` for all requests of a connection; without one, `OK` is answered.
- What a test reads here are raw bytes: nothing between the wire and the test.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from deuz_testing.waiting import WAIT_SECONDS

OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"


@dataclass
class Got:
    """One request as it came in, and the way to answer it."""

    head: bytes
    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter
    body: bytes = b""
    is_whole: bool = False
    gone: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def target(self) -> bytes:
        return self.head.split(b"\r\n", 1)[0].split(b" ")[1]

    @property
    def method(self) -> bytes:
        return self.head.split(b" ", 1)[0]

    @property
    def lines(self) -> list[bytes]:
        """The header lines as they were sent, without the framing of this hop."""
        return [
            line
            for line in self.head.rstrip(b"\r\n").split(b"\r\n")[1:]
            if line.split(b":")[0].lower()
            not in {b"host", b"content-length", b"transfer-encoding"}
        ]

    def header(self, name: bytes) -> list[bytes]:
        lines = self.head.split(b"\r\n")[1:]
        pairs = [line.partition(b":") for line in lines]
        return [v.strip() for k, _, v in pairs if k.lower() == name]

    async def say(self, text: bytes) -> None:
        self.writer.write(text)
        await self.writer.drain()

    async def read_body(self) -> bytes:
        """Read the body to its end, whatever its framing; chunks are joined."""
        length = self.header(b"content-length")
        if length:
            self.body = await self.reader.readexactly(int(length[0]))
        elif self.header(b"transfer-encoding"):
            while size := int((await self.reader.readline()).split(b";")[0], 16):
                self.body += await self.reader.readexactly(size)
                await self.reader.readexactly(2)
            await self.reader.readline()
        self.is_whole = True
        return self.body

    async def until_gone(self) -> None:
        """Return when the other side has ended the connection."""
        async with asyncio.timeout(WAIT_SECONDS):
            with contextlib.suppress(ConnectionError):
                while await self.reader.read(65_536):
                    pass
        self.gone.set()


Answer = Callable[[Got], Awaitable[None]]


@dataclass
class RawUpstream:
    """A listening socket and all that was asked of it."""

    url: str = ""
    requests: list[Got] = field(default_factory=list)
    arrived: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def last(self) -> Got:
        return self.requests[-1]

    async def until_asked(self, count: int = 1) -> Got:
        """Return the newest request once so many have come."""
        async with asyncio.timeout(WAIT_SECONDS):
            while len(self.requests) < count:
                self.arrived.clear()
                await self.arrived.wait()
        return self.last


async def answer_ok(got: Got) -> None:
    await got.read_body()
    await got.say(OK)


def answer_with(text: bytes, *, closes: bool = False) -> Answer:
    """Return an answer that reads the body and then says these bytes."""

    async def answer(got: Got) -> None:
        await got.read_body()
        await got.say(text)
        if closes:
            got.writer.close()

    return answer


@asynccontextmanager
async def raw_upstream(
    answer: Answer = answer_ok, *, host: str = "127.0.0.1"
) -> AsyncIterator[RawUpstream]:
    """Listen on a free port for the life of the block."""
    upstream = RawUpstream()
    tasks: set[asyncio.Task[None]] = set()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        tasks.add(task)
        # A stream's task that is cancelled is an error to its loop.
        with contextlib.suppress(asyncio.CancelledError):
            await _serve(upstream, answer, reader, writer)
        tasks.discard(task)

    server = await asyncio.start_server(serve, host, 0, limit=2**20)
    upstream.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    try:
        yield upstream
    finally:
        server.close()
        for task in list(tasks):
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await server.wait_closed()


async def _serve(
    upstream: RawUpstream,
    answer: Answer,
    reader: asyncio.StreamReader,
    writer: asyncio.StreamWriter,
) -> None:
    ends = (ConnectionError, asyncio.IncompleteReadError, TimeoutError)
    try:
        with contextlib.suppress(*ends):
            while not writer.is_closing():
                head = await reader.readuntil(b"\r\n\r\n")
                got = Got(head, reader, writer)
                upstream.requests.append(got)
                upstream.arrived.set()
                await answer(got)
    finally:
        writer.close()
