"""Who reads slowly slows who writes: what is between them stays bounded."""

import asyncio

import pytest

from deuz_testing.bodies import anthropic_body, user
from deuz_testing.line import make_config, running_line
from deuz_testing.raw_client import post, raw_client, request
from deuz_testing.upstreams import OK, Got, raw_upstream
from deuz_testing.waiting import WAIT_SECONDS

pytestmark = pytest.mark.e2e
ON_BOTH_LOOPS = True

MB = 2**20
PIECE = b"data: " + b"x" * 65_000 + b"\n\n"
WHOLE_MB = 160
PIECES = WHOLE_MB * MB // len(PIECE)
# Four kernel buffers of up to 6 MB each, and less than 1 MB of our own.
MOST_MB = 40
BODY = anthropic_body([user("hi")], stream=True)
HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n"


async def until_still(sent: list[int]) -> int:
    """Return how many bytes were sent when no more were for a while."""
    before = -1
    while before != sent[0] or not sent[0]:
        before = sent[0]
        await asyncio.sleep(0.3)
    return before


@pytest.mark.parametrize("mode", ["off", "observe", "compile"])
async def test_a_client_that_does_not_read_stops_the_upstream(mode: str) -> None:
    async def answer(got: Got) -> None:
        await got.read_body()
        await got.say(HEAD + b"Content-Length: %d\r\n\r\n" % (PIECES * len(PIECE)))
        for _ in range(PIECES):
            await got.say(PIECE)
            sent[0] += len(PIECE)

    sent = [0]
    async with (
        raw_upstream(answer) as upstream,
        running_line(make_config(upstream.url, mode=mode)) as line,
        raw_client(line.url) as client,
    ):
        client.reader._transport.pause_reading()  # type: ignore[attr-defined]
        await client.send(post("/v1/messages", BODY))
        stopped_at = await until_still(sent)
        client.reader._transport.resume_reading()  # type: ignore[attr-defined]
        await client.read_head()
        got_bytes = 0
        while got_bytes < PIECES * len(PIECE):
            piece = await client.reader.read(MB)
            assert piece
            got_bytes += len(piece)
        finished = await line.told.until_finished()

    assert stopped_at < MOST_MB * MB
    assert (finished.outcome, finished.response_bytes) == ("ok", got_bytes)


async def test_an_upstream_that_does_not_read_stops_the_client() -> None:
    async def answer(got: Got) -> None:
        got.reader._transport.pause_reading()  # type: ignore[attr-defined]
        await asyncio.wait_for(go_on.wait(), WAIT_SECONDS)
        got.reader._transport.resume_reading()  # type: ignore[attr-defined]
        left = PIECES * len(PIECE)
        while left:
            left -= len(await got.reader.read(min(left, MB)))
        await got.say(OK)

    async def upload() -> None:
        for _ in range(PIECES):
            await client.send(PIECE)
            sent[0] += len(PIECE)

    sent, go_on = [0], asyncio.Event()
    length = b"Content-Length: %d" % (PIECES * len(PIECE))
    async with (
        raw_upstream(answer) as upstream,
        running_line(make_config(upstream.url)) as line,
        raw_client(line.url) as client,
        asyncio.TaskGroup() as group,
    ):
        await client.send(request("PUT", "/v1/files/f", None, length))
        uploading = group.create_task(upload())
        stopped_at = await until_still(sent)
        go_on.set()
        await asyncio.wait_for(uploading, WAIT_SECONDS)
        answered = await client.read_answer()

    assert stopped_at < MOST_MB * MB
    assert answered.body == b"ok"
