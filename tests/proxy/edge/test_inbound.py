"""What a client sees of the sidecar's socket, byte for byte, and may do to it."""

import asyncio
import gzip
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from deuz_testing.line import Line, make_config, running_line
from deuz_testing.raw_client import ask, post, raw_client, request
from deuz_testing.upstreams import Got, RawUpstream, answer_with, raw_upstream

ON_BOTH_LOOPS = True


@pytest_asyncio.fixture
async def upstream() -> AsyncIterator[RawUpstream]:
    async with raw_upstream() as running:
        yield running


@pytest_asyncio.fixture
async def line(upstream: RawUpstream) -> AsyncIterator[Line]:
    async with running_line(make_config(upstream.url, mode="observe")) as running:
        yield running


ANSWER_LINES = [
    b"content-type: a/b; x=1",
    b"date: yesterday",
    b"SERVER: theirs",
    b"Set-Cookie: a=1; Path=/",
    b"set-cookie: b=2",
    b"Link: <x>; rel=next",
    b"Link: <y>; rel=last",
    b"X-Name: caf\xc3\xa9",
    b"X-Empty: ",
]


async def test_answer_lines_come_as_sent_repeated_ordered_and_in_their_case() -> None:
    head = b"\r\n".join([b"HTTP/1.1 200 Quite Good", *ANSWER_LINES])
    said = answer_with(head + b"\r\nContent-Length: 2\r\n\r\nok")
    async with (
        raw_upstream(said) as upstream,
        running_line(make_config(upstream.url)) as line,
    ):
        answered = await ask(line.url, request("GET", "/v1/models", None))

    assert answered.head.startswith(b"HTTP/1.1 200 Quite Good\r\n")
    trimmed = [each.rstrip() for each in answered.lines]
    assert trimmed == [
        *(each.rstrip() for each in ANSWER_LINES),
        b"Content-Length: 2",
    ]


async def test_no_line_is_invented_towards_the_client(line: Line) -> None:
    answered = await ask(line.url, request("GET", "/v1/models", None))

    assert answered.lines == [b"Content-Length: 2"]


async def test_hop_by_hop_answer_lines_end_at_the_sidecar() -> None:
    said = answer_with(
        b"HTTP/1.1 200 OK\r\nConnection: X-Mine, keep-alive\r\nKeep-Alive: x\r\n"
        b"X-Mine: 1\r\nTrailer: X-T\r\nX-Theirs: 2\r\nContent-Length: 2\r\n\r\nok"
    )
    async with (
        raw_upstream(said) as upstream,
        running_line(make_config(upstream.url)) as line,
    ):
        answered = await ask(line.url, request("GET", "/v1/models", None))

    assert answered.lines == [b"X-Theirs: 2", b"Content-Length: 2"]


@pytest.mark.parametrize("status", [b"204 No Content", b"304 Not Modified"])
async def test_answers_without_a_body_have_none_and_the_connection_lives(
    status: bytes,
) -> None:
    said = answer_with(b"HTTP/1.1 " + status + b"\r\nETag: e\r\n\r\n")
    async with (
        raw_upstream(said) as upstream,
        running_line(make_config(upstream.url)) as line,
        raw_client(line.url) as client,
    ):
        for _ in range(2):
            await client.send(request("GET", "/v1/models", None))
            answered = await client.read_answer()

            assert answered.lines == [b"ETag: e"]


async def test_a_head_request_gets_the_length_and_no_body() -> None:
    said = answer_with(b"HTTP/1.1 200 OK\r\nContent-Length: 999\r\nX-A: 1\r\n\r\n")
    async with raw_upstream(said) as upstream:
        async with (
            running_line(make_config(upstream.url)) as line,
            raw_client(line.url) as client,
        ):
            for _ in range(2):
                await client.send(request("HEAD", "/v1/models", None))
                answered = await client.read_answer(has_body=False)

                assert answered.lines == [b"Content-Length: 999", b"X-A: 1"]
        assert upstream.last.method == b"HEAD"


async def test_an_old_client_gets_the_body_until_the_connection_ends() -> None:
    said = answer_with(
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n"
    )
    async with (
        raw_upstream(said) as upstream,
        running_line(make_config(upstream.url)) as line,
        raw_client(line.url) as client,
    ):
        await client.send(b"GET /v1/models HTTP/1.0\r\nHost: x\r\n\r\n")
        got = await client.read_to_end()

    assert got.endswith(b"\r\n\r\nabc")
    assert b"chunked" not in got


async def test_an_old_client_sees_a_cut_answer_as_a_reset() -> None:
    said = answer_with(
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n",
        closes=True,
    )
    async with (
        raw_upstream(said) as upstream,
        running_line(make_config(upstream.url)) as line,
        raw_client(line.url) as client,
    ):
        await client.send(b"GET /v1/models HTTP/1.0\r\nHost: x\r\n\r\n")
        with pytest.raises(ConnectionResetError):
            await client.read_to_end()


async def test_what_came_before_a_cut_reaches_a_client_that_reads_late() -> None:
    text = b"x" * 300_000
    said = answer_with(
        b"HTTP/1.1 200 OK\r\nContent-Length: 300001\r\n\r\n" + text, closes=True
    )
    async with (
        raw_upstream(said) as upstream,
        running_line(make_config(upstream.url)) as line,
        raw_client(line.url) as client,
    ):
        await client.send(request("GET", "/v1/files/f", None))
        await line.told.until_finished()
        answered = await client.read_answer()

    assert answered.body == text
    assert not answered.is_whole
    assert line.told.last.outcome == "truncated"


async def test_a_client_that_expects_100_is_told_to_go_on(
    line: Line, upstream: RawUpstream
) -> None:
    body = b'{"a":1}' * 100_000
    async with raw_client(line.url) as client:
        await client.send(
            b"POST /v1/messages HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\n"
            b"Content-Length: %d\r\n\r\n" % len(body)
        )
        told = await client.read_head()
        await client.send(body)
        answered = await client.read_answer()

    assert told == b"HTTP/1.1 100 Continue\r\n\r\n"
    assert answered.status == 200
    assert upstream.last.body == body
    assert not upstream.last.header(b"expect")


async def test_a_chunked_body_with_extensions_and_a_trailer_arrives_whole(
    line: Line, upstream: RawUpstream
) -> None:
    body = b'{"model":"m","messages":[],"max_tokens":1}'
    pieces = [body[at : at + 7] for at in range(0, len(body), 7)]
    chunks = b"".join(b"%x;ext=1\r\n%b\r\n" % (len(p), p) for p in pieces)
    await ask(
        line.url,
        b"POST /v1/messages HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"
        + chunks
        + b"0\r\nX-Trailer: t\r\n\r\n",
    )

    assert upstream.last.body == body


@pytest.mark.parametrize("path", ["/v1/messages", "/v1/files"])
async def test_a_compressed_body_is_forwarded_as_it_came(
    line: Line, upstream: RawUpstream, path: str
) -> None:
    body = gzip.compress(b'{"model":"m"}')

    await ask(line.url, post(path, body, b"Content-Encoding: gzip"))

    assert upstream.last.body == body
    assert upstream.last.lines == [b"Content-Encoding: gzip"]


async def test_a_body_over_the_limit_is_refused_in_the_providers_shape(
    upstream: RawUpstream,
) -> None:
    config = make_config(upstream.url, more="limits: {max_body_bytes: 2048}")
    async with running_line(config) as line:
        stated = await ask(line.url, post("/v1/messages", b"x" * 4000))
        chunk = b"%x\r\n%b\r\n" % (4000, b"x" * 4000)
        chunked = await ask(
            line.url,
            b"POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\n"
            b"Transfer-Encoding: chunked\r\n\r\n" + chunk + b"0\r\n\r\n",
        )

    assert (stated.status, chunked.status) == (413, 413)
    assert b'"type":"error"' in stated.body
    assert b'"code":"body_too_large"' in stated.body
    assert b'"code":"body_too_large"' in chunked.body
    assert not upstream.requests
    assert [each.outcome for each in line.told.finished] == ["refused", "refused"]


async def test_a_line_of_many_kilobytes_passes(
    line: Line, upstream: RawUpstream
) -> None:
    long = b"X-State: " + b"s" * 40_000

    answered = await ask(line.url, request("GET", "/v1/models", None, long))

    assert answered.status == 200
    assert upstream.last.lines == [long]


async def test_what_is_not_http_is_answered_without_repeating_it(
    line: Line, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(0)
    answered = await ask(
        line.url, b"GET /v1/models HTTP/1.1\r\nX-Key: sk-canary\x00\r\n\r\n"
    )

    assert answered.status == 400
    assert b'"code":"malformed_request"' in answered.body
    assert b"canary" not in answered.head + answered.body
    assert "canary" not in caplog.text


@pytest.mark.parametrize("path", ["/v1/messages", "/v1/files"])
async def test_a_body_with_broken_framing_is_no_fault_of_the_upstream(
    line: Line, upstream: RawUpstream, path: str
) -> None:
    async with raw_client(line.url) as client:
        await client.send(
            b"POST %b HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"
            % path.encode()
        )
        await asyncio.sleep(0.05)
        await client.send(b"zz\r\nnot a chunk\r\n")
        answered = await client.read_answer()

    assert answered.status == 400
    assert b'"code":"malformed_request"' in answered.body
    assert line.told.last.outcome == "refused"
    assert not any(got.is_whole for got in upstream.requests)


async def test_a_pipelined_request_is_answered_after_the_first(line: Line) -> None:
    async with raw_client(line.url) as client:
        await client.send(request("GET", "/v1/a", None) + request("GET", "/v1/b", None))
        first = await client.read_answer()
        second = await client.read_answer()

    assert (first.body, second.body) == (b"ok", b"ok")


async def test_the_head_goes_out_before_the_first_byte_of_the_body() -> None:
    async def slow(got: Got) -> None:
        await got.say(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n")
        await got.until_gone()

    async with (
        raw_upstream(slow) as upstream,
        running_line(make_config(upstream.url)) as line,
        raw_client(line.url) as client,
    ):
        await client.send(request("GET", "/v1/events", None))
        head = await client.read_head()

    assert b"text/event-stream" in head
