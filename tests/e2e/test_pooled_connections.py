"""Connections that an upstream ends while they are idle are no client's problem."""

import asyncio
import random
import socket
import struct
from collections.abc import Awaitable, Callable

import pytest

from deuz_testing.bodies import anthropic_body, user
from deuz_testing.line import make_config, running_line
from deuz_testing.raw_client import post, raw_client
from deuz_testing.upstreams import OK, Got, RawUpstream, raw_upstream

pytestmark = pytest.mark.e2e
ON_BOTH_LOOPS = True

BODY = anthropic_body([user("hi")])
RESET = struct.pack("ii", 1, 0)
CLIENTS, REQUESTS = 6, 50
MOODS: dict[str, Callable[[random.Random, int], float | None]] = {
    "at once": lambda rng, number: 0.0,
    "after three requests": lambda rng, number: 0.0 if number % 3 == 0 else None,
    "now and then": lambda rng, number: rng.choice([None, 0.0, 0.001, 0.002, 0.005]),
}


def end(got: Got, way: str) -> None:
    """End the connection as a server does that no longer wants it."""
    fd = got.writer.get_extra_info("socket").fileno()
    with socket.socket(fileno=socket.dup(fd)) as same:
        # At once: the loop ends it a turn later, when a request may have come.
        same.shutdown(socket.SHUT_RDWR)
        if way == "reset":
            same.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
    got.writer.transport.abort()


def is_idle(got: Got, upstream: RawUpstream) -> bool:
    """Tell whether no request has come meanwhile; what has come will be answered."""
    newest = [other for other in upstream.requests if other.writer is got.writer][-1]
    if newest is not got or got.reader._buffer:  # type: ignore[attr-defined]
        return False
    fd = got.writer.get_extra_info("socket").fileno()
    if fd < 0:
        return False
    with socket.socket(fileno=socket.dup(fd)) as same:
        try:
            return same.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT) == b""
        except BlockingIOError:
            return True


async def ask_on(url: str, rng: random.Random) -> list[int]:
    """Ask over and over on one connection, with pauses; return what was answered."""
    statuses = []
    async with raw_client(url) as client:
        for _ in range(REQUESTS):
            await client.send(post("/v1/messages", BODY))
            statuses.append((await client.read_answer()).status)
            await asyncio.sleep(rng.choice([0, 0, 0.001, 0.003]))
    return statuses


@pytest.mark.parametrize("way", ["close", "reset"])
@pytest.mark.parametrize("mood", MOODS)
@pytest.mark.parametrize("mode", ["off", "observe"])
async def test_no_client_sees_that_an_upstream_ends_idle_connections(
    mode: str, mood: str, way: str
) -> None:
    rng = random.Random(f"{mode} {mood} {way}")

    async def answer(got: Got) -> None:
        await got.read_body()
        await got.say(OK)
        delay = MOODS[mood](rng, len(upstream.requests))
        if delay == 0:
            end(got, way)
        elif delay is not None:
            # Idle until then: the next request is waited for beside it.
            loop.call_later(
                delay, lambda: end(got, way) if is_idle(got, upstream) else None
            )

    loop = asyncio.get_running_loop()
    async with raw_upstream(answer) as upstream:
        async with running_line(make_config(upstream.url, mode=mode)) as line:
            lists = await asyncio.gather(
                *(ask_on(line.url, random.Random(n)) for n in range(CLIENTS))
            )

        assert lists == [[200] * REQUESTS] * CLIENTS
        # Nothing was sent twice, and nothing was sent in part.
        assert len(upstream.requests) == CLIENTS * REQUESTS
        assert all(got.is_whole for got in upstream.requests)
        assert len({id(got.writer) for got in upstream.requests}) > CLIENTS


async def test_a_request_that_may_have_been_taken_is_not_sent_again() -> None:
    async def answer(got: Got) -> None:
        await got.read_body()
        if len(upstream.requests) == 1:
            await got.say(OK)
        else:
            end(got, "close")

    answering: Callable[[Got], Awaitable[None]] = answer
    async with raw_upstream(answering) as upstream:
        async with (
            running_line(make_config(upstream.url)) as line,
            raw_client(line.url) as client,
        ):
            statuses = []
            for _ in range(2):
                await client.send(post("/v1/messages", BODY))
                statuses.append((await client.read_answer()).status)

        assert statuses == [200, 502]
        assert len(upstream.requests) == 2


PIPELINED = 3


@pytest.mark.parametrize("way", ["close", "reset"])
@pytest.mark.parametrize("mode", ["off", "observe"])
async def test_pipelined_requests_outlive_the_end_of_idle_connections(
    mode: str, way: str
) -> None:
    async def answer(got: Got) -> None:
        await got.read_body()
        await got.say(OK)
        end(got, way)

    async with raw_upstream(answer) as upstream:
        async with (
            running_line(make_config(upstream.url, mode=mode)) as line,
            raw_client(line.url) as client,
        ):
            await client.send(post("/v1/messages", BODY) * PIPELINED)
            statuses = [(await client.read_answer()).status for _ in range(PIPELINED)]

        assert statuses == [200] * PIPELINED
        assert len(upstream.requests) == PIPELINED


@pytest.mark.parametrize("way", ["close", "reset"])
async def test_what_was_pipelined_behind_a_broken_answer_is_not_sent(way: str) -> None:
    """Its client sees one connection break, and asks for both again."""

    async def answer(got: Got) -> None:
        await got.read_body()
        await got.say(OK[:-1])
        end(got, way)

    async with raw_upstream(answer) as upstream:
        async with (
            running_line(make_config(upstream.url)) as line,
            raw_client(line.url) as client,
        ):
            await client.send(post("/v1/messages", BODY) * 2)
            answered = await client.read_answer()

            assert not answered.is_whole
            assert await client.read_to_end() == b""
        assert len(upstream.requests) == 1


async def test_what_was_pipelined_behind_a_request_that_broke_is_answered() -> None:
    async def answer(got: Got) -> None:
        await got.read_body()
        if len(upstream.requests) > 1:
            await got.say(OK)
        else:
            end(got, "close")

    answering: Callable[[Got], Awaitable[None]] = answer
    async with raw_upstream(answering) as upstream:
        async with (
            running_line(make_config(upstream.url)) as line,
            raw_client(line.url) as client,
        ):
            await client.send(post("/v1/messages", BODY) * 2)
            statuses = [(await client.read_answer()).status for _ in range(2)]

        assert statuses == [502, 200]
        assert len(upstream.requests) == 2
