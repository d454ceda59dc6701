"""Faults over real sockets: a client that leaves, an upstream that breaks, leaks."""

import asyncio
import contextlib
import gc
import json
import os
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from deuz_proxy.errors import StoreFailed
from deuz_testing.bodies import anthropic_body, user
from deuz_testing.line import FixedSource, Line, make_config, running_line
from deuz_testing.raw_client import RawClient, ask, post, raw_client, request
from deuz_testing.upstreams import (
    Got,
    RawUpstream,
    answer_ok,
    answer_with,
    raw_upstream,
)
from deuz_testing.waiting import WAIT_SECONDS, until

pytestmark = pytest.mark.e2e
ON_BOTH_LOOPS = True

BODY = anthropic_body([user("hi")], stream=True)
EVENT = b'data: {"type":"content_block_delta","delta":{"text":"a"}}\n\n'
STREAM = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n"
OVERFLOW = (
    b'{"type":"error","error":{"type":"invalid_request_error",'
    b'"message":"prompt is too long: 300000 tokens > 200000 maximum"}}'
)
LEAVES: dict[str, Callable[[RawClient], None]] = {
    "fin": RawClient.leave,
    "rst": RawClient.reset,
}


async def silent(got: Got) -> None:
    await got.read_body()
    await got.until_gone()


async def streaming(got: Got) -> None:
    await got.read_body()
    await got.say(STREAM + EVENT)
    await got.until_gone()


async def undecided(got: Got) -> None:
    """Say what is held back: a head and pings, and nothing more."""
    await got.read_body()
    await got.say(STREAM + b'event: ping\ndata: {"type":"ping"}\n\n')
    await got.until_gone()


async def stuck_upload(got: Got) -> None:
    await got.until_gone()


@contextlib.asynccontextmanager
async def between(
    answer: Callable[[Got], Awaitable[None]], mode: str
) -> AsyncIterator[tuple[RawUpstream, Line, RawClient]]:
    async with (
        raw_upstream(answer) as upstream,
        running_line(make_config(upstream.url, mode=mode)) as line,
        raw_client(line.url) as client,
    ):
        yield upstream, line, client


async def is_told_once(line: Line) -> None:
    """Check that the request was told once, as left by its client."""
    await until(lambda: len(line.told.finished) == 1)
    await until(lambda: line.service.in_flight == 0)
    assert line.told.in_flight == 0
    assert line.told.last.outcome == "client_closed"
    assert line.told.last.status in {200, 499}


@pytest.mark.parametrize("leave", LEAVES)
@pytest.mark.parametrize("mode", ["off", "observe", "compile"])
async def test_a_client_that_leaves_while_waiting_ends_the_upstream_call(
    leave: str, mode: str
) -> None:
    async with between(silent, mode) as (upstream, line, client):
        await client.send(post("/v1/messages", BODY))
        got = await upstream.until_asked()
        LEAVES[leave](client)

        await asyncio.wait_for(got.gone.wait(), WAIT_SECONDS)
        await is_told_once(line)


@pytest.mark.parametrize("leave", LEAVES)
@pytest.mark.parametrize("mode", ["off", "observe", "compile"])
async def test_a_client_that_leaves_in_a_stream_ends_the_upstream_call(
    leave: str, mode: str
) -> None:
    async with between(streaming, mode) as (upstream, line, client):
        await client.send(post("/v1/messages", BODY))
        await client.read_head()
        await client.read_chunk()
        LEAVES[leave](client)

        await asyncio.wait_for(upstream.last.gone.wait(), WAIT_SECONDS)
        await is_told_once(line)
        assert line.told.last.response_bytes == len(EVENT)


@pytest.mark.parametrize("leave", LEAVES)
async def test_a_client_that_leaves_while_the_answer_is_held_ends_the_upstream_call(
    leave: str,
) -> None:
    async with between(undecided, "compile") as (upstream, line, client):
        await client.send(post("/v1/messages", BODY))
        await upstream.until_asked()
        await asyncio.sleep(0.05)
        LEAVES[leave](client)

        await asyncio.wait_for(upstream.last.gone.wait(), WAIT_SECONDS)
        await is_told_once(line)


@pytest.mark.parametrize("leave", LEAVES)
@pytest.mark.parametrize("path", ["/v1/messages", "/v1/files"])
async def test_a_client_that_leaves_while_sending_never_makes_a_whole_request(
    leave: str, path: str
) -> None:
    async with between(stuck_upload, "compile") as (upstream, line, client):
        await client.send(post(path, b"x" * 1000)[:-500])
        await until(lambda: line.told.in_flight == 1)
        if path == "/v1/files":
            await upstream.until_asked()
        LEAVES[leave](client)

        for got in upstream.requests:
            await asyncio.wait_for(got.gone.wait(), WAIT_SECONDS)
        await is_told_once(line)
    assert not any(got.is_whole for got in upstream.requests)
    assert len(upstream.requests) == (path == "/v1/files")


async def test_a_client_that_leaves_during_recovery_ends_both_calls() -> None:
    async def answer(got: Got) -> None:
        await got.read_body()
        if len(upstream.requests) > 1:
            await got.until_gone()
            return
        head = b"HTTP/1.1 400 No\r\nContent-Length: %d\r\n\r\n" % len(OVERFLOW)
        await got.say(head + OVERFLOW)

    turns = [user("w " * 3000), {"role": "assistant", "content": "a " * 3000}] * 8
    body = anthropic_body([*turns, user("and now?")])
    async with between(answer, "compile") as (upstream, line, client):
        await client.send(post("/v1/messages", body))
        second = await upstream.until_asked(2)
        client.leave()

        await asyncio.wait_for(second.gone.wait(), WAIT_SECONDS)
        await is_told_once(line)


@pytest.mark.parametrize(
    ("path", "shape"),
    [
        ("/v1/messages", {"type", "error"}),
        ("/v1/chat/completions", {"error"}),
        ("/v1/responses", {"error"}),
        ("/v1beta/models/x:generateContent", {"error"}),
        ("/@openai/anything", {"error"}),
    ],
)
@pytest.mark.parametrize("mode", ["observe", "compile"])
async def test_an_unreachable_upstream_is_told_in_the_providers_shape(
    path: str, shape: set[str], mode: str
) -> None:
    config = make_config("http://127.0.0.1:1", mode=mode)
    gemini = config.upstreams["gemini"].model_copy(update={"url": "http://127.0.0.1:1"})
    config = config.model_copy(
        update={"upstreams": {**config.upstreams, "gemini": gemini}}
    )
    async with running_line(config) as line:
        answered = await ask(line.url, post(path, BODY))

    assert answered.status == 502
    told = json.loads(answered.body)
    assert set(told) == shape
    assert told["error"]["type"] == "sidecar_error"
    assert code_of(told["error"]) == "upstream_unreachable"
    finished = line.told.last
    assert (finished.outcome, finished.error) == (
        "upstream_error",
        "upstream_unreachable",
    )
    assert [call.error for call in finished.upstream_calls] == ["upstream_unreachable"]
    assert line.told.in_flight == 0


def code_of(error: dict[str, Any]) -> str:
    """Return our code; where the provider's own is a number, it is in the details."""
    if isinstance(error["code"], int):
        return str(error["details"][0]["reason"])
    return str(error["code"])


@pytest.mark.parametrize("mode", ["off", "observe", "compile"])
async def test_an_upstream_that_closes_before_its_head_is_told_and_not_asked_again(
    mode: str,
) -> None:
    async with raw_upstream(answer_with(b"", closes=True)) as upstream:
        async with running_line(make_config(upstream.url, mode=mode)) as line:
            answered = await ask(line.url, post("/v1/messages", BODY))

        assert len(upstream.requests) == 1
    assert answered.status == 502
    assert b'"code":"upstream_broken"' in answered.body


CUTS = {
    "short": b"HTTP/1.1 200 OK\r\nContent-Length: 999\r\n\r\n" + EVENT,
    "chunked": b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n%x\r\n%b\r\n"
    % (len(EVENT), EVENT),
    "in a chunk": b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nfff\r\n"
    + EVENT,
    "error": b"HTTP/1.1 400 Bad\r\nContent-Length: 999\r\n\r\n" + EVENT,
}


@pytest.mark.parametrize("cut", CUTS)
@pytest.mark.parametrize("mode", ["off", "observe", "compile"])
@pytest.mark.parametrize("path", ["/v1/messages", "/v1/files"])
async def test_a_cut_answer_reaches_the_client_cut(
    cut: str, mode: str, path: str
) -> None:
    async with (
        raw_upstream(answer_with(CUTS[cut], closes=True)) as upstream,
        running_line(make_config(upstream.url, mode=mode)) as line,
    ):
        answered = await ask(line.url, post(path, BODY))

    assert answered.head.split(b"\r\n")[0] == CUTS[cut].split(b"\r\n")[0]
    assert answered.body == EVENT
    assert not answered.is_whole
    assert (line.told.last.outcome, line.told.last.error) == (
        "truncated",
        "upstream_broken",
    )


async def test_an_answer_longer_than_it_said_is_not_taken_for_a_good_one() -> None:
    said = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nokmore"
    async with (
        raw_upstream(answer_with(said, closes=True)) as upstream,
        running_line(make_config(upstream.url)) as line,
    ):
        answered = await ask(line.url, request("GET", "/v1/x", None))

    assert answered.status == 502
    assert b'"code":"upstream_broken"' in answered.body


async def test_a_stream_without_its_final_event_passes_as_it_is() -> None:
    said = STREAM + EVENT
    async with (
        raw_upstream(answer_with(said, closes=True)) as upstream,
        running_line(make_config(upstream.url)) as line,
    ):
        answered = await ask(line.url, post("/v1/messages", BODY))

    assert (answered.body, answered.is_whole) == (EVENT, True)


async def test_connections_the_upstream_closed_while_idle_are_no_clients_problem() -> (
    None
):
    async def answer(got: Got) -> None:
        await answer_ok(got)
        got.writer.close()

    async with raw_upstream(answer) as upstream:
        async with running_line(make_config(upstream.url)) as line:
            for _ in range(20):
                answered = await ask(line.url, post("/v1/messages", BODY))
                assert answered.body == b"ok"
                await asyncio.sleep(0.005)

        assert len(upstream.requests) == 20


SOURCE_FAULTS: list[object] = [
    StoreFailed(store="s", operation="find"),
    ValueError("secret text"),
    TimeoutError(),
    asyncio.CancelledError(),
    ExceptionGroup("many", [ValueError()]),
    ["not a candidate"],
    None,
]


@pytest.mark.parametrize("fault", SOURCE_FAULTS, ids=lambda f: type(f).__name__)
async def test_whatever_a_source_does_the_request_goes_on(fault: object) -> None:
    source = FixedSource(found=fault)  # type: ignore[arg-type]
    async with raw_upstream() as upstream:
        config = make_config(upstream.url)
        async with running_line(config, sources=[source]) as line:
            answered = await ask(line.url, post("/v1/messages", BODY))

        assert upstream.last.body == BODY
    assert answered.body == b"ok"
    compiled = line.told.last.compile
    assert compiled is not None
    assert [s.status for s in compiled.sources] in (["failed"], ["late"])
    assert compiled.fallback in {"source-failed", "source-late"}


def open_files() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


@pytest.mark.skipif(not os.path.isdir("/proc/self/fd"), reason="needs /proc")
async def test_hundreds_of_aborted_requests_leave_nothing_behind() -> None:
    async def answer(got: Got) -> None:
        if got.target == b"/v1/messages":
            await got.read_body()
            await got.say(STREAM + EVENT)
        await got.until_gone()

    async with (
        raw_upstream(answer) as upstream,
        running_line(make_config(upstream.url)) as line,
    ):
        await abort_some(line, 5)
        await until(lambda: line.told.in_flight == 0)
        await until(lambda: line.service.in_flight == 0)
        gc.collect()
        before = (open_files(), len(asyncio.all_tasks()))

        for _ in range(12):
            await abort_some(line, 25)
        await until(lambda: line.told.in_flight == 0)
        gc.collect()
        # A connection may be held ready; a few more of anything would be a leak.
        await until(lambda: open_files() <= before[0] + 2)
        await until(lambda: len(asyncio.all_tasks()) <= before[1] + 2)

        assert line.service.in_flight == 0
        assert len(line.told.finished) == 305


async def abort_some(line: Line, count: int) -> None:
    """Abort requests in different phases: sending, waiting, streaming."""
    texts = [
        post("/v1/messages", BODY),
        post("/v1/chat/completions", BODY),
        post("/v1/files", b"x" * 1000)[:-10],
        post("/v1/messages", BODY)[:-10],
        request("GET", "/v1/wait", None),
    ]

    async def one(number: int) -> None:
        async with raw_client(line.url) as client:
            await client.send(texts[number % len(texts)])
            if number % len(texts) == 0:
                await client.read_head()
            else:
                await asyncio.sleep(0.02)
            client.reset() if number % 2 else client.leave()

    await asyncio.gather(*(one(number) for number in range(count)))
