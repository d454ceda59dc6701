"""Limits of the config over real sockets: each is answered in the provider's shape."""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import pytest

from deuz_testing.bodies import anthropic_body, user
from deuz_testing.line import Line, make_config, running_line
from deuz_testing.raw_client import Answered, ask, post, raw_client, request
from deuz_testing.upstreams import RawUpstream, raw_upstream
from deuz_testing.waiting import until

pytestmark = pytest.mark.e2e
ON_BOTH_LOOPS = True

BODY = anthropic_body([user("hi")])
SHAPES: dict[str, Callable[[dict[str, object]], bool]] = {
    "/v1/messages": lambda told: told["type"] == "error",
    "/v1/chat/completions": lambda told: "param" in told["error"],  # type: ignore[operator]
    "/nowhere": lambda told: "status" in told["error"],  # type: ignore[operator]
}


@asynccontextmanager
async def held_to(limits: str) -> AsyncIterator[tuple[RawUpstream, Line]]:
    async with raw_upstream() as upstream:
        more = f"limits: {{{limits}}}"
        async with running_line(make_config(upstream.url, more=more)) as line:
            yield upstream, line


def check(answered: Answered, path: str, status: int, code: str) -> None:
    """Check that it is a whole refusal in the shape of the path's provider."""
    told = json.loads(answered.body)
    assert answered.status == status
    assert (told["error"]["type"], told["error"]["code"]) == ("sidecar_error", code)
    assert SHAPES[path](told)
    assert answered.is_whole


@pytest.mark.parametrize("path", SHAPES)
async def test_a_head_too_long_or_of_too_many_lines_is_431(path: str) -> None:
    long = request("GET", path, None, b"X-State: " + b"s" * 5000)
    many = request("GET", path, None, *[b"X: 1"] * 30)
    async with held_to("max_head_bytes: 4096, max_head_lines: 16") as (upstream, line):
        for text, words in (
            (long, b"4096 bytes (limits.max_head_bytes)"),
            (long[:-2], b"4096 bytes (limits.max_head_bytes)"),
            (many, b"16 lines (limits.max_head_lines)"),
        ):
            answered = await ask(line.url, text)
            check(answered, path, 431, "head_too_large")
            assert words in answered.body
        assert (await ask(line.url, post("/v1/messages", BODY))).status == 200

        assert len(upstream.requests) == 1


@pytest.mark.parametrize("path", SHAPES)
async def test_one_connection_too_many_is_503_and_the_others_go_on(path: str) -> None:
    async with (
        held_to("max_connections: 2") as (upstream, line),
        raw_client(line.url) as one,
        raw_client(line.url) as two,
    ):
        for client in (one, two):
            await client.send(post("/v1/messages", BODY))
            assert (await client.read_answer()).status == 200
        refused = await ask(line.url, request("GET", path, None))
        await one.send(post("/v1/messages", BODY))

        check(refused, path, 503, "too_many_connections")
        assert (await one.read_answer()).status == 200
        assert len(upstream.requests) == 3
        two.leave()
        await two.writer.wait_closed()
        assert (await ask(line.url, post("/v1/messages", BODY))).status == 200


@pytest.mark.parametrize("path", SHAPES)
async def test_a_head_that_comes_too_slowly_is_408(path: str) -> None:
    async with held_to("head_seconds: 0.2") as (_, side), raw_client(side.url) as slow:
        line, _, rest = request("GET", path, None)[:-2].partition(b"\r\n")
        # The refusal's shape is the path's: that must have come by then.
        await slow.send(line + b"\r\n")
        for byte in rest:
            await slow.send(bytes([byte]))
            await asyncio.sleep(0.001)

        check(await slow.read_answer(), path, 408, "request_too_slow")
        assert await slow.read_to_end() == b""


@pytest.mark.parametrize("path", ["/v1/messages", "/v1/files"])
async def test_a_body_that_stops_coming_is_408_and_never_looks_whole(path: str) -> None:
    async with held_to("body_seconds: 0.2") as (upstream, line):
        answered = await ask(line.url, post(path, BODY)[:-1])
        await until(lambda: line.told.in_flight == 0)

        assert answered.status == 408
        assert b'"code":"request_too_slow"' in answered.body
        assert not any(got.is_whole for got in upstream.requests)
    assert (line.told.last.outcome, line.told.last.error) == (
        "refused",
        "request_too_slow",
    )


async def test_a_body_too_long_is_413_and_not_where_it_is_not_read() -> None:
    async with held_to("max_body_bytes: 2048") as (upstream, line):
        refused = await ask(line.url, post("/v1/messages", b"x" * 4000))
        passed = await ask(line.url, post("/v1/files", b"x" * 4000))

        assert len(upstream.requests) == 1
    check(refused, "/v1/messages", 413, "body_too_large")
    assert passed.status == 200


async def test_an_idle_client_is_let_go_in_time() -> None:
    async with (
        held_to("keep_alive_seconds: 0.2") as (_, line),
        raw_client(line.url) as client,
    ):
        await client.send(post("/v1/messages", BODY))
        await client.read_answer()

        assert await client.read_to_end() == b""


async def test_many_slow_heads_do_not_keep_others_out() -> None:
    limits = "head_seconds: 1, max_connections: 110"
    async with held_to(limits) as (_, line), contextlib.AsyncExitStack() as stack:
        slow = []
        for _ in range(100):
            # Begun at once: one that says nothing for so long is let go without a word.
            slow.append(await stack.enter_async_context(raw_client(line.url)))
            await slow[-1].send(b"GET /v1/models HTTP/1.1\r\nA: ")
        meanwhile = await ask(line.url, post("/v1/messages", BODY))
        ends = await asyncio.gather(*(each.read_to_end() for each in slow))
        for each in slow:
            each.leave()
            await each.writer.wait_closed()
        for _ in range(80):
            await stack.enter_async_context(raw_client(line.url))
        afterwards = await ask(line.url, post("/v1/messages", BODY))

    assert (meanwhile.status, afterwards.status) == (200, 200)
    assert all(end.startswith(b"HTTP/1.1 408 ") for end in ends)
