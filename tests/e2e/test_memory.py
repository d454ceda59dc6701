"""Bodies of 64 MB and the memory of the process that hands them on.

The bounds are generous: they find a copy of a body, not a kilobyte. Measured when they
were set, above the idle process: streamed 1 to 9 MB, read by one client 160 MB, read by
four at once 400 MB.
"""

import asyncio
import json
import re
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from deuz_testing.sidecar_process import Sidecar, running_sidecar
from deuz_testing.upstreams import Answer, Got, raw_upstream

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="needs /proc"),
]

MB = 2**20
SIZE = 63 * MB
PIECE = b"x" * 2**18
SMALL = b'{"model":"m","max_tokens":1,"messages":[]}'
_LENGTH = re.compile(rb"content-length: (\d+)", re.IGNORECASE)


def long_body() -> bytes:
    """Return a conversation of many turns, as long as a body may be."""
    text = "w " * 5000
    roles = ("user", "assistant")
    turns = [
        {"role": roles[number % 2], "content": text}
        for number in range(SIZE // len(text) // 2 * 2 + 1)
    ]
    return json.dumps({"model": "m", "max_tokens": 1, "messages": turns}).encode()


def peak_mb(side: Sidecar) -> float:
    """Return the most memory that the process has ever had."""
    status = Path(f"/proc/{side.process.pid}/status").read_text()
    return int(status.split("VmHWM:")[1].split()[0]) / 1024


async def pass_by(reader: asyncio.StreamReader, head: bytes) -> None:
    """Read a body and keep nothing of it."""
    length = _LENGTH.search(head)
    left = int(length[1]) if length else 0
    while left:
        left -= len(await reader.read(min(left, 2**18)))


def saying(size: int) -> Answer:
    """Return an answer of this length, made as it is sent."""

    async def answer(got: Got) -> None:
        await pass_by(got.reader, got.head)
        await got.say(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % size)
        for _ in range(size // len(PIECE)):
            await got.say(PIECE)

    return answer


async def ask(side: Sidecar, body: bytes) -> None:
    at = urlsplit(side.url)
    reader, writer = await asyncio.open_connection(at.hostname, at.port)
    head = b"POST /v1/messages HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n\r\n"
    writer.write(head % len(body))
    for start in range(0, len(body), len(PIECE)):
        writer.write(body[start : start + len(PIECE)])
        await writer.drain()
    await pass_by(reader, await reader.readuntil(b"\r\n\r\n"))
    writer.close()
    await writer.wait_closed()


@dataclass(frozen=True)
class Load:
    """Clients at once, the megabytes each sends and gets, and what that may take."""

    mode: str
    clients: int
    request_mb: int
    answer_mb: int
    bound_mb: float


@pytest.mark.parametrize(
    "load",
    [
        Load("off", 4, 64, 0, 32),
        Load("off", 4, 0, 64, 64),
        Load("observe", 4, 0, 64, 64),
        Load("observe", 1, 64, 0, 240),
        Load("observe", 4, 64, 0, 480),
    ],
    ids=repr,
)
async def test_bodies_are_held_once_where_they_are_read_and_else_not_at_all(
    tmp_path: Path, load: Load
) -> None:
    body = long_body() if load.request_mb else SMALL
    async with raw_upstream(saying(load.answer_mb * MB)) as upstream:
        upstreams = {"anthropic": {"url": upstream.url, "wire": "anthropic"}}
        routes = [{"path": "/v1/messages", "mode": load.mode}]
        config = json.dumps({"upstreams": upstreams, "routes": routes})
        with running_sidecar(tmp_path, config) as side:
            await ask(side, SMALL)
            before = peak_mb(side)
            async with asyncio.timeout(60):
                await asyncio.gather(*(ask(side, body) for _ in range(load.clients)))
            taken = peak_mb(side) - before

    assert taken < load.bound_mb
