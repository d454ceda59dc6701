"""Thousands of aborted requests through the whole process leave nothing behind.

Rules:
- The sidecar is a process of its own: what it keeps is what /proc says of it.
- `DEUZ_ABORTED_REQUESTS` asks for more than CI has time for; 10,000 are meant to pass.
"""

import asyncio
import contextlib
import json
import os
import socket
import struct
import urllib.request
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from prometheus_client.parser import text_string_to_metric_families

from deuz_testing.bodies import anthropic_body, user
from deuz_testing.raw_client import ask, post, request
from deuz_testing.sidecar_process import Sidecar, running_sidecar
from deuz_testing.upstreams import Got, raw_upstream
from deuz_testing.waiting import until

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="needs /proc"),
]

COUNT = int(os.environ.get("DEUZ_ABORTED_REQUESTS", "2000"))
BATCH = 100
MOST_GROWTH_MB = 24
RESET = struct.pack("ii", 1, 0)
BODY = anthropic_body([user("w " * 2000)], stream=True)
EVENT = b'data: {"type":"content_block_delta","delta":{"text":"a"}}\n\n'
STREAM = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n"
WHOLE = post("/v1/messages", BODY)
TEXTS = [
    WHOLE,
    WHOLE[:-100],
    post("/v1/chat/completions", BODY),
    post("/v1/files", b"x" * 50_000),
    post("/v1/files", b"x" * 50_000)[:-100],
    request("GET", "/v1/wait", None),
    request("GET", "/v1/wait", None)[:-3],
    b"nonsense\r\n\r\n",
]


async def answer(got: Got) -> None:
    if got.target == b"/v1/messages":
        await got.read_body()
        await got.say(STREAM + EVENT)
    await got.until_gone()


async def abort_some(url: str, count: int) -> None:
    """Connect, send and leave in different phases, half of them by a reset."""
    at, loop = urlsplit(url), asyncio.get_running_loop()
    socks = []
    for number in range(count):
        sock = socket.socket()
        sock.setblocking(False)
        await loop.sock_connect(sock, (str(at.hostname), at.port or 0))
        await loop.sock_sendall(sock, TEXTS[number % len(TEXTS)])
        socks.append(sock)
    for number, sock in enumerate(socks):
        if number % 25 == 0:
            await asyncio.sleep(0.01)
        if number % 2:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
        sock.close()


def in_flight(side: Sidecar) -> float:
    with urllib.request.urlopen(side.admin + "/metrics", timeout=30) as reply:
        text = reply.read().decode()
    return sum(
        sample.value
        for family in text_string_to_metric_families(text)
        if family.name == "deuz_requests_in_flight"
        for sample in family.samples
    )


def open_sockets(side: Sidecar) -> int:
    count = 0
    for entry in Path(f"/proc/{side.process.pid}/fd").iterdir():
        # What is closed between the list and the look is not open.
        with contextlib.suppress(FileNotFoundError):
            count += "socket:" in os.readlink(entry)
    return count


def resident_mb(side: Sidecar) -> float:
    status = Path(f"/proc/{side.process.pid}/status").read_text()
    return int(status.split("VmRSS:")[1].split()[0]) / 1024


async def test_thousands_of_aborted_requests_leave_no_socket_and_no_memory(
    tmp_path: Path,
) -> None:
    async with raw_upstream(answer) as upstream:
        config = {
            "upstreams": {
                name: {"url": upstream.url, "wire": name}
                for name in ("anthropic", "openai")
            },
            "routes": [{"path": "/v1/messages", "mode": "compile"}],
        }
        with running_sidecar(tmp_path, json.dumps(config)) as side:
            await until(lambda: in_flight(side) == 0)
            sockets = open_sockets(side)
            for _ in range(5):
                await abort_some(side.url, BATCH)
            await until(lambda: in_flight(side) == 0)
            await until(lambda: open_sockets(side) <= sockets + 2)
            before = resident_mb(side)

            for _ in range(COUNT // BATCH):
                await abort_some(side.url, BATCH)
            await until(lambda: in_flight(side) == 0, 60)
            await until(lambda: open_sockets(side) <= sockets + 2, 60)
            growth = resident_mb(side) - before

            assert (await ask(side.url, b"x\r\n\r\n")).status == 400
    assert growth < MOST_GROWTH_MB
