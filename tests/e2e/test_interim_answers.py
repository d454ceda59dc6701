"""Interim answers over real sockets: hints arrive ahead of the answer, as they came."""

import asyncio

import pytest

from deuz_testing.bodies import anthropic_body, user
from deuz_testing.line import make_config, running_line
from deuz_testing.raw_client import post, raw_client
from deuz_testing.upstreams import OK, Got, raw_upstream
from deuz_testing.waiting import WAIT_SECONDS, until

pytestmark = pytest.mark.e2e
ON_BOTH_LOOPS = True

BODY = anthropic_body([user("hi")])
HINTS = b"HTTP/1.1 103 Early Hints\r\nLink: <a>\r\nlink: <b>\r\n\r\n"
GO_ON = b"HTTP/1.1 100 Continue\r\nX-Hop: 1\r\n\r\n"


@pytest.mark.parametrize("mode", ["off", "observe", "compile"])
async def test_hints_reach_the_client_before_the_answer_is_there(mode: str) -> None:
    async def answer(got: Got) -> None:
        await got.read_body()
        await got.say(GO_ON + HINTS)
        await asyncio.wait_for(seen.wait(), WAIT_SECONDS)
        await got.say(HINTS + OK)

    seen = asyncio.Event()
    async with (
        raw_upstream(answer) as upstream,
        running_line(make_config(upstream.url, mode=mode)) as line,
        raw_client(line.url) as client,
    ):
        await client.send(post("/v1/messages", BODY))
        first = await client.read_head()
        seen.set()
        second = await client.read_head()
        answered = await client.read_answer()

    assert first == second == HINTS
    assert (answered.status, answered.body) == (200, b"ok")
    assert line.told.last.status == 200


async def test_a_client_that_expects_100_gets_one_and_the_hints() -> None:
    async def answer(got: Got) -> None:
        await got.read_body()
        await got.say(GO_ON + HINTS + OK)

    async with (
        raw_upstream(answer) as upstream,
        running_line(make_config(upstream.url)) as line,
        raw_client(line.url) as client,
    ):
        text = post("/v1/messages", BODY, b"Expect: 100-continue")
        await client.send(text[: -len(BODY)])
        told = await client.read_head()
        await client.send(BODY)

        assert told == b"HTTP/1.1 100 Continue\r\n\r\n"
        assert await client.read_head() == HINTS
        assert (await client.read_answer()).body == b"ok"


UPLOAD = post("/v1/files", BODY, b"Expect: 100-continue")


async def test_a_client_that_expects_100_is_asked_for_an_upload_by_its_upstream() -> (
    None
):
    async def answer(got: Got) -> None:
        await asyncio.wait_for(seen.wait(), WAIT_SECONDS)
        await got.say(GO_ON)
        await got.read_body()
        await got.say(OK)

    seen = asyncio.Event()
    async with (
        raw_upstream(answer) as upstream,
        running_line(make_config(upstream.url)) as line,
        raw_client(line.url) as client,
    ):
        await client.send(UPLOAD[: -len(BODY)])
        await upstream.until_asked()
        asking = asyncio.ensure_future(client.read_head())
        seen.set()
        told = await asking
        await client.send(BODY)

        assert told == GO_ON
        assert (await client.read_answer()).body == b"ok"
        assert upstream.last.body == BODY
        assert upstream.last.header(b"expect") == [b"100-continue"]


async def test_an_upload_that_is_refused_unasked_is_not_sent() -> None:
    async def answer(got: Got) -> None:
        await got.say(b"HTTP/1.1 401 No\r\nContent-Length: 2\r\n\r\nno")
        # Whatever comes behind the head ends the wait.
        rest.append(await got.reader.read(1))

    rest: list[bytes] = []
    async with (
        raw_upstream(answer) as upstream,
        running_line(make_config(upstream.url)) as line,
        raw_client(line.url) as client,
    ):
        await client.send(UPLOAD[: -len(BODY)])
        answered = await client.read_answer()

        assert (answered.status, answered.body) == (401, b"no")
        assert answered.lines[-1] == b"Connection: close"
        await until(lambda: rest == [b""])


async def test_who_does_not_wait_to_be_asked_for_an_upload_is_not_asked() -> None:
    async def answer(got: Got) -> None:
        await got.read_body()
        await got.say(GO_ON + OK)

    async with (
        raw_upstream(answer) as upstream,
        running_line(make_config(upstream.url)) as line,
        raw_client(line.url) as client,
    ):
        await client.send(UPLOAD)

        assert (await client.read_answer()).body == b"ok"


async def test_an_old_client_gets_the_answer_alone() -> None:
    async def answer(got: Got) -> None:
        await got.read_body()
        await got.say(HINTS + OK)

    async with (
        raw_upstream(answer) as upstream,
        running_line(make_config(upstream.url)) as line,
        raw_client(line.url) as client,
    ):
        await client.send(post("/v1/messages", BODY).replace(b"HTTP/1.1", b"HTTP/1.0"))
        got = await client.read_to_end()

    assert got.startswith(b"HTTP/1.1 200 OK\r\n")
    assert b"Link" not in got


async def test_endless_hints_to_a_client_that_does_not_read_pile_up_nowhere() -> None:
    async def answer(got: Got) -> None:
        await got.read_body()
        for _ in range(400):
            await got.say(long * 10)
        said.set()
        await got.say(OK)

    long = b"HTTP/1.1 103 Hints\r\nLink: %b\r\n\r\n" % (b"x" * 8000)
    said = asyncio.Event()
    async with (
        raw_upstream(answer) as upstream,
        running_line(make_config(upstream.url, mode="observe")) as line,
        raw_client(line.url) as client,
    ):
        client.reader._transport.pause_reading()  # type: ignore[attr-defined]
        await client.send(post("/v1/messages", BODY))
        await asyncio.wait_for(said.wait(), WAIT_SECONDS)
        client.reader._transport.resume_reading()  # type: ignore[attr-defined]
        hints = 0
        while (head := await client.read_head()) == long:
            hints += 1

    assert head.startswith(b"HTTP/1.1 200 OK\r\n")
    assert 0 < hints < 400 * 10
