"""Streams cut anywhere by the wire: the client gets the bytes, the meter the counts."""

import asyncio

import pytest

from deuz_testing.bodies import anthropic_body, user
from deuz_testing.line import make_config, running_line
from deuz_testing.raw_client import Answered, ask, post, raw_client
from deuz_testing.upstreams import Got, answer_with, raw_upstream

pytestmark = pytest.mark.e2e

BODY = anthropic_body([user("hi")], stream=True)
HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n"
START = (
    b'data: {"type":"message_start","message":{"id":"m","model":"x",'
    b'"usage":{"input_tokens":9,"output_tokens":1}}}\n\n'
)
TEXT = (
    'data: {"type":"content_block_delta","index":0,'
    '"delta":{"type":"text_delta","text":"h\u00e9\u20ac\U0001f600"}}\n\n'
).encode()
END = (
    b'data: {"type":"message_delta","delta":{"stop_reason":"end_turn"},'
    b'"usage":{"output_tokens":4}}\n\n'
)
STREAMS = {
    "line feeds": START + b": ping\n\n" + TEXT + END,
    "both": (START + TEXT + END).replace(b"\n", b"\r\n"),
    "no space": (START + TEXT + END).replace(b"data: ", b"data:"),
    "no last line end": START + TEXT + END.rstrip(),
    "blank lines behind": START + TEXT + END + b"\n\n\n",
    "another's marker": START + TEXT + END + b"data: [DONE]\n\n",
    "broken event": START + b'data: {"type":\xff\n\n' + TEXT + END,
}


@pytest.mark.parametrize("kind", STREAMS)
@pytest.mark.parametrize("mode", ["observe", "compile"])
async def test_a_stream_cut_at_any_byte_is_the_same_stream(
    kind: str, mode: str
) -> None:
    async def answer(got: Got) -> None:
        cut = len(upstream.requests)
        await got.read_body()
        await got.say(HEAD + b"Content-Length: %d\r\n\r\n" % len(stream))
        await got.say(stream[:cut])
        await asyncio.sleep(0)
        await got.say(stream[cut:])

    stream = STREAMS[kind]
    async with (
        raw_upstream(answer) as upstream,
        running_line(make_config(upstream.url, mode=mode)) as line,
        raw_client(line.url) as client,
    ):
        for number in range(1, len(stream)):
            await client.send(post("/v1/messages", BODY))
            assert (await client.read_answer()).body == stream
            told = await line.told.until_finished(number)

            assert told.usage is not None
            assert (told.usage.input_uncached, told.usage.output) == (9, 4)
            assert (told.outcome, told.finish_reason) == ("ok", "end_turn")


@pytest.mark.parametrize("mode", ["observe", "compile"])
async def test_events_in_one_packet_and_one_of_many_packets_stay_as_they_are(
    mode: str,
) -> None:
    big = TEXT.replace(b"h", b"h" * 300_000)
    stream = START + TEXT * 50 + big + END
    said = HEAD + b"Content-Length: %d\r\n\r\n" % len(stream) + stream
    async with (
        raw_upstream(answer_with(said)) as upstream,
        running_line(make_config(upstream.url, mode=mode)) as line,
    ):
        answered = await ask(line.url, post("/v1/messages", BODY))

    assert answered.body == stream
    assert line.told.last.usage is not None


TAILS: dict[str, tuple[bytes, str, str | None]] = {
    "within the text": (START + TEXT[:-9], "truncated", None),
    "behind the reason": (START + TEXT + END, "truncated", "end_turn"),
    "within the last event": (START + TEXT + END + b"data: {", "truncated", "end_turn"),
}


@pytest.mark.parametrize("tail", TAILS)
@pytest.mark.parametrize("mode", ["observe", "compile"])
async def test_a_stream_that_breaks_off_looks_broken_and_counts_what_was_seen(
    tail: str, mode: str
) -> None:
    stream, outcome, reason = TAILS[tail]
    said = HEAD + b"Content-Length: 9999\r\n\r\n" + stream
    async with (
        raw_upstream(answer_with(said, closes=True)) as upstream,
        running_line(make_config(upstream.url, mode=mode)) as line,
    ):
        answered: Answered = await ask(line.url, post("/v1/messages", BODY))

    assert (answered.body, answered.is_whole) == (stream, False)
    told = line.told.last
    assert (told.outcome, told.finish_reason) == (outcome, reason)
    assert told.usage is not None
