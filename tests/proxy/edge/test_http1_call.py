"""How a request's body is taken, and how an answer's end is told."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from deuz_proxy.edge.http1_call import Http1Client, Http1Incoming
from deuz_proxy.edge.http1_server import Serve, make_http1_server
from deuz_proxy.errors import BodyTooLarge, RequestMalformed
from deuz_testing.raw_client import ask, post, raw_client, request
from deuz_testing.waiting import WAIT_SECONDS, until

ON_BOTH_LOOPS = True

OLD = b"GET / HTTP/1.0\r\n\r\n"
Lines = list[tuple[bytes, bytes]]


@asynccontextmanager
async def serving(serve: Serve) -> AsyncIterator[str]:
    server = await make_http1_server(serve)
    host, port = await server.listen("127.0.0.1", 0)
    try:
        yield f"http://{host}:{port}"
    finally:
        await server.close(grace_seconds=0.2)


def answering(*chunks: bytes, status: int = 200, headers: Lines | None = None) -> Serve:
    """Return what reads the body and answers with these chunks."""

    async def serve(incoming: Http1Incoming, client: Http1Client) -> None:
        await incoming.read_body(limit_bytes=2**27)
        client.start(status, "Fine", headers or [])
        for chunk in chunks:
            client.write(chunk)
        client.finish()

    return serve


async def bytes_of(serve: Serve, text: bytes) -> bytes:
    """Return all that comes before the server ends the connection."""
    async with serving(serve) as url, raw_client(url) as client:
        await client.send(text)
        return await client.read_to_end()


def closing(method: str = "GET") -> bytes:
    return request(method, "/", None, b"Connection: close")


# Answers.


async def test_an_answer_of_unknown_length_goes_out_in_chunks_as_written() -> None:
    large = b"x" * 20_000

    got = await bytes_of(answering(b"one", b"", large), closing())

    assert got == (
        b"HTTP/1.1 200 Fine\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n"
        b"3\r\none\r\n4e20\r\n" + large + b"\r\n0\r\n\r\n"
    )


async def test_an_answer_of_stated_length_goes_out_as_it_is() -> None:
    headers = [(b"content-LENGTH", b"6"), (b"X", b""), (b"Keep-Alive", b"1")]

    got = await bytes_of(answering(b"one", b"two", headers=headers), closing())

    assert got == (
        b"HTTP/1.1 200 Fine\r\ncontent-LENGTH: 6\r\nX: \r\nConnection: close\r\n\r\n"
        b"onetwo"
    )


async def test_an_old_client_gets_an_answer_that_ends_with_the_connection() -> None:
    got = await bytes_of(answering(b"one", b"two"), OLD)

    assert got == b"HTTP/1.1 200 Fine\r\n\r\nonetwo"


async def test_an_old_client_may_keep_its_connection_where_lengths_are_known() -> None:
    old = b"GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n"
    headers = [(b"Content-Length", b"2")]
    serve = answering(b"ok", headers=headers)
    async with serving(serve) as url, raw_client(url) as client:
        for _ in range(2):
            await client.send(old)
            answered = await client.read_answer()

            assert answered.body == b"ok"
            assert answered.lines[-1] == b"Connection: keep-alive"


@pytest.mark.parametrize(
    ("method", "status"), [("HEAD", 200), ("GET", 204), ("GET", 304)]
)
async def test_some_answers_have_no_body_whatever_is_written(
    method: str, status: int
) -> None:
    serve = answering(b"never", status=status, headers=[(b"Content-Length", b"5")])

    got = await bytes_of(serve, closing(method))

    assert got == (
        b"HTTP/1.1 %d Fine\r\nContent-Length: 5\r\nConnection: close\r\n\r\n" % status
    )


async def test_a_reason_goes_out_as_its_bytes() -> None:
    async def serve(_: Http1Incoming, client: Http1Client) -> None:
        client.start(299, "Caf\xe9  au lait", [])
        client.finish()

    got = await bytes_of(serve, closing())

    assert got.startswith(b"HTTP/1.1 299 Caf\xe9  au lait\r\n")


async def test_an_answer_shorter_than_stated_looks_broken() -> None:
    serve = answering(b"half", headers=[(b"Content-Length", b"8")])
    async with serving(serve) as url:
        answered = await ask(url, request("GET", "/", None))

    assert (answered.body, answered.is_whole) == (b"half", False)


@pytest.mark.parametrize("text", [closing(), OLD])
async def test_an_aborted_answer_looks_broken_to_every_client(text: bytes) -> None:
    async def serve(_: Http1Incoming, client: Http1Client) -> None:
        client.start(200, "OK", [])
        client.write(b"some")
        client.abort()

    if text == OLD:
        with pytest.raises(ConnectionResetError):
            await bytes_of(serve, text)
    else:
        assert (await bytes_of(serve, text)).endswith(b"4\r\nsome\r\n")


async def is_reset_by_the_end_of_all(serve: Serve) -> None:
    server = await make_http1_server(serve)
    host, port = await server.listen("127.0.0.1", 0)
    async with raw_client(f"http://{host}:{port}") as client:
        await client.send(OLD)
        await client.read_head()
        # However fast this machine is, not all is here before the end.
        transport: Any = client.writer.transport
        transport.pause_reading()
        await server.close(grace_seconds=0.01)

        transport.resume_reading()
        with pytest.raises(ConnectionResetError):
            await client.read_to_end()


async def test_an_old_clients_answer_that_the_end_of_all_cuts_looks_broken() -> None:
    async def serve(_: Http1Incoming, client: Http1Client) -> None:
        client.start(200, "OK", [])
        client.write(b"some")
        await asyncio.Event().wait()

    await is_reset_by_the_end_of_all(serve)


async def test_what_an_old_client_did_not_read_in_time_is_missed_by_it() -> None:
    async def serve(_: Http1Incoming, client: Http1Client) -> None:
        client.start(200, "OK", [])
        client.write(b"x" * 20_000_000)
        client.finish()

    await is_reset_by_the_end_of_all(serve)


async def test_an_old_clients_answer_of_any_length_ends_well() -> None:
    large = b"x" * 3_000_000

    assert (await bytes_of(answering(large), OLD)).endswith(b"\r\n\r\n" + large)


async def test_an_answer_aborted_behind_its_head_shows_the_head() -> None:
    async def serve(_: Http1Incoming, client: Http1Client) -> None:
        client.start(200, "OK", [(b"Content-Length", b"3")])
        client.abort()

    assert (await bytes_of(serve, closing())).endswith(b"close\r\n\r\n")


async def test_head_and_first_bytes_are_one_packet_and_a_head_alone_does_not_wait() -> (
    None
):
    async def serve(incoming: Http1Incoming, client: Http1Client) -> None:
        client.start(200, "OK", [(b"Content-Length", b"4")])
        if incoming.target == "/late":
            await asyncio.wait_for(seen.wait(), WAIT_SECONDS)
        client.write(b"body")
        client.finish()

    seen = asyncio.Event()
    async with serving(serve) as url, raw_client(url) as client:
        await client.send(request("GET", "/now", None))
        first = await client.reader.read(1000)
        await client.send(request("GET", "/late", None))
        head = await client.read_head()
        seen.set()
        body = await client.reader.readexactly(4)

    assert first.endswith(b"\r\n\r\nbody")
    assert head.endswith(b"\r\n\r\n")
    assert body == b"body"


async def test_a_head_with_first_bytes_is_what_both_make_one_after_the_other() -> None:
    async def serve(incoming: Http1Incoming, client: Http1Client) -> None:
        lines = [] if incoming.target == "/chunks" else [(b"Content-Length", b"4")]
        client.start_with(200, "OK", lines, b"body")
        await asyncio.sleep(0)
        client.finish()

    async with serving(serve) as url, raw_client(url) as client:
        await client.send(request("GET", "/", None))
        first = await client.reader.read(1000)
        await client.send(request("GET", "/chunks", None))
        answered = await client.read_answer()

    assert first == b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nbody"
    assert answered.body == b"body"


async def test_a_slow_reader_slows_the_writer_and_nothing_piles_up() -> None:
    written = 0

    async def serve(_: Http1Incoming, client: Http1Client) -> None:
        nonlocal written
        client.start(200, "OK", [])
        for _number in range(400):
            client.write(b"x" * 65_536)
            await client.drain()
            written += 1
        client.finish()

    async with serving(serve) as url, raw_client(url) as client:
        client.reader._transport.pause_reading()  # type: ignore[attr-defined]
        await client.send(closing())
        before = -1
        while before < written:
            before = written
            await asyncio.sleep(0.05)
        stuck_at = written
        client.reader._transport.resume_reading()  # type: ignore[attr-defined]
        got = await client.read_to_end()

    assert stuck_at < 300
    assert got.count(b"x") == 400 * 65_536


async def test_writing_to_a_client_that_has_gone_says_so() -> None:
    async def serve(_: Http1Incoming, client: Http1Client) -> None:
        try:
            client.start(200, "OK", [])
            client.abort()
            client.write(b"x")
        except ConnectionResetError:
            told.set()

    told = asyncio.Event()
    await bytes_of(serve, closing())

    assert told.is_set()


# Bodies.


@pytest.mark.parametrize("length", [1, 100_000, 3_000_000, 9_000_000])
async def test_a_body_is_read_whole_however_it_is_framed(length: int) -> None:
    async def serve(incoming: Http1Incoming, client: Http1Client) -> None:
        bodies.append(await incoming.read_body(limit_bytes=length))
        client.start(204, "OK", [])
        client.finish()

    body = bytes(range(251)) * (length // 251 + 1)
    body = body[:length]
    half = length // 2
    chunked = b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n"
    for part in filter(None, (body[:half], body[half:])):
        chunked += b"%x\r\n%b\r\n" % (len(part), part)
    bodies: list[bytes] = []
    async with serving(serve) as url, raw_client(url) as client:
        for text in (post("/", body), chunked + b"0\r\nX-T: 1\r\n\r\n"):
            await client.send(text)
            await client.read_answer()

    assert bodies == [body, body]


async def test_a_body_that_is_all_here_is_taken_and_another_is_waited_for() -> None:
    async def serve(incoming: Http1Incoming, client: Http1Client) -> None:
        taken.append(incoming.body_here(limit_bytes=4))
        if taken[-1] is None:
            begun.set()
            taken.append(await incoming.read_body(limit_bytes=4))
        client.start(204, "OK", [])
        client.finish()

    taken: list[bytes | None] = []
    begun = asyncio.Event()
    async with serving(serve) as url, raw_client(url) as client:
        await client.send(post("/", b"here"))
        await client.read_answer(has_body=False)
        await client.send(post("/", b"late")[:-2])
        await asyncio.wait_for(begun.wait(), WAIT_SECONDS)
        await client.send(b"te")
        await client.read_answer(has_body=False)

    assert taken == [b"here", None, b"late"]


async def test_a_body_that_is_here_and_over_the_limit_is_not_taken() -> None:
    async def serve(incoming: Http1Incoming, client: Http1Client) -> None:
        with pytest.raises(BodyTooLarge):
            incoming.body_here(limit_bytes=3)
        client.start(413, "No", [(b"Content-Length", b"0")])
        client.finish()

    async with serving(serve) as url:
        answered = await ask(url, post("/", b"four"))

    assert answered.status == 413


@pytest.mark.parametrize("is_stated", [True, False])
async def test_a_body_over_the_limit_is_not_read_to_its_end(is_stated: bool) -> None:
    async def serve(incoming: Http1Incoming, client: Http1Client) -> None:
        with pytest.raises(BodyTooLarge):
            await incoming.read_body(limit_bytes=10)
        client.start(413, "No", [(b"Content-Length", b"0")])
        client.finish()

    head = b"POST / HTTP/1.1\r\nHost: a\r\n"
    stated = head + b"Content-Length: 11\r\n\r\n"
    chunked = head + b"Transfer-Encoding: chunked\r\n\r\nfff\r\n" + b"x" * 11
    async with serving(serve) as url:
        answered = await ask(url, stated if is_stated else chunked)

    assert answered.status == 413


async def test_a_body_that_breaks_is_malformed_behind_what_came() -> None:
    async def serve(incoming: Http1Incoming, client: Http1Client) -> None:
        with pytest.raises(RequestMalformed):  # noqa: PT012
            async for piece in incoming.stream_body():
                got.append(piece)
                taken.set()
        client.start(400, "No", [(b"Content-Length", b"0")])
        client.finish()

    got: list[bytes] = []
    taken = asyncio.Event()
    text = b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n"
    async with serving(serve) as url, raw_client(url) as client:
        await client.send(text + b"3\r\nabc\r\n")
        await asyncio.wait_for(taken.wait(), WAIT_SECONDS)
        await client.send(b"nonsense\r\n")

        assert (await client.read_answer()).status == 400
        assert await client.read_to_end() == b""
    assert got == [b"abc"]


async def test_a_client_is_told_to_go_on_once_and_only_if_its_body_is_read() -> None:
    async def serve(incoming: Http1Incoming, client: Http1Client) -> None:
        if incoming.target == "/read":
            await incoming.read_body(limit_bytes=99)
        client.start(200, "OK", [(b"Content-Length", b"0")])
        client.finish()

    expecting = b"Host: a\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\n"
    async with serving(serve) as url, raw_client(url) as client:
        await client.send(b"POST /read HTTP/1.1\r\n" + expecting)
        assert await client.read_head() == b"HTTP/1.1 100 Continue\r\n\r\n"
        await client.send(b"ok")
        assert (await client.read_answer()).status == 200
        # Who does not wait for it does not get it.
        await client.send(b"POST /read HTTP/1.1\r\n" + expecting + b"ok")
        assert (await client.read_answer()).status == 200
        await client.send(b"POST /not HTTP/1.1\r\n" + expecting)
        assert (await client.read_answer()).status == 200
        # Nobody knows whether the body will come: the connection cannot go on.
        assert await client.read_to_end() == b""


@pytest.mark.parametrize("is_in_one", [False, True])
async def test_an_answer_says_that_it_ends_the_connection_of_an_unread_body(
    is_in_one: bool,
) -> None:
    async def serve(incoming: Http1Incoming, client: Http1Client) -> None:
        lines = [(b"Content-Length", b"2")]
        if is_in_one:
            client.start_with(401, "No", lines, b"no")
        else:
            client.start(401, "No", lines)
            client.write(b"no")
        client.finish()

    whole = post("/", b"x" * 100)
    async with serving(serve) as url, raw_client(url) as client:
        for text, said in ((whole, []), (whole[:-50], [b"Connection: close"])):
            await client.send(text)

            assert (await client.read_answer()).lines == [b"Content-Length: 2", *said]
        assert await client.read_to_end() == b""


async def test_an_unread_body_that_is_here_does_not_cost_the_connection() -> None:
    async def serve(incoming: Http1Incoming, client: Http1Client) -> None:
        await until(lambda: incoming._inbox.is_over)
        client.start(200, "OK", [(b"Content-Length", b"0")])
        client.finish()

    async with serving(serve) as url, raw_client(url) as client:
        for length in (10, 300_000, 10):
            await client.send(post("/", b"x" * length))
            assert (await client.read_answer()).status == 200
