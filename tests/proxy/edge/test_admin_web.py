"""What the admin API is written on, asked as clients and strangers ask."""

import asyncio
import json
import logging
import re

import pytest

from deuz_proxy.edge.admin_web import (
    Answer,
    Application,
    Key,
    Request,
    Response,
    Stream,
    json_response,
)
from deuz_testing.admin import asked, listening
from deuz_testing.raw_client import raw_client
from deuz_testing.waiting import WAIT_SECONDS

CANARY = b"CANARY-in-a-path"
GREETING = Key[str]()


async def show(request: Request) -> Response:
    """Tell what the route and the query name."""
    return json_response([dict(request.named), dict(request.query)])


async def greet(request: Request) -> Response:
    return Response(request.app[GREETING].encode(), content_type="text/plain")


async def fail(_: Request) -> Response:
    raise ValueError(CANARY.decode())


async def fail_halfway(request: Request) -> Answer:
    stream = Stream(request, "text/plain")
    await stream.write(b"the first half")
    raise ValueError(CANARY.decode())


async def refuse_halfway(request: Request) -> Answer:
    stream = Stream(request, "text/plain")
    await stream.write(b"the first half")
    return Response(b"refused", 503)


async def count(request: Request) -> Response:
    pieces = [piece async for piece in request.pieces()]
    return Response(str(len(b"".join(pieces))).encode())


def make_app() -> Application:
    app = Application(
        dress=lambda headers: headers.update({"X-Dressed": "1"}), clock=lambda: 0.0
    )
    app[GREETING] = "hello"
    app.add("GET", "/things/{scope}/{id}", show)
    app.add("GET", "/things/{scope}", show)
    app.add("GET", "/greet", greet)
    app.add("GET", "/fail", fail)
    app.add("GET", "/halfway", fail_halfway)
    app.add("GET", "/refused-halfway", refuse_halfway)
    app.add("POST", "/count", count)
    return app


async def reply_to(request: bytes) -> bytes:
    """What comes back to these bytes, until the server ends the connection."""
    async with listening(make_app()) as url, raw_client(url) as client:
        await client.send(request)
        async with asyncio.timeout(WAIT_SECONDS):
            return await client.read_to_end()


def get(target: bytes, method: bytes = b"GET") -> bytes:
    return b"%b %b HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n" % (method, target)


@pytest.mark.parametrize(
    ("target", "named", "query"),
    [
        (b"/things/a/b", {"scope": "a", "id": "b"}, {}),
        (b"/things/a%2Fb", {"scope": "a/b"}, {}),
        (b"/things/a%2fb/c", {"scope": "a/b", "id": "c"}, {}),
        (b"/%74hings/a", {"scope": "a"}, {}),
        (b"/things/%7Ba%7D", {"scope": "{a}"}, {}),
        (
            b"/things/a?x=1&x=2&y=&z=a+b%2B",
            {"scope": "a"},
            {"x": "1", "y": "", "z": "a b+"},
        ),
        (b"/things/a?x=/b?c", {"scope": "a"}, {"x": "/b?c"}),
        (b"http://x/things/a?x=1", {"scope": "a"}, {"x": "1"}),
    ],
)
async def test_steps_and_query_are_what_the_target_says(
    target: bytes, named: dict[str, str], query: dict[str, str]
) -> None:
    head, _, body = (await reply_to(get(target))).partition(b"\r\n\r\n")

    assert head.startswith(b"HTTP/1.1 200 OK\r\n")
    assert json.loads(body) == [named, query]


@pytest.mark.parametrize(
    "target", [b"/things", b"/things/", b"/things//b", b"/things/a/b/c", b"//things/a"]
)
async def test_empty_steps_and_others_are_no_match(target: bytes) -> None:
    # Nothing stands around the handlers here that explains it.
    assert (await reply_to(get(target))).startswith(b"HTTP/1.1 500 ")


async def test_an_answer_says_its_length_its_date_and_what_it_is_dressed_in() -> None:
    head, _, body = (await reply_to(get(b"/greet"))).partition(b"\r\n\r\n")

    assert head.splitlines()[1:] == [
        b"Content-Type: text/plain",
        b"Content-Length: 5",
        b"Date: Thu, 01 Jan 1970 00:00:00 GMT",
        b"X-Dressed: 1",
        b"Connection: close",
    ]
    assert body == b"hello"


async def test_head_is_answered_like_get_without_the_body() -> None:
    reply = await reply_to(get(b"/greet", b"HEAD"))

    assert b"Content-Length: 5\r\n" in reply
    assert reply.endswith(b"\r\n\r\n")


async def test_a_connection_is_kept_for_the_next_request() -> None:
    async with asked(make_app()) as client:
        for _ in range(2):
            async with client.post("/count", data=b"x" * 300_000) as answer:
                assert await answer.text() == "300000"


async def test_a_fault_is_answered_and_told_by_kind_and_place_not_by_its_text(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with caplog.at_level(logging.ERROR):
        reply = await reply_to(get(b"/fail"))

    assert reply.startswith(b"HTTP/1.1 500 ")
    assert "fault in the sidecar: ValueError" in caplog.text
    assert CANARY not in reply
    assert CANARY.decode() not in caplog.text


@pytest.mark.parametrize("target", [b"/halfway", b"/refused-halfway"])
async def test_half_an_answer_does_not_look_whole(target: bytes) -> None:
    reply = await reply_to(get(target))

    assert b"the first half" in reply
    assert not reply.endswith(b"0\r\n\r\n")
    assert reply.count(b"HTTP/1.1") == 1


@pytest.mark.parametrize(
    "request_bytes",
    [
        b"GET /%b\xff HTTP/1.1\r\n\r\n" % CANARY,
        b"GET /%b HTTP/1.1\r\n\r\n" % (CANARY * 100_000),
        b"%b\x16\x03\r\n\r\n" % CANARY,
        b"GET /%b HTTP/1.1\r\nno colon\r\n\r\n" % CANARY,
        b"POST /count?%b HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nx\r\n"
        % CANARY,
    ],
)
async def test_what_is_no_http_is_refused_and_not_quoted(
    request_bytes: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    reply = await reply_to(request_bytes)

    assert re.match(rb"HTTP/1\.1 4\d\d ", reply)
    assert CANARY not in reply
    assert CANARY.decode() not in caplog.text


async def test_whoever_does_not_read_waits_alone_and_is_let_go_at_the_end() -> None:
    app = make_app()
    has_ended = asyncio.Event()

    async def pour(request: Request) -> Answer:
        stream = Stream(request, "text/plain")
        try:
            while True:
                await stream.write(b"x" * 65_536)
        finally:
            has_ended.set()

    app.add("GET", "/pour", pour)
    async with listening(app) as url, raw_client(url) as sleeper:
        await sleeper.send(get(b"/pour"))
        async with raw_client(url) as other, asyncio.timeout(WAIT_SECONDS):
            await other.send(get(b"/greet"))
            assert (await other.read_to_end()).endswith(b"hello")

    assert has_ended.is_set()
