"""Clients that leave at the end of an answer, before the connection says that it ended.

Rules:
- The upstream here never ends what it said: only the client's leaving can.
- Who was handed the final event has the answer; who leaves one event earlier has not.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from deuz_proxy.config.load import parse_config
from deuz_testing.bodies import anthropic_body, user
from deuz_testing.line import Line, running_line
from deuz_testing.raw_client import RawClient, post, raw_client
from deuz_testing.streams import STREAMS, Stream
from deuz_testing.upstreams import Got, RawUpstream, raw_upstream
from deuz_testing.waiting import WAIT_SECONDS, until

pytestmark = pytest.mark.e2e
ON_BOTH_LOOPS = True

BODY = anthropic_body([user("hi")], stream=True)
LEAVES: dict[str, Callable[[RawClient], None]] = {
    "fin": RawClient.leave,
    "rst": RawClient.reset,
}
CHUNKED = b"Transfer-Encoding: chunked\r\n"


def head(kind: bytes, more: bytes = b"") -> bytes:
    return b"HTTP/1.1 200 OK\r\nContent-Type: %b\r\n%b\r\n" % (kind, more)


def as_chunk(piece: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(piece), piece)


@asynccontextmanager
async def asked(
    answer: Callable[[Got], Awaitable[None]], stream: Stream, mode: str
) -> AsyncIterator[tuple[RawUpstream, Line, RawClient]]:
    """Send one request through a line to an upstream with this answer."""
    async with raw_upstream(answer) as upstream:
        text = stream.config(upstream.url, mode)
        config = parse_config(text, name="test", folder=Path(), environ={})
        async with running_line(config) as line, raw_client(line.url) as client:
            await client.send(post(stream.path, BODY))
            yield upstream, line, client


async def read(client: RawClient, length: int) -> bytes:
    """Read so many bytes of a chunked body."""
    await client.read_head()
    body = b""
    while len(body) < length:
        body += await client.read_chunk()
    return body


async def ends_all(upstream: RawUpstream, line: Line) -> None:
    """Check that nothing is left of the request, and that it is told once."""
    await asyncio.wait_for(upstream.last.gone.wait(), WAIT_SECONDS)
    await until(lambda: len(line.told.finished) == 1)
    await until(lambda: line.service.in_flight == 0)
    assert line.told.in_flight == 0


@pytest.mark.parametrize("framing", [b"", CHUNKED], ids=["to the end", "chunked"])
@pytest.mark.parametrize("leave", LEAVES)
@pytest.mark.parametrize("mode", ["observe", "compile"])
@pytest.mark.parametrize("name", STREAMS)
async def test_a_client_that_leaves_behind_the_final_event_has_its_answer(
    name: str, mode: str, leave: str, framing: bytes
) -> None:
    async def answer(got: Got) -> None:
        await got.read_body()
        await got.say(head(stream.kind, framing))
        for piece in (stream.begin, stream.end):
            await got.say(as_chunk(piece) if framing else piece)
        await got.until_gone()

    stream = STREAMS[name]
    whole = stream.begin + stream.end
    async with asked(answer, stream, mode) as (upstream, line, client):
        body = await read(client, len(whole))
        LEAVES[leave](client)

        await ends_all(upstream, line)

    told = line.told.last
    assert body == whole
    assert (told.outcome, told.status, told.error) == ("ok", 200, None)
    assert told.response_bytes == len(whole)
    assert told.usage is not None
    assert (told.usage.input_total, told.usage.output) == (3, 1)


@pytest.mark.parametrize("leave", LEAVES)
@pytest.mark.parametrize("mode", ["observe", "compile"])
@pytest.mark.parametrize("name", STREAMS)
async def test_a_client_that_leaves_before_the_final_event_has_left(
    name: str, mode: str, leave: str
) -> None:
    async def answer(got: Got) -> None:
        await got.read_body()
        await got.say(head(stream.kind) + stream.begin)
        await got.until_gone()

    stream = STREAMS[name]
    async with asked(answer, stream, mode) as (upstream, line, client):
        await read(client, len(stream.begin))
        LEAVES[leave](client)

        await ends_all(upstream, line)

    assert line.told.last.outcome == "client_closed"


@pytest.mark.parametrize("leave", LEAVES)
@pytest.mark.parametrize("mode", ["off", "observe", "compile"])
async def test_a_client_that_leaves_with_the_last_byte_of_a_stated_length_has_it_all(
    mode: str, leave: str
) -> None:
    async def answer(got: Got) -> None:
        await got.read_body()
        stated = b"Content-Length: %d\r\n" % len(whole)
        await got.say(head(b"application/json", stated) + whole)
        await got.until_gone()

    # More than a connection takes at once: the end waits for the client to read.
    whole = b'{"content":[],"text":"%b"}' % (b"x" * 8_000_000)
    async with asked(answer, STREAMS["anthropic"], mode) as (_, line, client):
        await client.read_head()
        body = await client.reader.readexactly(len(whole))
        LEAVES[leave](client)

        told = await line.told.until_finished()

    assert body == whole
    assert (told.outcome, told.response_bytes) == ("ok", len(whole))


async def test_a_client_that_leaves_behind_an_error_leaves_it_an_error() -> None:
    async def answer(got: Got) -> None:
        await got.read_body()
        await got.say(b"HTTP/1.1 529 Busy\r\n%b\r\n" % CHUNKED + as_chunk(error))
        await got.until_gone()

    error = b'{"type":"error","error":{"type":"overloaded_error","message":"Busy"}}'
    async with asked(answer, STREAMS["anthropic"], "observe") as (upstream, line, it):
        await read(it, len(error))
        it.leave()

        await ends_all(upstream, line)

    assert (line.told.last.outcome, line.told.last.status) == ("upstream_error", 529)
