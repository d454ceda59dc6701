"""What the upstream gets, byte for byte, and how its failures look from here."""

import asyncio
import socket
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from deuz_compiler import Spliced
from deuz_proxy.edge.http1_reply import Http1Reply
from deuz_proxy.edge.http1_upstreams import Http1Upstreams
from deuz_proxy.errors import (
    RequestMalformed,
    UpstreamBroken,
    UpstreamUnreachable,
)
from deuz_testing.upstreams import Got, answer_with, raw_upstream
from deuz_testing.waiting import WAIT_SECONDS


@pytest_asyncio.fixture
async def upstreams() -> AsyncIterator[Http1Upstreams]:
    opened = await Http1Upstreams(connect_seconds=30, idle_seconds=30).open()
    yield opened
    await opened.close()


@pytest_asyncio.fixture
async def impatient() -> AsyncIterator[Http1Upstreams]:
    opened = await Http1Upstreams(connect_seconds=0.5, idle_seconds=0.5).open()
    yield opened
    await opened.close()


async def ask(upstreams: Http1Upstreams, base: str, path: str = "/v1/x") -> Http1Reply:
    return await upstreams.send(
        method="GET", base=base, path=path, headers=(), body=None
    )


async def read(reply: Http1Reply) -> bytes:
    return b"".join([chunk async for chunk in reply.chunks()])


@pytest.mark.parametrize(
    "path",
    [
        "/v1/models/org%2Fname",
        "/v1//models//x",
        "/v1/a/../b/./c",
        "/v1/messages?beta=true&beta=true&empty=&plus=a+b&bad=%zz",
        "/v1/messages?",
        "/v1/messages??x=1",
        "/v1/m;v=1/%C3%A9%e2%82",
        "/v1/x|y{z}",
    ],
)
async def test_the_target_is_sent_as_it_came(
    upstreams: Http1Upstreams, path: str
) -> None:
    async with raw_upstream() as upstream:
        await read(await ask(upstreams, upstream.url, path))

        assert upstream.last.target == path.encode()


@pytest.mark.parametrize("end", ["", "/"])
async def test_a_base_with_a_path_stands_before_the_target(
    upstreams: Http1Upstreams, end: str
) -> None:
    async with raw_upstream() as upstream:
        await read(await ask(upstreams, f"{upstream.url}/gate/way{end}", "/v1/x?a=%2F"))

        assert upstream.last.target == b"/gate/way/v1/x?a=%2F"


async def test_a_body_in_pieces_arrives_as_one(upstreams: Http1Upstreams) -> None:
    view = memoryview(bytes(range(250)) * 40_000)
    pieces = tuple([view[at : at + 9_999] for at in range(0, 10**7, 9_999)])

    async with raw_upstream() as upstream:
        for sent in (Spliced(pieces, 10**7), Spliced((b"a", b"", b"b"), 2)):
            reply = await upstreams.send(
                method="POST", base=upstream.url, path="/", headers=(), body=sent
            )

            assert await read(reply) == b"ok"
            assert upstream.last.body == bytes(sent)
            assert len(upstreams._connections) == 1


@pytest.mark.parametrize("method", ["GET", "HEAD", "OPTIONS", "DELETE", "POST", "PUT"])
async def test_nothing_is_added_to_a_request_without_a_body(
    upstreams: Http1Upstreams, method: str
) -> None:
    async with raw_upstream(answer_with(b"HTTP/1.1 204 x\r\n\r\n")) as upstream:
        await upstreams.send(
            method=method, base=upstream.url, path="/", headers=(), body=None
        )
        host = upstream.url.removeprefix("http://").encode()

        assert upstream.last.head == (
            b"%b / HTTP/1.1\r\nHost: %b\r\n\r\n" % (method.encode(), host)
        )


async def test_lines_are_sent_in_order_with_case_and_repetition(
    upstreams: Http1Upstreams,
) -> None:
    lines = [
        (b"anthropic-beta", b"one"),
        (b"X-Foo", b"\xc3\xa9"),
        (b"Anthropic-Beta", b"two"),
        (b"anthropic-beta", b"three"),
        (b"User-Agent", b"mine"),
        (b"accept", b"*/*"),
    ]
    async with raw_upstream() as upstream:
        for body in (b"abc", None):
            await upstreams.send(
                method="POST", base=upstream.url, path="/", headers=lines, body=body
            )

            assert upstream.last.lines == [b"%b: %b" % line for line in lines]
        assert upstream.requests[0].body == b"abc"


async def test_a_stated_length_of_nothing_stays_stated(
    upstreams: Http1Upstreams,
) -> None:
    async with raw_upstream() as upstream:
        await upstreams.send(
            method="GET",
            base=upstream.url,
            path="/",
            headers=[(b"content-length", b"0")],
            body=None,
        )

        assert upstream.last.header(b"content-length") == [b"0"]


async def test_a_streamed_body_keeps_its_stated_length_else_it_is_chunked(
    upstreams: Http1Upstreams,
) -> None:
    async def pieces() -> AsyncIterator[bytes]:
        yield b"one"
        yield b"two"

    async with raw_upstream() as upstream:
        for headers in ([(b"Content-Length", b"6")], []):
            await upstreams.send(
                method="POST",
                base=upstream.url,
                path="/",
                headers=[*headers, (b"X-A", b"1"), (b"x-a", b"2")],
                body=pieces(),
            )
        stated, chunked = upstream.requests

    assert (stated.body, chunked.body) == (b"onetwo", b"onetwo")
    assert stated.header(b"content-length") == [b"6"]
    assert not stated.header(b"transfer-encoding")
    assert chunked.header(b"transfer-encoding") == [b"chunked"]
    assert not chunked.header(b"content-length")


async def test_a_body_of_megabytes_is_sent_whole(upstreams: Http1Upstreams) -> None:
    body = bytes(range(256)) * 20_000
    async with raw_upstream() as upstream:
        await upstreams.send(
            method="POST", base=upstream.url, path="/", headers=(), body=body
        )

        assert upstream.last.body == body
        assert upstream.last.header(b"content-length") == [b"%d" % len(body)]


async def test_a_redirect_is_returned_not_followed(upstreams: Http1Upstreams) -> None:
    said = answer_with(
        b"HTTP/1.1 307 Go\r\nLocation: http://127.0.0.1:1/\r\nContent-Length: 0\r\n\r\n"
    )
    async with raw_upstream(said) as upstream:
        reply = await ask(upstreams, upstream.url)

        assert (reply.status, reply.reason) == (307, "Go")
        assert reply.headers[0] == (b"Location", b"http://127.0.0.1:1/")
        assert len(upstream.requests) == 1


async def test_cookies_of_an_answer_are_not_sent_with_the_next_request(
    upstreams: Http1Upstreams,
) -> None:
    said = answer_with(
        b"HTTP/1.1 200 OK\r\nSet-Cookie: s=1; Path=/\r\nContent-Length: 0\r\n\r\n"
    )
    async with raw_upstream(said) as upstream:
        await read(await ask(upstreams, upstream.url))
        await read(await ask(upstreams, upstream.url))

        assert upstream.last.lines == []


async def test_a_refused_connection_is_an_unreachable_upstream(
    upstreams: Http1Upstreams,
) -> None:
    with pytest.raises(UpstreamUnreachable) as caught:
        await ask(upstreams, "http://127.0.0.1:1")

    assert caught.value.kind == "refused"


async def test_a_name_that_nobody_has_is_an_unreachable_upstream(
    upstreams: Http1Upstreams,
) -> None:
    with pytest.raises(UpstreamUnreachable) as caught:
        await ask(upstreams, "http://no-such-host.invalid")

    assert caught.value.kind == "dns"


async def test_a_server_that_speaks_no_tls_is_an_unreachable_upstream(
    upstreams: Http1Upstreams,
) -> None:
    async def say_no_tls(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        writer.close()

    async with await asyncio.start_server(say_no_tls, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        with pytest.raises(UpstreamUnreachable) as caught:
            await ask(upstreams, f"https://127.0.0.1:{port}")

    assert caught.value.kind == "tls"


async def test_a_connection_that_is_not_taken_in_time_is_an_unreachable_upstream(
    impatient: Http1Upstreams,
) -> None:
    with socket.socket() as full:
        full.bind(("127.0.0.1", 0))
        full.listen(0)
        at = full.getsockname()
        with socket.socket() as first, socket.socket() as second:
            for each in (first, second):
                each.setblocking(False)
                each.connect_ex(at)
            with pytest.raises(UpstreamUnreachable) as caught:
                await ask(impatient, f"http://127.0.0.1:{at[1]}")

    assert caught.value.kind == "timeout"


async def test_before_open_nothing_can_be_reached() -> None:
    closed = Http1Upstreams(connect_seconds=1, idle_seconds=1)

    with pytest.raises(UpstreamUnreachable):
        await ask(closed, "http://127.0.0.1:1")
    await closed.close()


@pytest.mark.parametrize("said", [b"", b"HTTP/1.1 200", b"not http at all\r\n\r\n"])
async def test_an_end_before_the_head_is_a_broken_upstream(
    upstreams: Http1Upstreams, said: bytes
) -> None:
    async with raw_upstream(answer_with(said, closes=True)) as upstream:
        with pytest.raises(UpstreamBroken):
            await ask(upstreams, upstream.url)


async def test_an_upstream_silent_for_too_long_is_broken(
    impatient: Http1Upstreams,
) -> None:
    async def silent(got: Got) -> None:
        await got.until_gone()

    async with raw_upstream(silent) as upstream:
        with pytest.raises(UpstreamBroken):
            await ask(impatient, upstream.url)

        await asyncio.wait_for(upstream.last.gone.wait(), WAIT_SECONDS)


async def test_a_body_that_breaks_while_it_is_sent_keeps_its_own_name(
    upstreams: Http1Upstreams,
) -> None:
    async def pieces() -> AsyncIterator[bytes]:
        yield b"one"
        raise RequestMalformed

    async with raw_upstream() as upstream:
        with pytest.raises(RequestMalformed):
            await upstreams.send(
                method="POST", base=upstream.url, path="/", headers=(), body=pieces()
            )

        assert not any(got.is_whole for got in upstream.requests)
