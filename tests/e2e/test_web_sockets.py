"""A switched connection carries bytes both ways until either side ends it."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import aiohttp
import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from deuz_testing.line import Line, make_config, running_line
from deuz_testing.raw_client import RawClient, raw_client, request
from deuz_testing.upstreams import Answer, Got, RawUpstream, raw_upstream
from deuz_testing.waiting import WAIT_SECONDS, until

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
) -> AsyncIterator[tuple[RawUpstream, RawClient, Line]]:
    async with (
        raw_upstream(answer) as upstream,
        running_line(make_config(upstream.url)) as line,
        raw_client(line.url) as client,
    ):
        yield upstream, client, line


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


async def test_more_than_waits_for_the_switch_passes_behind_it() -> None:
    ahead = bytes(range(256)) * 2048
    is_sent = asyncio.Event()

    async def late(got: Got) -> None:
        await is_sent.wait()
        await echo(got)

    async with between(late) as (_, client, _):
        client.writer.write(ASK + ahead)
        # Long enough for the line to read more than it lets wait.
        await asyncio.sleep(0.2)
        is_sent.set()
        await client.read_head()
        async with asyncio.timeout(WAIT_SECONDS):
            got = await client.reader.readexactly(len(ahead))

    assert got == ahead


async def test_much_that_comes_with_the_switch_passes_behind_it() -> None:
    at_once = bytes(range(256)) * 2048

    async def greet(got: Got) -> None:
        await got.say(SWITCH + at_once)
        await got.reader.read()

    async with between(greet) as (_, client, _):
        await client.send(ASK)
        await client.read_head()
        async with asyncio.timeout(WAIT_SECONDS):
            assert await client.reader.readexactly(len(at_once)) == at_once


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
    async with between(echo) as (upstream, client, line):
        await client.send(ASK)
        await client.read_head()
        await client.send(b"bye")
        client.writer.write_eof()
        await asyncio.wait_for(upstream.last.gone.wait(), WAIT_SECONDS)

        assert upstream.last.body == b"bye"
        await until(lambda: line.told.in_flight == 0)


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

    async with between(listen) as (upstream, client, line):
        await client.send(ASK)
        await client.read_head()
        if side == "client":
            client.reset()
            await asyncio.wait_for(upstream.last.gone.wait(), WAIT_SECONDS)
        else:
            assert await client.read_to_end() == b""
        await until(lambda: line.told.in_flight == 0)


async def test_a_switch_that_is_refused_is_answered_like_anything_else() -> None:
    async def refuse(got: Got) -> None:
        await got.say(b"HTTP/1.1 426 No\r\nContent-Length: 2\r\n\r\nno")

    async with between(refuse) as (_, client, _):
        await client.send(ASK)
        answered = await client.read_answer()

    assert (answered.status, answered.body) == (426, b"no")


async def test_a_switched_connection_is_told_as_one_request_when_it_has_ended() -> None:
    async with between(echo) as (_, client, line):
        await client.send(ASK)
        await client.read_head()
        await client.send(b"12345")
        await client.reader.readexactly(5)
        assert line.told.in_flight == 1
        client.writer.write_eof()
        told = await line.told.until_finished()

    assert (told.outcome, told.status, told.response_bytes) == ("ok", 101, 5)
    assert line.told.faults == []


async def test_another_protocol_than_web_sockets_is_not_asked_for() -> None:
    async def answer(got: Got) -> None:
        await got.say(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")

    ask = request("GET", "/v1/models", None, b"Connection: Upgrade", b"Upgrade: h2c")
    async with between(answer) as (upstream, client, _):
        await client.send(ask)
        answered = await client.read_answer()

    assert (answered.status, answered.body) == (200, b"ok")
    assert upstream.last.header(b"upgrade") == []


async def test_a_real_web_socket_works_through_it() -> None:
    async def echo_socket(request: web.Request) -> web.WebSocketResponse:
        socket = web.WebSocketResponse(protocols=("realtime",))
        await socket.prepare(request)
        async for message in socket:
            await socket.send_bytes(message.data)
        return socket

    app = web.Application()
    app.router.add_get("/v1/realtime", echo_socket)
    async with (
        TestServer(app) as server,
        running_line(make_config(str(server.make_url("")).rstrip("/"))) as line,
        aiohttp.ClientSession() as session,
        session.ws_connect(
            f"{line.url}/v1/realtime?model=m", protocols=("realtime",)
        ) as socket,
    ):
        for size in (0, 1, 70_000):
            await socket.send_bytes(b"x" * size)
            assert await socket.receive_bytes() == b"x" * size
        assert socket.protocol == "realtime"
        await socket.close()
        told = await line.told.until_finished()

    assert (told.outcome, told.passthrough) == ("ok", "unknown_endpoint")
