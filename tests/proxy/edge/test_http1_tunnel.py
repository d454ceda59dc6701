"""A switched connection carries bytes both ways until either side ends it."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from deuz_proxy.edge.http1_call import Http1Client, Http1Incoming
from deuz_proxy.edge.http1_server import make_http1_server
from deuz_proxy.edge.http1_tunnel import tunnel
from deuz_proxy.edge.http1_upstreams import Http1Upstreams
from deuz_testing.line import until
from deuz_testing.raw_client import RawClient, raw_client, request
from deuz_testing.upstreams import Answer, Got, RawUpstream, raw_upstream

ON_BOTH_LOOPS = True

ASK = request(
    "GET",
    "/v1/realtime?model=m",
    None,
    b"Connection: keep-alive, Upgrade",
    b"Upgrade: websocket",
    b"Sec-WebSocket-Key: k==",
)
SWITCH = (
    b"HTTP/1.1 101 Switching\r\nSec-WebSocket-Accept: a=\r\n"
    b"Upgrade: websocket\r\nConnection: Upgrade\r\n\r\n"
)
FRAMES = [b"\x81\x85abcd\x00", b"\x00" * 3, b"\r\n\r\nGET / HTTP/1.1\r\n\r\n", b"\xff"]


@asynccontextmanager
async def between(
    answer: Answer,
) -> AsyncIterator[tuple[RawUpstream, RawClient, Http1Upstreams]]:
    async def serve(incoming: Http1Incoming, client: Http1Client) -> None:
        reply = await upstreams.send(
            method=incoming.method,
            base=upstream.url,
            path=incoming.target,
            headers=incoming.headers,
            body=None,
            upgrade=incoming.upgrade,
        )
        if reply.status == 101:
            await tunnel(client, reply)
            return
        await client.start(reply.status, reply.reason, reply.headers)
        async for chunk in reply.chunks():
            await client.write(chunk)
        await client.finish()

    async with raw_upstream(answer) as upstream:
        upstreams = await Http1Upstreams(connect_seconds=2, idle_seconds=5).open()
        server = await make_http1_server(serve)
        host, port = await server.listen("127.0.0.1", 0)
        async with raw_client(f"http://{host}:{port}") as client:
            yield upstream, client, upstreams
        await until(lambda: not server._connections)
        await server.close(grace_seconds=0.2)
        await upstreams.close()


async def echo(got: Got) -> None:
    await got.say(SWITCH)
    while piece := await got.reader.read(65_536):
        got.body += piece
        await got.say(piece)
    got.gone.set()


async def test_the_switch_is_asked_for_and_told_with_all_lines() -> None:
    async with between(echo) as (upstream, client, _):
        await client.send(ASK)
        head = await client.read_head()

    assert head.split(b"\r\n")[0] == b"HTTP/1.1 101 Switching"
    assert b"Sec-WebSocket-Accept: a=" in head
    assert b"Upgrade: websocket\r\n" in head
    assert b"Connection: Upgrade\r\n" in head
    assert upstream.last.header(b"upgrade") == [b"websocket"]
    assert upstream.last.header(b"connection") == [b"Upgrade"]
    assert upstream.last.header(b"sec-websocket-key") == [b"k=="]
    assert upstream.last.target == b"/v1/realtime?model=m"


async def test_bytes_pass_both_ways_unread_even_those_sent_ahead() -> None:
    async with between(echo) as (_, client, _):
        await client.send(ASK + FRAMES[0])
        await client.read_head()
        for frame in FRAMES[1:]:
            await client.send(frame)
        got = await client.reader.readexactly(sum(map(len, FRAMES)))

    assert got == b"".join(FRAMES)


async def test_many_bytes_pass_at_once_in_both_directions() -> None:
    body = bytes(range(256)) * 20_000
    async with between(echo) as (_, client, _):
        await client.send(ASK)
        await client.read_head()
        sending = asyncio.ensure_future(client.send(body))
        got = await client.reader.readexactly(len(body))
        await sending

    assert got == body


async def test_what_the_client_said_last_reaches_the_upstream() -> None:
    async with between(echo) as (upstream, client, upstreams):
        await client.send(ASK)
        await client.read_head()
        await client.send(b"bye")
        client.writer.write_eof()
        await asyncio.wait_for(upstream.last.gone.wait(), 1)

        assert upstream.last.body == b"bye"
        await until(lambda: not upstreams._connections)


async def test_what_the_upstream_said_last_reaches_the_client() -> None:
    async def leave(got: Got) -> None:
        await got.say(SWITCH + b"bye")
        got.writer.close()

    async with between(leave) as (_, client, _):
        await client.send(ASK)
        await client.read_head()

        assert await client.read_to_end() == b"bye"


@pytest.mark.parametrize("side", ["client", "upstream"])
async def test_a_reset_of_either_side_ends_the_other(side: str) -> None:
    async def listen(got: Got) -> None:
        await got.say(SWITCH)
        if side == "upstream":
            RawClient(got.reader, got.writer).reset()
        else:
            await got.until_gone()

    async with between(listen) as (upstream, client, upstreams):
        await client.send(ASK)
        await client.read_head()
        if side == "client":
            client.reset()
            await asyncio.wait_for(upstream.last.gone.wait(), 1)
        else:
            assert await client.read_to_end() == b""
        await until(lambda: not upstreams._connections, 1)


async def test_a_switch_that_is_refused_is_answered_like_anything_else() -> None:
    async def refuse(got: Got) -> None:
        await got.say(b"HTTP/1.1 426 No\r\nContent-Length: 2\r\n\r\nno")

    async with between(refuse) as (_, client, _):
        await client.send(ASK)
        answered = await client.read_answer()

    assert (answered.status, answered.body) == (426, b"no")
