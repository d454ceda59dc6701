"""Both own HTTP/1.1 halves back to back: bytes, many clients, and no remains."""

import asyncio
import gc
import os
import random
import socket
import struct
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from deuz_proxy.edge.http1_call import Http1Client, Http1Incoming
from deuz_proxy.edge.http1_server import Http1Server, make_http1_server
from deuz_proxy.edge.http1_upstreams import Http1Upstreams
from deuz_proxy.errors import SidecarError
from deuz_testing.raw_client import ask, post, raw_client, request
from deuz_testing.upstreams import Answer, Got, RawUpstream, answer_ok, raw_upstream
from deuz_testing.waiting import until

pytestmark = pytest.mark.e2e
ON_BOTH_LOOPS = True

RESET = struct.pack("ii", 1, 0)
CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"


class Relay:
    """A pass-through: what is relayed is all it does."""

    def __init__(self, upstream: RawUpstream, upstreams: Http1Upstreams) -> None:
        self._upstream = upstream
        self.upstreams = upstreams
        self.server: Http1Server
        self.url = ""
        self.in_flight = 0

    async def __call__(self, incoming: Http1Incoming, client: Http1Client) -> None:
        self.in_flight += 1
        try:
            await self._relay(incoming, client)
        except (SidecarError, OSError):
            client.abort()
        finally:
            self.in_flight -= 1

    async def _relay(self, incoming: Http1Incoming, client: Http1Client) -> None:
        is_whole = incoming.target.startswith("/whole")
        body = None
        if incoming.has_body:
            stream = incoming.stream_body()
            limit = 2**27
            body = await incoming.read_body(limit_bytes=limit) if is_whole else stream
        reply = await self.upstreams.send(
            method=incoming.method,
            base=self._upstream.url,
            path=incoming.target,
            headers=incoming.headers,
            body=body,
        )
        try:
            client.start(reply.status, reply.reason, reply.headers)
            async for chunk in reply.chunks():
                client.write(chunk)
                await client.drain()
            client.finish()
        finally:
            reply.close()


@asynccontextmanager
async def between(answer: Answer) -> AsyncIterator[tuple[RawUpstream, Relay]]:
    async with raw_upstream(answer) as upstream:
        upstreams = await Http1Upstreams(connect_seconds=30, idle_seconds=30).open()
        relay = Relay(upstream, upstreams)
        relay.server = await make_http1_server(relay)
        host, port = await relay.server.listen("127.0.0.1", 0)
        relay.url = f"http://{host}:{port}"
        try:
            yield upstream, relay
        finally:
            await relay.server.close(grace_seconds=0.5)
            await upstreams.close()


async def echo(got: Got) -> None:
    """Send the body back as it came, with its lines."""
    body = await got.read_body()
    lines = b"".join(line + b"\r\n" for line in got.lines)
    head = b"HTTP/1.1 200 Echo\r\n%bContent-Length: %d\r\n\r\n"
    await got.say(head % (lines, len(body)) + body)


LINES = [b"X-A: 1", b"x-a: 2", b"Set-Cookie: a=1", b"set-cookie: b"]


@pytest.mark.parametrize("path", ["/whole", "/streamed"])
@pytest.mark.parametrize("length", [0, 1, 16_383, 16_384, 262_144, 3_000_001])
async def test_bodies_of_every_length_come_back_with_their_lines(
    path: str, length: int
) -> None:
    body = random.Random(length).randbytes(length)
    async with between(echo) as (_, relay), raw_client(relay.url) as client:
        for _number in range(2):
            await client.send(post(path, body, *LINES))
            answered = await client.read_answer()

            assert answered.head.startswith(b"HTTP/1.1 200 Echo\r\n")
            assert answered.lines[:-1] == LINES
            assert answered.body == body


@pytest.mark.parametrize("path", ["/whole", "/streamed"])
async def test_an_upload_in_any_chunks_arrives_as_one_body(path: str) -> None:
    rng = random.Random(path)
    body = rng.randbytes(500_000)
    text, at = request("PUT", path, None, b"Transfer-Encoding: chunked"), 0
    while at < len(body):
        piece = body[at : at + rng.choice((1, 7, 1000, 40_000))]
        text += b"%x;e=1\r\n%b\r\n" % (len(piece), piece)
        at += len(piece)
    text += b"0\r\nX-Trailer: t\r\n\r\n"
    async with between(echo) as (upstream, relay), raw_client(relay.url) as client:
        for start in range(0, len(text), 77_777):
            await client.send(text[start : start + 77_777])
            await asyncio.sleep(0)
        answered = await client.read_answer()

        assert upstream.last.body == body
        framing = b"transfer-encoding" if path == "/streamed" else b"content-length"
        assert upstream.last.header(framing)
    assert answered.body == body


async def test_hundreds_of_clients_share_a_few_connections_and_each_gets_its_own() -> (
    None
):
    async def one(number: int) -> None:
        async with raw_client(relay.url) as client:
            for turn in range(3):
                body = b"%d of %d" % (turn, number)
                await client.send(post("/whole", body))
                assert (await client.read_answer()).body == body

    async with between(echo) as (upstream, relay):
        await asyncio.gather(*(one(number) for number in range(300)))

        assert len(upstream.requests) == 900
        assert len({id(got.writer) for got in upstream.requests}) <= 300
        assert relay.in_flight == 0


async def test_upstreams_that_close_behind_each_answer_are_no_clients_problem() -> None:
    async def answer(got: Got) -> None:
        await answer_ok(got)
        got.writer.close()

    async with between(answer) as (upstream, relay), raw_client(relay.url) as client:
        for _ in range(50):
            await client.send(post("/whole", b"x"))
            assert (await client.read_answer()).body == b"ok"
            await asyncio.sleep(0.001)

        assert len(upstream.requests) == 50


def open_files() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


@pytest.mark.skipif(not os.path.isdir("/proc/self/fd"), reason="needs /proc")
async def test_ten_thousand_aborted_requests_leave_nothing_behind() -> None:
    async def answer(got: Got) -> None:
        if got.target == b"/streamed":
            await got.read_body()
            await got.say(CHUNKED + b"3\r\nabc\r\n")
        await got.until_gone()

    texts = [
        post("/streamed", b"x" * 100),
        post("/silent", b"x" * 100),
        post("/streamed", b"x" * 100)[:-10],
        post("/whole", b"x" * 100)[:-10],
        request("GET", "/whole", None)[:-3],
        b"nonsense\r\n\r\n",
    ]
    async with between(answer) as (_, relay):
        at = urlsplit(relay.url)
        await abort_some((str(at.hostname), at.port or 0), texts, 100)
        await until(lambda: is_quiet(relay))
        gc.collect()
        before = (open_files(), len(asyncio.all_tasks()))

        for _ in range(99):
            await abort_some((str(at.hostname), at.port or 0), texts, 100)
        await until(lambda: is_quiet(relay))
        gc.collect()
        # The upstream of this test lives in the same process, and ends its own later.
        await until(lambda: open_files() <= before[0] + 2)
        await until(lambda: len(asyncio.all_tasks()) <= before[1] + 2)

        assert (await ask(relay.url, b"x\r\n\r\n")).status == 400


def is_quiet(relay: Relay) -> bool:
    """Tell whether no request, connection or task is left of what was aborted."""
    parts = (relay.server._connections, relay.upstreams._connections)
    return relay.in_flight == 0 and not any(parts) and not relay.server._tasks._tasks


async def abort_some(at: tuple[str, int], texts: list[bytes], count: int) -> None:
    """Connect, send and leave, half of them by a reset, in different phases."""
    loop = asyncio.get_running_loop()
    socks = []
    for number in range(count):
        sock = socket.socket()
        sock.setblocking(False)
        # Who accepts runs in this loop too: it must not be waited for without it.
        await loop.sock_connect(sock, at)
        sock.sendall(texts[number % len(texts)])
        socks.append(sock)
    for number, sock in enumerate(socks):
        if number % 2:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
        if number % 25 == 0:
            await asyncio.sleep(0.005)
        sock.close()
