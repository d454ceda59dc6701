"""What a client can do to the listening socket, and what its end does to a client."""

import asyncio
import contextlib
import json
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from deuz_proxy.edge.http1_bounds import Bounds
from deuz_proxy.edge.http1_call import Http1Client, Http1Incoming
from deuz_proxy.edge.http1_server import Http1Server, Serve, make_http1_server
from deuz_proxy.edge.http1_wire import MAX_HEAD_BYTES
from deuz_proxy.errors import RequestTooSlow
from deuz_testing.raw_client import RawClient, ask, post, raw_client, request
from deuz_testing.waiting import WAIT_SECONDS, until

ON_BOTH_LOOPS = True

GET = request("GET", "/v1/x", None)
LAST = request("GET", "/last", None, b"Connection: close")


async def answer_ok(_: Http1Incoming, client: Http1Client) -> None:
    client.start(200, "OK", [(b"Content-Length", b"2")])
    client.write(b"ok")
    client.finish()


@asynccontextmanager
async def serving(
    serve: Serve = answer_ok, *, grace_seconds: float = 0.2, **bounds: Any
) -> AsyncIterator[tuple[str, Http1Server]]:
    server = await make_http1_server(serve, bounds=Bounds(**bounds))
    host, port = await server.listen("127.0.0.1", 0)
    try:
        yield f"http://{host}:{port}", server
    finally:
        await server.close(grace_seconds=grace_seconds)


async def test_requests_of_one_connection_are_served_in_their_order() -> None:
    order: list[str] = []

    async def serve(incoming: Http1Incoming, client: Http1Client) -> None:
        order.append(f"begin {incoming.target}")
        await asyncio.sleep(0.02 if incoming.target == "/a" else 0)
        order.append(f"end {incoming.target}")
        await answer_ok(incoming, client)

    async with serving(serve) as (url, _), raw_client(url) as client:
        texts = [request("GET", target, None) for target in ("/a", "/b")]
        await client.send(b"".join([*texts, LAST]))
        got = await client.read_to_end()

    assert got.count(b"\r\n\r\nok") == 3
    assert order == [
        f"{word} {target}"
        for target in ("/a", "/b", "/last")
        for word in ("begin", "end")
    ]


async def test_pipelined_requests_beyond_the_bound_wait_in_the_kernel() -> None:
    async def serve(incoming: Http1Incoming, client: Http1Client) -> None:
        await go.wait()
        await answer_ok(incoming, client)

    go = asyncio.Event()
    many = request("GET", "/x", None, b"X: " + b"x" * 1000) * 5_000
    async with serving(serve) as (url, server), raw_client(url) as client:
        sending = asyncio.ensure_future(client.send(many + LAST))
        await until(lambda: len(server._connections) == 1)
        [connection] = server._connections
        await until(lambda: connection._is_crowded)
        held = len(connection._backlog)
        go.set()
        got = await client.read_to_end()
        await sending

    assert got.count(b"\r\n\r\nok") == 5_001
    assert held < 1_000_000


@pytest.mark.parametrize(
    "bad",
    [
        b"GET /secret HTTP/1.1\r\nHost: a\r\nX-Key: secret\x00\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00secret\r\n\r\n",
        b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 6\r\n"
        b"Transfer-Encoding: chunked\r\n\r\nsecret",
        b"GET / HTTP/1.1\nHost: secret\n\n",
    ],
)
async def test_what_is_not_http_is_refused_once_and_nothing_of_it_is_said(
    bad: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    async with serving() as (url, _), raw_client(url) as client:
        await client.send(bad + GET)
        got = await client.read_to_end()

    assert got.count(b"HTTP/1.1 ") == 1
    assert got.startswith(b"HTTP/1.1 400 Bad Request\r\n")
    assert json.loads(got.split(b"\r\n\r\n")[1])["error"]["code"] == "malformed_request"
    assert b"secret" not in got
    assert "secret" not in caplog.text


async def test_a_bad_request_behind_a_good_one_is_refused_behind_its_answer() -> None:
    async with serving() as (url, _), raw_client(url) as client:
        await client.send(GET + b"nonsense\r\n\r\n")
        got = await client.read_to_end()

    assert got.index(b"HTTP/1.1 200 OK") < got.index(b"HTTP/1.1 400 Bad Request")


@pytest.mark.parametrize("end", [b"", b"\r\n\r\n"])
async def test_a_head_over_the_limit_is_refused_even_while_it_is_sent(
    end: bytes,
) -> None:
    text = b"GET / HTTP/1.1\r\nHost: a\r\nA: " + b"x" * MAX_HEAD_BYTES * 2 + end
    async with serving() as (url, _):
        answered = await ask(url, text)

    assert answered.status == 431
    assert b'"code":"head_too_large"' in answered.body


async def test_a_refusal_has_the_shape_it_is_given() -> None:
    server = await make_http1_server(
        answer_ok, refuse=lambda fault, asked: f"{fault.code} {asked}".encode()
    )
    host, port = await server.listen("127.0.0.1", 0)
    url = f"http://{host}:{port}"

    unknown = await ask(url, b"nonsense\r\n\r\n")
    known = await ask(url, b"GET /a HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n")
    await server.close(grace_seconds=0)

    assert unknown.body == b"malformed_request None"
    assert known.body == b"malformed_request /a"
    assert b"Connection: close" in known.lines


async def test_one_connection_too_many_is_told_so() -> None:
    async with serving(connections=1) as (url, _), raw_client(url) as first:
        await first.send(GET)
        await first.read_answer()
        refused = await ask(url, GET)
        await first.send(GET)

        assert (await first.read_answer()).body == b"ok"
        assert refused.status == 503
        assert b'"code":"too_many_connections"' in refused.body


async def test_a_connection_too_many_that_says_nothing_is_told_so_all_the_same() -> (
    None
):
    async with serving(connections=1) as (url, _), raw_client(url) as first:
        await first.send(GET)
        await first.read_answer()
        async with raw_client(url) as second:
            assert (await second.read_answer()).status == 503


async def test_a_head_that_comes_too_slowly_is_refused_and_none_at_all_let_go() -> None:
    async with serving(head_seconds=0.1) as (url, _):
        async with raw_client(url) as client:
            assert await is_ended(client)
        for start in (GET[:-1], b"G"):
            answered = await ask(url, start)

            assert answered.status == 408
            assert b'"code":"request_too_slow"' in answered.body
            assert b"Connection: close" in answered.lines


async def test_many_refusals_are_told_once_in_a_while(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with serving() as (url, _):
        for _number in range(5):
            assert (await ask(url, b"nonsense\r\n\r\n")).status == 400

    assert caplog.text.count("connection refused: malformed_request") == 1


async def test_a_slow_head_behind_an_answer_is_refused_as_well() -> None:
    async with serving(head_seconds=0.1) as (url, _), raw_client(url) as client:
        await client.send(GET + GET[:9])
        assert (await client.read_answer()).status == 200

        assert (await client.read_answer()).status == 408


async def test_a_body_that_stops_coming_is_given_up_and_a_slow_one_is_not() -> None:
    async def serve(incoming: Http1Incoming, client: Http1Client) -> None:
        try:
            await incoming.read_body(limit_bytes=100)
        except RequestTooSlow as fault:
            faults.append(fault)
            raise
        await answer_ok(incoming, client)

    faults: list[RequestTooSlow] = []
    text = post("/", b"0123456789")
    # Slow in all, and never silent for long, even where the machine is slow as well.
    async with serving(serve, body_seconds=1.0) as (url, _):
        async with raw_client(url) as slow:
            await slow.send(text[:-10])
            for at in range(10, 0, -1):
                await asyncio.sleep(0.15)
                await slow.send(text[-at : len(text) - at + 1])
            assert (await slow.read_answer()).body == b"ok"
        assert not faults
        async with raw_client(url) as stopped:
            await stopped.send(text[:-1])
            assert await is_ended(stopped)
    assert len(faults) == 1


async def test_a_body_may_wait_while_its_answer_is_read() -> None:
    async def serve(incoming: Http1Incoming, client: Http1Client) -> None:
        client.start(200, "OK", [(b"Content-Length", b"10")])
        client.write(await incoming.read_body(limit_bytes=100))
        client.finish()

    text = post("/", b"0123456789")
    async with (
        serving(serve, body_seconds=0.05) as (url, _),
        raw_client(url) as client,
    ):
        await client.send(text[:-1])
        await client.read_head()
        await asyncio.sleep(0.3)
        await client.send(text[-1:])

        assert await client.reader.readexactly(10) == b"0123456789"


async def test_new_bounds_hold_for_connections_that_come_later() -> None:
    async with serving() as (url, server), raw_client(url) as early:
        await early.send(GET)
        await early.read_answer()
        server.bounds = Bounds(head_lines=1, head_bytes=200)
        await early.send(request("GET", "/", None, b"A: 1", b"B: " + b"2" * 300))

        assert (await early.read_answer()).status == 200
        many = await ask(url, request("GET", "/", None, b"A: 1"))
        long = await ask(url, request("GET", "/" + "a" * 200, None))
    assert (many.status, long.status) == (431, 431)


async def test_an_idle_connection_is_ended_in_time_and_a_busy_one_is_not() -> None:
    async def serve(incoming: Http1Incoming, client: Http1Client) -> None:
        await asyncio.sleep(0.4)
        await answer_ok(incoming, client)

    async with serving(serve, idle_seconds=0.1) as (url, _), raw_client(url) as client:
        await client.send(GET)

        assert (await client.read_answer()).body == b"ok"
        assert await is_ended(client)


async def is_ended(client: RawClient) -> bool:
    with contextlib.suppress(ConnectionError):
        return await client.read_to_end() == b""
    return True


LEAVES = {"fin": RawClient.leave, "rst": RawClient.reset}


def shut(client: RawClient) -> None:
    """Say that nothing more will be sent, and wait for the answer."""
    client.writer.write_eof()


@pytest.mark.parametrize("leave", [*LEAVES.values(), shut])
async def test_a_client_that_leaves_cancels_what_it_waited_for(leave: Any) -> None:
    async def serve(*_: object) -> None:
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    begun, ended = asyncio.Event(), asyncio.Event()
    async with serving(serve) as (url, server), raw_client(url) as client:
        await client.send(post("/", b"{}"))
        await asyncio.wait_for(begun.wait(), WAIT_SECONDS)
        leave(client)

        await asyncio.wait_for(ended.wait(), WAIT_SECONDS)
        await until(lambda: not server._connections)
        await until(lambda: not server._tasks._tasks)


async def test_a_client_that_leaves_while_it_is_not_read_is_noticed() -> None:
    async def serve(incoming: Http1Incoming, _: object) -> None:
        await until(lambda: incoming._inbox.is_full)
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    begun, ended = asyncio.Event(), asyncio.Event()
    async with serving(serve) as (url, _), raw_client(url) as client:
        sending = asyncio.ensure_future(client.send(post("/", b"x" * 50_000_000)))
        await asyncio.wait_for(begun.wait(), WAIT_SECONDS)
        sending.cancel()
        client.reset()

        await asyncio.wait_for(ended.wait(), WAIT_SECONDS)


async def test_a_fault_in_serving_ends_its_connection_and_no_other() -> None:
    async def serve(incoming: Http1Incoming, client: Http1Client) -> None:
        if incoming.target == "/bad":
            raise LookupError("a bug")
        await answer_ok(incoming, client)

    async with serving(serve) as (url, _), raw_client(url) as good:
        async with raw_client(url) as bad:
            await bad.send(request("GET", "/bad", None))

            assert await is_ended(bad)
        await good.send(GET)

        assert (await good.read_answer()).body == b"ok"


async def test_who_is_not_answered_sees_the_connection_end() -> None:
    async def serve(*_: object) -> None:
        """Say nothing."""

    async with serving(serve) as (url, _), raw_client(url) as client:
        await client.send(GET)

        assert await is_ended(client)


async def test_an_answer_before_the_body_reaches_a_client_that_still_sends() -> None:
    async with serving() as (url, _), raw_client(url) as client:
        sending = asyncio.ensure_future(client.send(post("/", b"x" * 20_000_000)))
        answered = await client.read_answer()
        with contextlib.suppress(ConnectionError):
            await sending

    assert answered.body == b"ok"


async def test_a_client_that_does_not_send_the_rest_is_told_the_end_at_once() -> None:
    async with serving() as (url, _), raw_client(url) as client:
        await client.send(post("/", b"x" * 100)[:-50])
        answered = await client.read_answer()

        assert answered.body == b"ok"
        assert await is_ended(client)


async def test_draining_ends_idle_connections_and_lets_answers_end() -> None:
    async def serve(incoming: Http1Incoming, client: Http1Client) -> None:
        begun.set()
        await go.wait()
        await answer_ok(incoming, client)

    begun, go = asyncio.Event(), asyncio.Event()
    async with (
        serving(serve) as (url, server),
        raw_client(url) as idle,
        raw_client(url) as busy,
    ):
        await busy.send(GET)
        await asyncio.wait_for(begun.wait(), WAIT_SECONDS)
        closing = asyncio.ensure_future(server.close(grace_seconds=WAIT_SECONDS))

        assert await is_ended(idle)
        with pytest.raises(ConnectionRefusedError):
            await asyncio.open_connection("127.0.0.1", int(url.split(":")[-1]))
        go.set()
        answered = await busy.read_answer()
        assert answered.body == b"ok"
        assert b"Connection: close" in answered.lines
        await closing


async def test_draining_cuts_what_outlives_the_grace() -> None:
    async def serve(*_: object) -> None:
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    begun, ended = asyncio.Event(), asyncio.Event()
    async with serving(serve) as (url, server), raw_client(url) as client:
        await client.send(GET)
        await asyncio.wait_for(begun.wait(), WAIT_SECONDS)
        await server.close(grace_seconds=0.1)

        assert ended.is_set()
        assert await is_ended(client)


async def test_two_servers_share_an_address_that_is_to_be_shared() -> None:
    servers = [await make_http1_server(answer_ok) for _ in range(2)]
    _, port = await servers[0].listen("127.0.0.1", 0, is_shared=True)

    assert await servers[1].listen("127.0.0.1", port, is_shared=True)
    for server in servers:
        await server.close(grace_seconds=0)


async def test_garbage_on_many_connections_leaves_nothing_behind() -> None:
    texts = [b"", b"\r\n" * 9, b"\xff" * 99, GET[:9], post("/", b"x")[:-1], GET * 3]
    async with serving() as (url, server):
        for text in texts * 10:
            async with raw_client(url) as client:
                await client.send(text)
        await until(lambda: not server._connections)

        await until(lambda: not server._tasks._tasks)
        assert (await ask(url, GET)).body == b"ok"
