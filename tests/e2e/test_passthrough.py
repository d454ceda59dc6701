"""Pass-through over real sockets: upstream and client see each other's bytes."""

import asyncio
import gzip
import json
import zlib

import brotli
import pytest
from hypothesis import given, settings

from deuz_proxy.observe.zstandard import zstd
from deuz_testing.bodies import anthropic_body, chat_body, odd_bodies, user
from deuz_testing.line import Line, make_config, running_line
from deuz_testing.loops import PlainLoop
from deuz_testing.raw_client import ask, post, raw_client, request
from deuz_testing.upstreams import Got, RawUpstream, answer_with, raw_upstream
from deuz_testing.waiting import WAIT_SECONDS, until

pytestmark = pytest.mark.e2e

PATHS = ("/v1/messages", "/v1/chat/completions", "/v1/responses", "/v1/embeddings")
MODES = ("off", "observe", "shadow", "compile")


@pytest.mark.parametrize("mode", MODES)
def test_bodies_in_odd_layouts_arrive_byte_for_byte(mode: str) -> None:
    @given(body=odd_bodies())
    @settings(max_examples=25, deadline=None)
    def holds(body: bytes) -> None:
        for upstream, path in pairs:
            loop.run_until_complete(_arrives(line, upstream, path, body))

    loop = PlainLoop()
    try:
        upstreams = raw_upstream()
        upstream = loop.run_until_complete(upstreams.__aenter__())
        lines = running_line(make_config(upstream.url, mode=mode))
        line = loop.run_until_complete(lines.__aenter__())
        pairs = [(upstream, path) for path in PATHS[:2]]
        holds()
        loop.run_until_complete(lines.__aexit__(None, None, None))
        loop.run_until_complete(upstreams.__aexit__(None, None, None))
    finally:
        loop.close()


async def _arrives(line: Line, upstream: RawUpstream, path: str, body: bytes) -> None:
    await ask(line.url, post(path, body))
    assert upstream.last.body == body


HOSTILE = {
    "not_json": b'{"model": "m", "messages": [',
    "duplicate_key": b'{"model":"a","model":"b","messages":[],"messages":[1]}',
    "unknown_shape": b'{"model":"m","messages":{"role":"user"}}',
}


@pytest.mark.parametrize(("reason", "body"), HOSTILE.items())
@pytest.mark.parametrize("mode", ["observe", "compile"])
async def test_what_is_not_understood_is_forwarded_untouched_and_counted(
    reason: str, body: bytes, mode: str
) -> None:
    async with (
        raw_upstream() as upstream,
        running_line(make_config(upstream.url, mode=mode)) as line,
    ):
        for path in PATHS[:2]:
            answered = await ask(line.url, post(path, body))

            assert answered.body == b"ok"
            assert upstream.last.body == body
            assert line.told.last.passthrough == reason
            assert line.told.last.outcome == "ok"


async def test_binary_uploads_stream_through_unparsed() -> None:
    part = b'--b:"?\r\nContent-Disposition: form-data; name=f\r\n\r\n\x00\xff\r\n'
    body = part * 2000 + b'--b:"?--\r\n'
    kind = b'Content-Type: multipart/form-data; boundary="b:\\"?"'
    async with raw_upstream() as upstream:
        async with running_line(make_config(upstream.url)) as line:
            await ask(line.url, post("/v1/files", body, kind))

        assert upstream.last.body == body
        assert upstream.last.lines == [kind]
        assert upstream.last.header(b"content-length") == [b"%d" % len(body)]
    assert line.told.last.passthrough == "unknown_endpoint"


async def test_an_upload_is_forwarded_while_it_is_still_coming_in() -> None:
    async def listen(got: Got) -> None:
        got.body = await got.reader.readexactly(5)
        half.set()
        got.body += await got.reader.readexactly(5)
        await got.say(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")

    half = asyncio.Event()
    async with raw_upstream(listen) as upstream:
        async with (
            running_line(make_config(upstream.url)) as line,
            raw_client(line.url) as client,
        ):
            await client.send(request("PUT", "/v1/files/f", b"helloworld")[:-5])
            await asyncio.wait_for(half.wait(), WAIT_SECONDS)
            await client.send(b"world")
            await client.read_answer()

        assert upstream.last.body == b"helloworld"


@pytest.mark.parametrize("path", ["/v1/messages", "/v1/files"])
async def test_five_megabytes_pass_in_both_directions(path: str) -> None:
    text = "\u00e9x" * 1_700_000
    body = anthropic_body([user(text)])
    said = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(body) + body
    async with raw_upstream(answer_with(said)) as upstream:
        async with running_line(make_config(upstream.url)) as line:
            answered = await ask(line.url, post(path, body))

        assert upstream.last.body == body
    assert answered.body == body


COMPRESSORS = {
    "gzip": gzip.compress,
    "deflate": zlib.compress,
    "br": brotli.compress,
    "zstd": zstd.compress,
}
ANSWER = json.dumps(
    {
        "id": "msg_1",
        "model": "m",
        "content": [{"type": "text", "text": "hi"}],
        "stop_reason": "end_turn",
        "usage": {"input_tokens": 7, "output_tokens": 3},
    }
).encode()


@pytest.mark.parametrize("coding", COMPRESSORS)
@pytest.mark.parametrize("mode", ["observe", "compile"])
async def test_compressed_answers_go_out_raw_and_are_metered(
    coding: str, mode: str
) -> None:
    packed = COMPRESSORS[coding](ANSWER)
    lines = b"Content-Type: application/json\r\nContent-Encoding: " + coding.encode()
    said = b"HTTP/1.1 200 OK\r\n%b\r\nContent-Length: %d\r\n\r\n%b"
    async with (
        raw_upstream(answer_with(said % (lines, len(packed), packed))) as up,
        running_line(make_config(up.url, mode=mode)) as line,
    ):
        answered = await ask(
            line.url, post("/v1/messages", anthropic_body([user("hi")]))
        )

    assert answered.body == packed
    assert lines.split(b"\r\n")[1] in answered.lines
    usage = line.told.last.usage
    assert usage is not None
    assert (usage.input_uncached, usage.output) == (7, 3)


@pytest.mark.parametrize("mode", ["observe", "compile"])
async def test_a_damaged_compressed_answer_is_forwarded_all_the_same(mode: str) -> None:
    packed = gzip.compress(ANSWER)[:-9] + b"damaged!!"
    said = b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: %d\r\n\r\n%b"
    async with (
        raw_upstream(answer_with(said % (len(packed), packed))) as upstream,
        running_line(make_config(upstream.url, mode=mode)) as line,
    ):
        body = anthropic_body([user("hi")])
        answered = await ask(line.url, post("/v1/messages", body))

    assert answered.body == packed
    assert line.told.last.outcome == "ok"


ERRORS = {
    429: b"Retry-After: 7\r\nanthropic-ratelimit-tokens-remaining: 0\r\nrequest-id: r1",
    503: b"Retry-After: Wed, 21 Oct 2026 07:28:00 GMT",
    529: b"x-should-retry: true",
    400: b"request-id: r2",
    401: b"WWW-Authenticate: Bearer",
    500: b"x-a: 1",
}


@pytest.mark.parametrize(("status", "lines"), ERRORS.items())
@pytest.mark.parametrize("mode", ["observe", "compile"])
async def test_errors_come_back_with_all_their_lines_and_are_not_retried(
    status: int, lines: bytes, mode: str
) -> None:
    text = b'{"type":"error","error":{"type":"overloaded_error","message":"No."}}'
    said = b"HTTP/1.1 %d Odd Reason\r\n%b\r\nContent-Length: %d\r\n\r\n%b"
    answer = answer_with(said % (status, lines, len(text), text))
    async with raw_upstream(answer) as upstream:
        async with running_line(make_config(upstream.url, mode=mode)) as line:
            body = anthropic_body([user("hi")], stream=True)
            answered = await ask(line.url, post("/v1/messages", body))

        assert len(upstream.requests) == 1
    assert answered.head.startswith(b"HTTP/1.1 %d Odd Reason\r\n" % status)
    assert answered.lines[:-1] == lines.split(b"\r\n")
    assert answered.body == text
    assert line.told.last.outcome == "upstream_error"


@pytest.mark.parametrize("method", ["GET", "HEAD", "OPTIONS", "PATCH", "DELETE"])
async def test_every_method_is_forwarded(method: str) -> None:
    said = answer_with(b"HTTP/1.1 200 OK\r\nAllow: X\r\nContent-Length: 0\r\n\r\n")
    async with raw_upstream(said) as upstream:
        async with running_line(make_config(upstream.url)) as line:
            answered = await ask(line.url, request(method, "/v1/batches/1", None))

        assert upstream.last.method == method.encode()
        assert upstream.last.body == b""
    assert answered.lines == [b"Allow: X", b"Content-Length: 0"]


async def test_the_raw_target_and_every_end_to_end_line_reach_the_upstream() -> None:
    target = "/v1/messages//a/../org%2Fname;v=1?beta=true&beta=&q=a+b%zz&"
    sent = [
        b"anthropic-beta: one",
        b"X-Stainless-Lang: python",
        b"ANTHROPIC-BETA: two",
        b"Idempotency-Key: k",
        b"Authorization: Bearer sk-1",
        b"Cookie: a=1",
        b"Accept-Encoding: br, made-up",
        b"traceparent: 00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
        b"X-Foo: \xc3\xa9 \tb",
    ]
    ours = [b"x-deuz-scope: s", b"X-Deuz-Mode: observe", b"Connection: X-Hop, close"]
    async with raw_upstream() as upstream:
        async with running_line(make_config(upstream.url)) as line:
            lines = [*sent[:4], *ours, b"X-Hop: 1", *sent[4:]]
            await ask(line.url, post(target, b"{}", *lines))

        assert upstream.last.target == target.encode()
        assert upstream.last.lines == sent


async def test_a_named_upstream_gets_the_rest_of_the_path_as_it_came() -> None:
    async with raw_upstream() as upstream:
        config = make_config(upstream.url)
        mine = config.upstreams["openai"].model_copy(
            update={"url": f"{upstream.url}/base"}
        )
        config = config.model_copy(
            update={"upstreams": {**config.upstreams, "mine": mine}}
        )
        async with running_line(config) as line:
            await ask(line.url, request("GET", "/@mine//v1/%2F/x?", None))

        assert upstream.last.target == b"/base//v1/%2F/x?"
    assert line.told.last.upstream == "mine"


async def test_an_unknown_upstream_is_named_in_an_error_of_ours() -> None:
    async with running_line(make_config()) as line:
        answered = await ask(line.url, request("GET", "/@nobody/v1/x", None))

    assert answered.status == 404
    error = json.loads(answered.body)["error"]
    assert (error["type"], error["code"]) == ("sidecar_error", "unknown_upstream")
    assert line.told.faults == [("admit", "unknown_upstream")]


EVENTS = {
    "/v1/messages": [
        b'event: message_start\ndata: {"type":"message_start","message":{"id":"m",'
        b'"model":"x","usage":{"input_tokens":9,"output_tokens":1}}}\n\n',
        b'event: ping\ndata: {"type":"ping"}\n\n',
        b'event: content_block_delta\ndata: {"type":"content_block_delta","index":0,'
        b'"delta":{"type":"text_delta","text":"\xc3\xa9"}}\n\n',
        b": a comment\n\n",
        b'event: message_delta\ndata: {"type":"message_delta","delta":{"stop_reason":'
        b'"end_turn"},"usage":{"output_tokens":4}}\n\n',
        b'event: message_stop\ndata: {"type":"message_stop"}\n\n',
    ],
    "/v1/chat/completions": [
        b'data: {"id":"c","model":"x","choices":[{"index":0,"delta":{"content":"a"}}]}'
        b"\r\n\r\n",
        b": keep-alive\r\n\r\n",
        b'data: {"id":"c","choices":[{"index":0,"delta":{},"finish_reason":"stop"}],'
        b'"usage":{"prompt_tokens":9,"completion_tokens":4,"total_tokens":13}}\r\n\r\n',
        b"data: [DONE]\r\n\r\n",
    ],
    "/v1/responses": [
        b'event: response.created\ndata: {"type":"response.created","response":'
        b'{"id":"r","model":"x"}}\n\n',
        b'event: response.output_text.delta\ndata: {"type":'
        b'"response.output_text.delta","delta":"a"}\n\n',
        b'event: response.completed\ndata: {"type":"response.completed","response":'
        b'{"id":"r","model":"x","status":"completed","usage":'
        b'{"input_tokens":9,"output_tokens":4}}}\n\n',
    ],
    "/v1/other": [b"\x00\xff", b"anything"],
}


@pytest.mark.parametrize("path", EVENTS)
async def test_each_event_reaches_the_client_before_the_next_is_sent(path: str) -> None:
    async def stream(got: Got) -> None:
        await got.read_body()
        await got.say(
            b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n"
            b"Transfer-Encoding: chunked\r\n\r\n"
        )
        for event in EVENTS[path]:
            await got.say(b"%x\r\n%b\r\n" % (len(event), event))
            await asyncio.wait_for(seen.acquire(), WAIT_SECONDS)
        await got.say(b"0\r\n\r\n")

    seen = asyncio.Semaphore(0)
    body = chat_body([user("hi")], stream=True, max_tokens=9)
    async with (
        raw_upstream(stream) as upstream,
        running_line(make_config(upstream.url, mode="observe")) as line,
        raw_client(line.url) as client,
    ):
        await client.send(post(path, body))
        await client.read_head()
        for event in EVENTS[path]:
            assert await client.read_chunk() == event
            seen.release()
        assert await client.read_chunk() == b""

    finished = line.told.last
    assert finished.outcome == "ok"
    if path != "/v1/other":
        usage = finished.usage
        assert usage is not None
        assert (usage.input_uncached, usage.output) == (9, 4)


@pytest.mark.parametrize("path", ["/v1/messages", "/v1/chat/completions"])
async def test_on_a_compiling_route_each_event_flows_from_the_first_content_on(
    path: str,
) -> None:
    events = EVENTS[path]
    first = next(i for i, event in enumerate(events) if b"delta" in event)

    async def stream(got: Got) -> None:
        await got.read_body()
        await got.say(
            b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n"
            b"Transfer-Encoding: chunked\r\n\r\n"
        )
        for number, event in enumerate(events):
            await got.say(b"%x\r\n%b\r\n" % (len(event), event))
            if number >= first:
                await asyncio.wait_for(seen.acquire(), WAIT_SECONDS)
        await got.say(b"0\r\n\r\n")

    seen = asyncio.Semaphore(0)
    body = anthropic_body([user("hi")], stream=True)
    async with (
        raw_upstream(stream) as upstream,
        running_line(make_config(upstream.url)) as line,
        raw_client(line.url) as client,
    ):
        await client.send(post(path, body))
        await client.read_head()
        got = b""
        for number, event in enumerate(events):
            while event not in got:
                got += await client.read_chunk()
            if number >= first:
                seen.release()
        assert await client.read_chunk() == b""

    assert got == b"".join(events)
    assert line.told.last.outcome == "ok"


async def test_five_slow_readers_do_not_slow_a_sixth() -> None:
    big = b"x" * 8_000_000

    async def answer(got: Got) -> None:
        if got.target == b"/v1/big":
            head = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(big)
            await got.say(head + big)
        else:
            await got.say(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")

    async with (
        raw_upstream(answer) as upstream,
        running_line(make_config(upstream.url)) as line,
    ):
        slow = [raw_client(line.url) for _ in range(5)]
        clients = [await each.__aenter__() for each in slow]
        for client in clients:
            client.reader._transport.pause_reading()  # type: ignore[attr-defined]
            await client.send(request("GET", "/v1/big", None))
        await upstream.until_asked(5)

        answered = await ask(line.url, request("GET", "/v1/small", None))

        assert answered.body == b"ok"
        assert line.told.in_flight == 5
        for each in slow:
            await each.__aexit__(None, None, None)
        await until(lambda: line.told.in_flight == 0)
