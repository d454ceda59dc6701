"""Requests that can be read in two ways are refused; odd ones that cannot, pass."""

import pytest

from deuz_testing.line import make_config, running_line
from deuz_testing.raw_client import ask, raw_client, request
from deuz_testing.upstreams import answer_with, raw_upstream

pytestmark = pytest.mark.e2e
ON_BOTH_LOOPS = True

SMUGGLED = b"GET /v1/smuggled HTTP/1.1\r\nHost: a\r\n\r\n"
POST = b"POST /v1/files HTTP/1.1\r\nHost: a\r\n"
OLD_POST = POST.replace(b"1.1", b"1.0")
CHUNK = b"5\r\nhello\r\n0\r\n\r\n"
CHUNKED = b"Transfer-Encoding: chunked\r\n"
SHAPES = {
    "length and coding": POST + b"Content-Length: 5\r\n" + CHUNKED + b"\r\n" + CHUNK,
    "coding and length": POST + CHUNKED + b"Content-Length: 5\r\n\r\n" + CHUNK,
    "two lengths": POST + b"Content-Length: 5\r\nContent-Length: 0\r\n\r\nhello",
    "the same length twice": POST + b"Content-Length: 5\r\n" * 2 + b"\r\nhello",
    "lengths in one line": POST + b"Content-Length: 5, 5\r\n\r\nhello",
    "signed length": POST + b"Content-Length: +5\r\n\r\nhello",
    "length in hex": POST + b"Content-Length: 0x5\r\n\r\nhello",
    "length with a space in it": POST + b"Content-Length: 5 0\r\n\r\nhello",
    "space before the colon": POST + b"Content-Length : 5\r\n\r\nhello",
    "folded line": POST + b"X: 1\r\n Content-Length: 5\r\n\r\nhello",
    "bare line feeds": POST.replace(b"\r\n", b"\n") + b"Content-Length: 5\n\nhello",
    "bare carriage return": POST + b"X: 1\rContent-Length: 5\r\n\r\nhello",
    "zero byte": POST + b"Content-Length: 5\x00\r\n\r\nhello",
    "coding twice": POST + CHUNKED * 2 + b"\r\n" + CHUNK,
    "other coding last": POST + b"Transfer-Encoding: chunked, gzip\r\n\r\n" + CHUNK,
    "other coding first": POST + b"Transfer-Encoding: gzip, chunked\r\n\r\n" + CHUNK,
    "almost the coding": POST + b"Transfer-Encoding: xchunked\r\n\r\n" + CHUNK,
    "coding in an old request": POST.replace(b"1.1", b"1.0")
    + CHUNKED
    + b"\r\n"
    + CHUNK,
    "size with a sign": POST + CHUNKED + b"\r\n+5\r\nhello\r\n0\r\n\r\n",
    "size with 0x": POST + CHUNKED + b"\r\n0x5\r\nhello\r\n0\r\n\r\n",
    "size too long": POST + CHUNKED + b"\r\n" + b"0" * 40 + b"5\r\nhello\r\n0\r\n\r\n",
    "negative size": POST + CHUNKED + b"\r\n-5\r\nhello\r\n0\r\n\r\n",
    "size by a bare line feed": POST + CHUNKED + b"\r\n5\nhello\r\n0\r\n\r\n",
    "chunk longer than it says": POST + CHUNKED + b"\r\n4\r\nhello\r\n0\r\n\r\n",
    "two hosts": b"GET /v1/x HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n",
    "no host": b"GET /v1/x HTTP/1.1\r\n\r\n",
    "spaces in the target": b"GET /v1/x y HTTP/1.1\r\nHost: a\r\n\r\n",
    "another version": b"GET /v1/x HTTP/2.0\r\nHost: a\r\n\r\n",
    "tunnel": b"CONNECT a:443 HTTP/1.1\r\nHost: a\r\n\r\n",
    "http/2": b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
}


@pytest.mark.parametrize("shape", SHAPES)
async def test_what_could_be_read_in_two_ways_is_refused_with_all_behind_it(
    shape: str,
) -> None:
    async with raw_upstream() as upstream:
        async with (
            running_line(make_config(upstream.url)) as line,
            raw_client(line.url) as client,
        ):
            await client.send(SHAPES[shape] + SMUGGLED)
            answered = await client.read_answer()
            rest = await client.read_to_end()

        assert (answered.status, rest) == (400, b"")
        assert b'"code":"malformed_request"' in answered.body
        assert not any(got.is_whole for got in upstream.requests)
        assert not any(b"smuggled" in got.head for got in upstream.requests)


async def test_a_whole_address_leads_nowhere_and_is_not_guessed_at() -> None:
    async with raw_upstream() as upstream:
        async with running_line(make_config(upstream.url)) as line:
            answered = await ask(
                line.url,
                b"GET http://else.test/v1/models HTTP/1.1\r\nHost: else.test\r\n\r\n",
            )

        # Who takes the sidecar for a forward proxy must not reach a provider by it.
        assert answered.status == 404
        assert upstream.requests == []


async def test_a_trace_is_forwarded_like_any_other_method() -> None:
    said = (
        b"HTTP/1.1 200 OK\r\nContent-Type: message/http\r\nContent-Length: 3\r\n\r\nabc"
    )
    async with raw_upstream(answer_with(said)) as upstream:
        async with running_line(make_config(upstream.url)) as line:
            text = request("TRACE", "/v1/x", None, b"Max-Forwards: 3")
            answered = await ask(line.url, text)

        assert upstream.last.method == b"TRACE"
        assert upstream.last.lines == [b"Max-Forwards: 3"]
    assert answered.body == b"abc"


async def test_bytes_that_are_no_text_cross_in_both_directions() -> None:
    odd = [b"X-Odd: \xff\xfe\x80 caf\xe9", b"x-odd: \xc3\xa9\ta  b"]
    said = b"HTTP/1.1 200 \xe9t\xe9\r\n%b\r\nContent-Length: 2\r\n\r\nok"
    async with raw_upstream(answer_with(said % b"\r\n".join(odd))) as upstream:
        async with running_line(make_config(upstream.url)) as line:
            answered = await ask(line.url, request("GET", "/v1/x", None, *odd))

        assert upstream.last.lines == odd
    assert answered.head.startswith(b"HTTP/1.1 200 \xe9t\xe9\r\n")
    assert answered.lines == [*odd, b"Content-Length: 2"]


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
async def test_a_redirect_comes_back_with_its_place_and_is_not_followed(
    status: int,
) -> None:
    place = b"Location: https://elsewhere.test/v1/x?key=1"
    said = b"HTTP/1.1 %d Moved\r\n%b\r\nContent-Length: 0\r\n\r\n" % (status, place)
    async with raw_upstream(answer_with(said)) as upstream:
        async with running_line(make_config(upstream.url)) as line:
            answered = await ask(line.url, request("GET", "/v1/x", None))

        assert len(upstream.requests) == 1
    assert answered.status == status
    assert place in answered.lines
