"""Stand-ins for both ends of the line: they keep what they get, say what is given."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from typing import Any

from deuz_proxy.calls import Body, Headers, Letterhead, header
from deuz_proxy.errors import SidecarError
from deuz_proxy.observe.inflate import content_codings


@dataclass(frozen=True)
class Said:
    """What an upstream answers: a status, lines, and chunks; a fault ends them.

    One that is here has a single chunk, which can be taken without waiting.
    """

    status: int = 200
    chunks: tuple[bytes, ...] = ()
    headers: Headers = ((b"Content-Type", b"application/json"),)
    fault: SidecarError | None = None
    is_here: bool = False


@dataclass
class ScriptedReply:
    """An answer of a scripted upstream; it knows whether it was ended."""

    said: Said
    reason: str = "Because"
    is_closed: bool = False
    # What chunks are offered to first.
    take: Callable[[bytes], bool] | None = None

    @property
    def status(self) -> int:
        return self.said.status

    @property
    def headers(self) -> Headers:
        return self.said.headers

    @property
    def kind(self) -> bytes:
        return header(self.said.headers, b"content-type") or b""

    @property
    def codings(self) -> tuple[bytes, ...]:
        return content_codings(self.said.headers)

    def body_here(self) -> bytes | None:
        return self.said.chunks[0] if self.said.is_here else None

    async def chunks(self) -> AsyncIterator[bytes]:
        for chunk in self.said.chunks:
            if self.take is None or not self.take(chunk):
                yield chunk
        if self.said.fault is not None:
            raise self.said.fault

    def offer(self, take: Callable[[bytes], bool]) -> None:
        self.take = take

    async def send(self, piece: bytes) -> None:
        raise AssertionError("no scripted upstream switches")

    def close(self) -> None:
        self.is_closed = True


@dataclass(frozen=True)
class Asked:
    """What an upstream was asked."""

    method: str
    base: str
    path: str
    headers: Headers
    body: bytes

    @property
    def payload(self) -> Any:
        return json.loads(self.body)


@dataclass
class ScriptedUpstreams:
    """Hands each request to the conversation and waits for its answer."""

    asked: asyncio.Queue[Asked] = field(default_factory=asyncio.Queue)
    answers: asyncio.Queue[Said | SidecarError] = field(default_factory=asyncio.Queue)
    replies: list[ScriptedReply] = field(default_factory=list)

    async def send(
        self,
        *,
        method: str,
        base: str,
        path: str,
        headers: Headers,
        body: Body | AsyncIterator[bytes] | None,
        upgrade: bytes | None = None,
        inform: Callable[[int, bytes, Headers], None] | None = None,
        letterhead: Letterhead | None = None,
    ) -> ScriptedReply:
        if isinstance(body, AsyncIterator):
            body = b"".join([piece async for piece in body])
        await self.asked.put(Asked(method, base, path, headers, bytes(body or b"")))
        said = await self.answers.get()
        if isinstance(said, SidecarError):
            raise said
        self.replies.append(ScriptedReply(said))
        return self.replies[-1]


@dataclass
class GivenRequest:
    """A request as a test gives it; `Incoming` for the line."""

    body: bytes
    target: str = "/v1/messages"
    headers: Headers = ((b"x-api-key", b"key-1"),)
    method: str = "POST"
    upgrade: bytes | None = None
    letterhead: Letterhead = field(default_factory=Letterhead)

    @property
    def has_body(self) -> bool:
        return bool(self.body)

    def body_here(self, *, limit_bytes: int) -> bytes | None:
        return self.body

    async def read_body(self, *, limit_bytes: int) -> bytes:
        return self.body

    async def stream_body(self) -> AsyncIterator[bytes]:
        yield self.body

    def inform(self, status: int, reason: bytes, headers: Headers) -> None:
        raise AssertionError("no scripted upstream has interim answers")


@dataclass
class GivenClient:
    """A client that keeps what it got."""

    status: int | None = None
    reason: str = ""
    headers: Headers = ()
    chunks: list[bytes] = field(default_factory=list)
    is_finished: bool = False
    is_aborted: bool = False
    leaves_at: int | None = None
    is_slow: bool = False

    @property
    def has_started(self) -> bool:
        return self.status is not None

    @property
    def body(self) -> bytes:
        return b"".join(self.chunks)

    def start(self, status: int, reason: str, headers: Headers) -> None:
        self.status, self.reason, self.headers = status, reason, headers

    def start_with(
        self, status: int, reason: str, headers: Headers, first: bytes
    ) -> bool:
        self.start(status, reason, headers)
        return self.write(first)

    async def switch(self, reason: str, headers: Headers) -> AsyncIterator[bytes]:
        raise AssertionError("no scripted upstream switches")

    def write(self, chunk: bytes) -> bool:
        if self.leaves_at == len(self.chunks):
            raise ConnectionResetError
        self.chunks.append(chunk)
        return self.is_slow

    async def drain(self) -> None:
        raise AssertionError("no given client reads slowly")

    def finish(self) -> None:
        self.is_finished = True

    def abort(self) -> None:
        self.is_aborted = True
