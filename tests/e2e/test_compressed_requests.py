"""Compressed requests over real sockets: understood as if plain, sent as they came."""

import gzip
import json
import zlib
from collections.abc import Callable

import brotli
import pytest

from deuz_proxy.observe.zstandard import zstd
from deuz_testing.bodies import anthropic_body, assistant, user
from deuz_testing.line import (
    RULE,
    SOURCE_CONFIG,
    FixedSource,
    Line,
    make_config,
    running_line,
)
from deuz_testing.raw_client import Answered, ask, post, request
from deuz_testing.upstreams import Got, answer_with, raw_upstream

pytestmark = pytest.mark.e2e


def raw_deflate(data: bytes) -> bytes:
    packer = zlib.compressobj(wbits=-zlib.MAX_WBITS)
    return packer.compress(data) + packer.flush()


def gzipped(data: bytes) -> bytes:
    """Return the same bytes at any time of day."""
    return gzip.compress(data, mtime=0)


PACKERS: dict[str, tuple[list[bytes], Callable[[bytes], bytes]]] = {
    "gzip": ([b"Content-Encoding: gzip"], gzipped),
    "deflate": ([b"content-encoding: Deflate"], zlib.compress),
    "raw deflate": ([b"Content-Encoding: deflate"], raw_deflate),
    "br": ([b"CONTENT-ENCODING: br"], brotli.compress),
    "zstd": ([b"Content-Encoding: zstd"], zstd.compress),
    "stacked": (
        [b"Content-Encoding: gzip, br"],
        lambda data: brotli.compress(gzipped(data)),
    ),
    "two lines": (
        [b"Content-Encoding: br", b"X-Between: 1", b"Content-Encoding: gzip"],
        lambda data: gzipped(brotli.compress(data)),
    ),
}
FIRST = anthropic_body([user("Where?")])
NEXT = anthropic_body([user("Where?"), assistant("Here."), user("And now?")])
PLAIN = b"Content-Type: application/json"
USAGE = {"input_tokens": 7, "output_tokens": 3}
TEXT = {"type": "text", "text": "They talked."}
ANSWER = json.dumps(
    {"model": "m", "content": [TEXT], "stop_reason": "end_turn", "usage": USAGE}
).encode()
SAID = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%b" % (len(ANSWER), ANSWER)


async def send(line: Line, coding: str, body: bytes) -> Answered:
    lines, pack = PACKERS[coding]
    return await ask(line.url, post("/v1/messages", pack(body), PLAIN, *lines))


@pytest.mark.parametrize("coding", PACKERS)
@pytest.mark.parametrize("mode", ["off", "observe", "shadow", "compile"])
async def test_what_nothing_is_added_to_arrives_as_it_came(
    coding: str, mode: str
) -> None:
    lines, pack = PACKERS[coding]
    async with raw_upstream() as upstream:
        async with running_line(make_config(upstream.url, mode=mode)) as line:
            await send(line, coding, FIRST)

        assert upstream.last.body == pack(FIRST)
        assert upstream.last.lines == [PLAIN, *lines]
        assert upstream.last.header(b"content-length") == [b"%d" % len(pack(FIRST))]
    told = line.told.last
    assert told.passthrough == {"off": "off", "observe": "observe"}.get(mode)
    assert told.request_bytes == (0 if mode == "off" else len(pack(FIRST)))


@pytest.mark.parametrize("coding", PACKERS)
@pytest.mark.parametrize("mode", ["observe", "compile"])
async def test_a_body_is_the_same_conversation_compressed_or_not(
    coding: str, mode: str
) -> None:
    async with (
        raw_upstream(answer_with(SAID)) as upstream,
        running_line(make_config(upstream.url, mode=mode)) as line,
    ):
        await send(line, coding, FIRST)
        await ask(line.url, post("/v1/messages", NEXT))
        first, second = line.told.finished

    assert first.conversation == second.conversation is not None
    assert second.verdict is not None
    assert second.verdict.verdict == "extended"
    assert first.model == second.model == "claude-sonnet-4-5"
    assert first.usage is not None
    assert (first.usage.input_uncached, first.usage.output) == (7, 3)


@pytest.mark.parametrize("coding", PACKERS)
async def test_what_something_is_added_to_goes_out_plain_and_says_so(
    coding: str,
) -> None:
    more = SOURCE_CONFIG
    async with raw_upstream() as upstream:
        config = make_config(upstream.url, more=more)
        async with running_line(config, sources=[FixedSource()]) as line:
            await ask(line.url, post("/v1/messages", FIRST, PLAIN, b"X-Between: 1"))
            expected = upstream.last
            await send(line, coding, FIRST)

        assert RULE.text.encode() in upstream.last.body
        assert upstream.last.body == expected.body
        between = [b"X-Between: 1"] if coding == "two lines" else []
        assert upstream.last.lines == [PLAIN, *between]
        length = [b"%d" % len(expected.body)]
        assert upstream.last.header(b"content-length") == length
    told = line.told.last
    assert told.passthrough is None
    assert told.request_bytes == len(expected.body)


async def test_a_chunked_compressed_body_gets_its_length_when_it_is_spliced() -> None:
    packed = gzip.compress(FIRST)
    chunks = b"".join(b"1\r\n%b\r\n" % packed[at : at + 1] for at in range(len(packed)))
    lines = (b"Content-Encoding: gzip", b"Transfer-Encoding: chunked")
    async with raw_upstream() as upstream:
        config = make_config(upstream.url, more=SOURCE_CONFIG)
        async with running_line(config, sources=[FixedSource()]) as line:
            head = request("POST", "/v1/messages", None, *lines)
            await ask(line.url, head + chunks + b"0\r\n\r\n")

        assert RULE.text.encode() in upstream.last.body
        assert not upstream.last.header(b"content-encoding")
        assert not upstream.last.header(b"transfer-encoding")
        length = [b"%d" % len(upstream.last.body)]
        assert upstream.last.header(b"content-length") == length


async def test_a_recovered_request_goes_out_plain_and_says_so() -> None:
    told = (
        b'{"type":"error","error":{"type":"invalid_request_error",'
        b'"message":"prompt is too long: 300000 tokens > 200000 maximum"}}'
    )
    refusal = b"HTTP/1.1 400 No\r\nContent-Length: %d\r\n\r\n%b" % (len(told), told)

    async def answer(got: Got) -> None:
        await got.read_body()
        await got.say(refusal if len(upstream.requests) == 1 else SAID)

    turns = [user("w " * 3000), assistant("a " * 3000)] * 8
    body = anthropic_body([*turns, user("and now?")])
    async with raw_upstream(answer) as upstream:
        async with running_line(make_config(upstream.url)) as line:
            answered = await send(line, "gzip", body)

        first, *later = upstream.requests
    assert answered.status == 200
    assert first.body == gzipped(body)
    assert later
    for got in later:
        assert json.loads(got.body)["messages"]
        assert not got.header(b"content-encoding")
        assert got.header(b"content-length") == [b"%d" % len(got.body)]


def damaged() -> dict[str, tuple[bytes, bytes, str]]:
    whole = gzip.compress(FIRST)
    return {
        "cut": (b"gzip", whole[:-3], "damaged_encoding"),
        "checksum": (b"gzip", whole[:-8] + b"\0" * 8, "damaged_encoding"),
        "behind": (b"zstd", zstd.compress(FIRST) + b"x", "damaged_encoding"),
        "not it": (b"br", FIRST, "damaged_encoding"),
        "unknown": (b"made-up", FIRST, "unknown_encoding"),
        "five": (b"gzip," * 5, whole, "unknown_encoding"),
        "no json": (b"gzip", gzip.compress(FIRST[:-1]), "not_json"),
        "bomb": (b"gzip", gzip.compress(b" " * 9_000_000), "decoded_too_large"),
        "bombs": (
            b"gzip, zstd",
            zstd.compress(gzip.compress(b"\0" * 90_000_000)),
            "decoded_too_large",
        ),
    }


@pytest.mark.parametrize("kind", damaged())
@pytest.mark.parametrize("mode", ["observe", "compile"])
async def test_what_cannot_be_decoded_is_forwarded_as_it_is_and_counted(
    kind: str, mode: str
) -> None:
    coding, body, reason = damaged()[kind]
    limits = "limits: {max_body_bytes: 8000000}"
    async with raw_upstream() as upstream:
        config = make_config(upstream.url, mode=mode, more=limits)
        async with running_line(config, sources=[FixedSource()]) as line:
            label = b"Content-Encoding: " + coding
            answered = await ask(line.url, post("/v1/messages", body, label))

        assert answered.body == b"ok"
        assert upstream.last.body == body
        assert upstream.last.lines == [label]
    assert line.told.last.passthrough == reason
    assert line.told.last.outcome == "ok"
