import asyncio
import gzip
import json
from collections.abc import AsyncIterator
from typing import Any

import aiohttp
import pytest

from deuz_proxy.demo.provider import (
    FakeProvider,
    ProviderRequest,
    RawReply,
    Refusal,
    Reply,
    Text,
    run_provider,
)
from deuz_proxy.demo.provider.server import HEADER_BYTES
from deuz_testing.provider import running_provider
from deuz_testing.waiting import WAIT_SECONDS

Json = dict[str, Any]
TURNS = [{"role": "user", "content": "hi"}]
ANTHROPIC = {"model": "fake", "max_tokens": 99, "messages": TURNS}
CHAT = {"model": "fake", "messages": TURNS}
RESPONSES = {"model": "fake", "input": "hi"}
GEMINI = {"contents": [{"parts": [{"text": "hi"}]}]}
PATHS: dict[str, Json] = {
    "/v1/messages": ANTHROPIC,
    "/v1/chat/completions": CHAT,
    "/v1/responses": RESPONSES,
    "/v1beta/models/fake:generateContent": GEMINI,
}


@pytest.fixture
async def client() -> AsyncIterator[aiohttp.ClientSession]:
    async with aiohttp.ClientSession() as session:
        yield session


async def post(
    client: aiohttp.ClientSession, url: str, payload: Json, **headers: str
) -> tuple[int, bytes]:
    async with client.post(url, json=payload, headers=headers) as response:
        return response.status, await response.read()


@pytest.mark.parametrize("path", PATHS)
async def test_every_wire_is_answered_and_logged(
    client: aiohttp.ClientSession, path: str
) -> None:
    async with running_provider() as provider:
        status, body = await post(client, provider.url + path, PATHS[path])

    (logged,) = provider.requests
    assert status == logged.status == 200
    assert b"was read and understood" in body
    assert logged.usage is not None
    assert logged.usage.output > 0
    assert logged.is_complete
    assert provider.refused == ()


async def test_a_request_is_logged_byte_for_byte() -> None:
    body = b'{ "model":"fake",\n"messages":[{"role":"user","content":"\\u00e9"}] }\n'
    head = (
        b"POST /v1/chat/completions?a=%%2F&b HTTP/1.1\r\nHost: x\r\nX-OdD: 1\r\n"
        b"x-odd: 2\r\nContent-Length: %d\r\nConnection: close\r\n\r\n" % len(body)
    )
    async with running_provider() as provider:
        reader, writer = await asyncio.open_connection("127.0.0.1", provider.port)
        writer.write(head + body)
        answer = await reader.read()
        writer.close()
        await writer.wait_closed()

    (logged,) = provider.requests
    assert answer.startswith(b"HTTP/1.1 200")
    assert logged.raw_path == "/v1/chat/completions?a=%2F&b"
    assert logged.headers[1:3] == ((b"X-OdD", b"1"), (b"x-odd", b"2"))
    assert logged.body == body


async def test_a_large_header_and_a_large_packed_body_are_fine(
    client: aiohttp.ClientSession,
) -> None:
    payload = {**CHAT, "zz": "x" * 3_000_000}
    packed = gzip.compress(json.dumps(payload).encode())
    headers = {"Content-Encoding": "gzip", "X-Turn": "t" * (HEADER_BYTES // 2)}
    async with (
        running_provider() as provider,
        client.post(
            provider.url + "/v1/chat/completions", data=packed, headers=headers
        ) as response,
    ):
        assert response.status == 200

    assert provider.requests[0].body == packed


@pytest.mark.parametrize("path", PATHS)
async def test_a_broken_body_is_refused_in_the_wires_shape(
    client: aiohttp.ClientSession, path: str
) -> None:
    async with (
        running_provider() as provider,
        client.post(provider.url + path, data=b'{"model":') as response,
    ):
        error = await response.json()

    assert response.status == 400
    assert "JSON" in error["error"]["message"]
    assert provider.refused[0].rule == "not_json"


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("/v1/messages", 401),
        ("/v1/chat/completions", 401),
        ("/v1beta/models/fake:generateContent", 403),
    ],
)
async def test_a_key_can_be_required(
    client: aiohttp.ClientSession, path: str, status: int
) -> None:
    async with running_provider(FakeProvider(require_key=True)) as provider:
        url = provider.url + path
        without, _ = await post(client, url, PATHS[path])
        having, _ = await post(client, url, PATHS[path], **{"x-api-key": "k"})

    assert (without, having) == (status, 200)


async def test_an_overflowing_stream_of_responses_fails_after_a_good_status(
    client: aiohttp.ClientSession,
) -> None:
    payload = {**RESPONSES, "input": "x" * 400}
    async with running_provider(FakeProvider(window_tokens=50)) as provider:
        url = provider.url + "/v1/responses"
        buffered, _ = await post(client, url, payload)
        streamed, body = await post(client, url, {**payload, "stream": True})

    assert (buffered, streamed) == (400, 200)
    assert b"event: response.failed" in body
    assert [logged.rule for logged in provider.requests] == ["overflow", "overflow"]


@pytest.mark.parametrize(("query", "is_array"), [("", True), ("?alt=sse", False)])
async def test_an_overflowing_gemini_stream_keeps_its_form(
    client: aiohttp.ClientSession, query: str, is_array: bool
) -> None:
    async with running_provider(FakeProvider(window_tokens=1)) as provider:
        path = f"/v1beta/models/fake:streamGenerateContent{query}"
        status, body = await post(client, provider.url + path, GEMINI)

    assert status == 400
    assert isinstance(json.loads(body), list) is is_array


async def test_held_state_continues_a_conversation(
    client: aiohttp.ClientSession,
) -> None:
    async with running_provider() as provider:
        url = provider.url + "/v1/responses"
        _, first = await post(client, url, RESPONSES)
        more = {**RESPONSES, "previous_response_id": json.loads(first)["id"]}
        _, second = await post(client, url, more)
        unknown = {**RESPONSES, "previous_response_id": "resp_0"}
        status, _ = await post(client, url, unknown)

    tokens = [json.loads(body)["usage"]["input_tokens"] for body in (first, second)]
    assert tokens[1] > tokens[0]
    assert status == 400


@pytest.mark.parametrize("is_streamed", [False, True])
async def test_a_cut_answer_breaks_off(
    client: aiohttp.ClientSession, is_streamed: bool
) -> None:
    payload = {**CHAT, "model": "fake-cut", "stream": is_streamed}
    async with running_provider() as provider:
        with pytest.raises(aiohttp.ClientPayloadError):
            await post(client, provider.url + "/v1/chat/completions", payload)


async def test_a_client_that_leaves_is_noticed(client: aiohttp.ClientSession) -> None:
    asked, left = asyncio.Event(), asyncio.Event()

    async def wait(request: ProviderRequest) -> None:
        asked.set()
        try:
            await asyncio.Event().wait()
        finally:
            left.set()

    async with running_provider(FakeProvider(script=wait)) as provider:
        url = provider.url + "/v1/chat/completions"
        async with asyncio.TaskGroup() as group:
            call = group.create_task(post(client, url, CHAT))
            await asked.wait()
            call.cancel()
        await asyncio.wait_for(left.wait(), WAIT_SECONDS)

    (logged,) = provider.requests
    assert logged.is_client_gone
    assert not logged.is_complete


async def test_a_script_answers_in_the_models_place(
    client: aiohttp.ClientSession,
) -> None:
    answers = iter(
        [
            Reply((Text("scripted"),)),
            Refusal("busy", "try later", status=429),
            RawReply(502, (b"<html>", b"bad</html>"), (("Content-Type", "text/html"),)),
            None,
        ]
    )
    async with running_provider(FakeProvider(script=lambda _: next(answers))) as p:
        url = p.url + "/v1/messages"
        told = [await post(client, url, ANTHROPIC) for _ in range(4)]

    assert [status for status, _ in told] == [200, 429, 502, 200]
    assert b"scripted" in told[0][1]
    assert json.loads(told[1][1])["error"]["type"] == "rate_limit_error"
    assert told[2][1] == b"<html>bad</html>"
    assert b"understood" in told[3][1]


async def test_a_script_sees_paths_that_no_wire_claims(
    client: aiohttp.ClientSession,
) -> None:
    def script(request: ProviderRequest) -> RawReply | None:
        is_files = request.raw_path == "/v1/files?x=1"
        return RawReply(200, (request.body,)) if is_files else None

    async with running_provider(FakeProvider(script=script)) as provider:
        async with client.post(provider.url + "/v1/files?x=1", data=b"\0\1") as known:
            echoed = await known.read()
        async with client.get(provider.url + "/v1/files") as unknown:
            pass
        async with client.head(provider.url + "/") as probe:
            pass

    assert echoed == b"\0\1"
    assert (unknown.status, probe.status) == (404, 200)


async def test_a_raw_reply_can_break_off(client: aiohttp.ClientSession) -> None:
    cut = RawReply(200, (b"data: 1\n\n",), is_cut=True)
    async with running_provider(FakeProvider(script=lambda _: cut)) as provider:
        with pytest.raises(aiohttp.ClientPayloadError):
            await post(client, provider.url + "/v1/messages", ANTHROPIC)


async def test_counting_costs_nothing_and_caches_nothing(
    client: aiohttp.ClientSession,
) -> None:
    async with running_provider(
        FakeProvider(minimum_cached_tokens=1, cache_step_tokens=1)
    ) as provider:
        url = provider.url + "/v1/responses"
        _, counted = await post(client, url + "/input_tokens", RESPONSES)
        _, answered = await post(client, url, RESPONSES)

    usage = json.loads(answered)["usage"]
    assert json.loads(counted)["input_tokens"] == usage["input_tokens"]
    assert usage["input_tokens_details"]["cached_tokens"] == 0


async def test_the_command_announces_its_address_and_keeps_counts_only(
    client: aiohttp.ClientSession,
) -> None:
    addresses: asyncio.Queue[str] = asyncio.Queue()
    async with asyncio.TaskGroup() as group:
        running = group.create_task(
            run_provider("127.0.0.1", 0, announce=addresses.put_nowait, window_tokens=1)
        )
        url = await addresses.get()
        status, body = await post(client, url + "/v1/messages", ANTHROPIC)
        running.cancel()

    assert status == 400
    assert b"> 1 maximum" in body


async def test_the_command_may_demand_a_key(client: aiohttp.ClientSession) -> None:
    addresses: asyncio.Queue[str] = asyncio.Queue()
    async with asyncio.TaskGroup() as group:
        running = group.create_task(
            run_provider(
                "127.0.0.1", 0, announce=addresses.put_nowait, require_key=True
            )
        )
        url = await addresses.get()
        status, body = await post(client, url + "/v1/messages", ANTHROPIC)
        running.cancel()

    assert status == 401
    assert b"x-api-key header is required" in body


async def test_without_a_log_only_counts_are_kept(
    client: aiohttp.ClientSession,
) -> None:
    async with running_provider(FakeProvider(keep_requests=False)) as provider:
        await post(client, provider.url + "/v1/messages", ANTHROPIC)

    assert provider.requests == []
    assert provider.counts == {"requests": 1, "anthropic 200": 1}


async def test_a_slow_model_waits_between_events(
    client: aiohttp.ClientSession,
) -> None:
    payload = {**CHAT, "model": "fake-slow", "stream": True}
    async with (
        running_provider() as provider,
        client.post(provider.url + "/v1/chat/completions", json=payload) as response,
    ):
        chunks = [chunk async for chunk, _ in response.content.iter_chunks()]

    assert len(chunks) > 3
