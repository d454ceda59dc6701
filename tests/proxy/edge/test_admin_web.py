"""What the admin API is written on, asked as clients and strangers ask."""

import asyncio
import gzip
import json
import logging
import re
from collections.abc import AsyncIterator

import pytest

from deuz_proxy.edge.admin_web import (
    Application,
    Request,
    Response,
    Stream,
    answer_json,
    refuse,
)
from deuz_testing.admin import asked, listening, open_app
from deuz_testing.raw_client import RawClient, ask, post, raw_client, request
from deuz_testing.waiting import WAIT_SECONDS

CANARY = b"CANARY-in-a-path"
LIMIT_BYTES = 400_000
SOME_BYTES = 65_536


async def show(asked_for: Request) -> Response:
    """Tell what the route and the query name."""
    return answer_json([dict(asked_for.named), dict(asked_for.query)])


async def greet(_: Request) -> Response:
    return Response(b"hello", content_type="text/plain")


async def fail(_: Request) -> Response:
    raise ValueError(CANARY.decode())


async def fail_halfway(_: Request) -> Stream:
    async def pieces() -> AsyncIterator[bytes]:
        yield b"the first half"
        raise ValueError(CANARY.decode())

    return Stream("text/plain", pieces())


async def count(asked_for: Request) -> Response:
    body = await asked_for.read(limit_bytes=LIMIT_BYTES)
    return Response(str(len(body)).encode())


def make_app() -> Application:
    app = open_app()
    app.add("GET", "/things/{scope}/{id}", show)
    app.add("GET", "/things/{scope}", show)
    app.add("GET", "/greet", greet)
    app.add("GET", "/fail", fail)
    app.add("GET", "/halfway", fail_halfway)
    app.add("POST", "/count", count)
    return app


async def reply_to(text: bytes) -> bytes:
    """What comes back to these bytes, until the server ends the connection."""
    async with listening(make_app()) as url, raw_client(url) as client:
        await client.send(text)
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
        (b"/things/100%", {"scope": "100%"}, {}),
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
    reply = await reply_to(get(target))

    assert reply.startswith(b"HTTP/1.1 404 ")
    assert b'"unknown_path"' in reply
    assert b"docs/operations.md" in reply


@pytest.mark.parametrize("target", [b"/things/%FF", b"/things/a?x=%C3%28"])
async def test_what_is_no_text_is_refused_not_replaced(target: bytes) -> None:
    # Replaced, two ids would be one.
    reply = await reply_to(get(target))

    assert reply.startswith(b"HTTP/1.1 400 ")
    assert b'"malformed_request"' in reply


async def test_a_method_that_a_path_does_not_take_is_told_which_it_takes() -> None:
    reply = await reply_to(get(b"/greet", b"DELETE"))

    assert reply.startswith(b"HTTP/1.1 405 ")
    assert b"\r\nAllow: GET, HEAD\r\n" in reply
    assert b'"method_not_allowed"' in reply


async def test_what_the_guard_refuses_reaches_no_handler() -> None:
    app = Application(guard=lambda _: refuse(403, "no", "not you"), headers={})
    app.add("GET", "/fail", fail)

    async with listening(app) as url:
        answered = await ask(url, get(b"/fail"))

    assert answered.status == 403
    assert json.loads(answered.body) == {"error": {"code": "no", "message": "not you"}}


async def test_an_answer_says_its_length_its_date_and_what_all_of_them_say() -> None:
    head, _, body = (await reply_to(get(b"/greet"))).partition(b"\r\n\r\n")

    lines = [
        re.sub(rb"^Date: \w{3}, \d\d .* GMT$", b"Date", n) for n in head.split(b"\r\n")
    ]
    assert lines[1:] == [
        b"X-Common: 1",
        b"Date",
        b"Content-Type: text/plain",
        b"Content-Length: 5",
        b"Connection: close",
    ]
    assert body == b"hello"


async def test_head_is_answered_like_get_without_the_body() -> None:
    reply = await reply_to(get(b"/greet", b"HEAD"))

    assert b"Content-Length: 5\r\n" in reply
    assert reply.endswith(b"\r\n\r\n")


async def test_head_of_a_stream_is_answered_at_once_and_ends_it() -> None:
    app, ended = make_app(), []

    async def stream(_: Request) -> Stream:
        return Stream("text/plain", pour(), lambda: ended.append(True))

    app.add("GET", "/pour", stream)

    async with listening(app) as url, raw_client(url) as client:
        await client.send(request("HEAD", "/pour", None))
        answered = await client.read_answer(has_body=False)
        await client.send(get(b"/greet"))
        following = await client.read_answer()

    assert (answered.status, following.body) == (200, b"hello")
    assert ended == [True]


async def pour() -> AsyncIterator[bytes]:
    while True:
        yield b"x" * SOME_BYTES


async def test_a_connection_is_kept_for_the_next_request() -> None:
    async with asked(make_app()) as client:
        for _ in range(2):
            async with client.post("/count", data=b"x" * 300_000) as answer:
                assert await answer.text() == "300000"


@pytest.mark.parametrize(
    ("body", "lines", "status"),
    [
        (b"x" * LIMIT_BYTES, (), 200),
        (b"x" * (LIMIT_BYTES + 1), (), 413),
        (gzip.compress(b"x" * LIMIT_BYTES, mtime=0), (b"Content-Encoding: gzip",), 200),
    ],
)
async def test_a_body_is_read_decoded_and_within_its_limit(
    body: bytes, lines: tuple[bytes, ...], status: int
) -> None:
    async with listening(make_app()) as url:
        answered = await ask(url, post("/count", body, *lines))

    assert answered.status == status
    if status == 200:
        assert answered.body == b"%d" % LIMIT_BYTES


async def test_a_client_that_asks_first_is_told_to_go_on() -> None:
    head, _, body = post("/count", b"four", b"Expect: 100-continue").partition(
        b"\r\n\r\n"
    )

    async with listening(make_app()) as url, raw_client(url) as client:
        await client.send(head + b"\r\n\r\n")
        interim = await client.read_head()
        await client.send(body)
        answered = await client.read_answer()

    assert interim == b"HTTP/1.1 100 Continue\r\n\r\n"
    assert (answered.status, answered.body) == (200, b"4")


async def test_an_offer_to_switch_the_protocol_is_passed_by() -> None:
    offer = (b"Connection: Upgrade", b"Upgrade: websocket", b"Sec-WebSocket-Key: eA==")

    async with listening(make_app()) as url:
        answered = await ask(url, request("GET", "/greet", None, *offer))

    assert (answered.status, answered.body) == (200, b"hello")


async def test_a_fault_is_answered_and_told_by_kind_and_place_not_by_its_text(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with caplog.at_level(logging.ERROR):
        reply = await reply_to(get(b"/fail"))

    assert reply.startswith(b"HTTP/1.1 500 ")
    assert b"X-Common: 1\r\n" in reply
    assert "fault in the sidecar: ValueError" in caplog.text
    assert CANARY not in reply
    assert CANARY.decode() not in caplog.text


async def test_half_an_answer_does_not_look_whole(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with caplog.at_level(logging.ERROR):
        reply = await reply_to(get(b"/halfway"))

    assert b"the first half" in reply
    assert not reply.endswith(b"0\r\n\r\n")
    assert reply.count(b"HTTP/1.1") == 1
    assert "fault in the sidecar: ValueError" in caplog.text
    assert CANARY.decode() not in caplog.text


@pytest.mark.parametrize(
    "text",
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
    text: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    reply = await reply_to(text)

    assert re.match(rb"HTTP/1\.1 4\d\d ", reply)
    assert CANARY not in reply
    assert CANARY.decode() not in caplog.text


async def fall_asleep(client: RawClient) -> None:
    """Ask for more than is read."""
    await client.send(get(b"/pour"))
    await client.read_head()


async def test_whoever_does_not_read_waits_alone_and_is_let_go_at_the_end() -> None:
    app, ended = make_app(), []

    async def stream(_: Request) -> Stream:
        return Stream("text/plain", pour(), lambda: ended.append(True))

    app.add("GET", "/pour", stream)
    async with listening(app) as url, raw_client(url) as sleeper:
        await fall_asleep(sleeper)
        answered = await ask(url, get(b"/greet"))
        assert not ended

    assert answered.body == b"hello"
    assert ended


async def test_whoever_reads_nothing_for_too_long_is_let_go() -> None:
    app, has_ended = make_app(), asyncio.Event()

    async def stream(_: Request) -> Stream:
        return Stream("text/plain", pour(), has_ended.set, write_seconds=0.01)

    app.add("GET", "/pour", stream)
    async with listening(app) as url, raw_client(url) as sleeper:
        await fall_asleep(sleeper)

        async with asyncio.timeout(WAIT_SECONDS):
            await has_ended.wait()


async def test_a_stream_ends_when_its_reader_leaves() -> None:
    app, has_ended = make_app(), asyncio.Event()

    async def silence() -> AsyncIterator[bytes]:
        yield b"one"
        await asyncio.Event().wait()

    async def stream(_: Request) -> Stream:
        return Stream("text/plain", silence(), has_ended.set)

    app.add("GET", "/silence", stream)
    async with listening(app) as url:
        async with raw_client(url) as reader:
            await reader.send(get(b"/silence"))
            await reader.read_head()
            assert not has_ended.is_set()

        async with asyncio.timeout(WAIT_SECONDS):
            await has_ended.wait()


async def test_an_address_that_is_taken_is_told() -> None:
    async with listening(make_app()) as url:
        other = make_app()

        with pytest.raises(OSError, match="address already in use"):
            await other.listen("127.0.0.1", int(url.rpartition(":")[2]))

        await other.close(grace_seconds=0)
