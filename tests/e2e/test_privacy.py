"""No canary leaves, whatever way a request fails: in this process, at all levels."""

import json
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import aiohttp
import msgspec
import pytest
import pytest_asyncio

from deuz_proxy.app import App, Settings, running_app
from deuz_proxy.observe.events import Event, RequestFinished
from deuz_testing.bodies import anthropic_body, assistant, tool_result, tool_use, user
from deuz_testing.otlp import (
    Collector,
    heard_at_root,
    running_collector,
    text_of,
)
from deuz_testing.raw_client import ask, post, raw_client, request
from deuz_testing.upstreams import Got, RawUpstream, raw_upstream
from deuz_testing.waiting import until

pytestmark = pytest.mark.e2e

CANARY = "canary"
CONFIG = """
listen: 127.0.0.1:0
admin: {{listen: "127.0.0.1:0"}}
upstreams:
  anthropic: {{url: "{url}", wire: anthropic}}
  dead: {{url: "http://127.0.0.1:1", wire: openai}}
routes: [{{path: /v1/messages, mode: compile, on_error: {on_error}}}]
telemetry: {{otlp: {{endpoint: "{collector}"}}}}
context:
  refresh: {{deadline_ms: 30000}}
  sources:
    - {{id: docs, kind: rag, type: files, path: "{docs}", min_score: 0}}
    - {{id: gone, kind: rag, type: files, path: "{gone}", min_score: 0}}
"""
LONG = f"{CANARY}-result " * 600
TURNS: list[Any] = [user(f"opening {CANARY}-prompt")]
for number in range(6):
    TURNS += [tool_use(f"t{number}", f"{CANARY}_tool"), tool_result(f"t{number}", LONG)]
LINES = (
    f"x-api-key: sk-{CANARY}-key".encode(),
    f"Cookie: {CANARY}-cookie".encode(),
    f"x-deuz-scope: {CANARY}/bad scope".encode(),
)
SAFE_LINES = LINES[:2]
TOOLS = [{"name": f"{CANARY}_tool", "description": f"{CANARY}-description"}]
OVERFLOW = json.dumps(
    {
        "type": "error",
        "error": {
            "type": "invalid_request_error",
            "message": "prompt is too long: 90000 tokens > 9000 maximum "
            f"({CANARY}-error)",
        },
    }
).encode()


def reply(status: int, text: bytes) -> bytes:
    head = f"HTTP/1.1 {status} X\r\nContent-Type: application/json\r\nX-{CANARY}: 1\r\n"
    return head.encode() + b"Content-Length: %d\r\n\r\n%b" % (len(text), text)


async def answer(got: Got) -> None:
    """Answer in the way that the request's first header line asks for."""
    await got.read_body()
    way = (got.header(b"x-way") or [b"ok"])[0]
    error = b'{"type":"error","error":{"type":"%b-type","message":"%b"}}'
    if way == b"overflow":
        await got.say(reply(400, OVERFLOW))
    elif way == b"error":
        await got.say(reply(500, error % (CANARY.encode(), CANARY.encode())))
    elif way == b"cut":
        await got.say(reply(200, b"x" * 99)[:-50])
        got.writer.close()
    elif way == b"dead":
        got.writer.close()
    elif way == b"hang":
        await got.until_gone()
    else:
        text = json.dumps(
            {
                "id": "msg_1",
                "model": "claude-sonnet-4-5",
                "content": [{"type": "text", "text": f"{CANARY}-answer"}],
                "stop_reason": "end_turn",
                "usage": {"input_tokens": 5, "output_tokens": 2},
            }
        ).encode()
        await got.say(reply(200, text))


class Running:
    def __init__(self, app: App, upstream: RawUpstream, collector: Collector) -> None:
        self.app, self.upstream, self.collector = app, upstream, collector
        self.errors: list[bytes] = []
        self.events: list[Event] = []


@pytest_asyncio.fixture(params=["open", "closed"])
async def running(
    tmp_path: Path, request: pytest.FixtureRequest
) -> AsyncIterator[Running]:
    docs, gone = tmp_path / "docs", tmp_path / "gone"
    for folder in (docs, gone):
        folder.mkdir()
    (docs / "a.md").write_text(f"# Opening hours\n\nopening {CANARY}-document")
    file = tmp_path / "deuz.yaml"
    with running_collector() as collector:
        async with raw_upstream(answer) as upstream:
            file.write_text(
                CONFIG.format(
                    url=upstream.url,
                    on_error=request.param,
                    collector=collector.endpoint,
                    docs=docs,
                    gone=gone,
                )
            )
            async with running_app(Settings(file), {}) as app:
                gone.rmdir()
                yield Running(app, upstream, collector)


async def talk(running: Running) -> None:
    """Send canaries in every part, down every way that can go wrong."""
    url = running.app.addresses.listen
    body = anthropic_body(TURNS, system=f"{CANARY}-system", tools=TOOLS)
    plain = anthropic_body([*TURNS, assistant("a"), user(f"opening {CANARY}")])
    ways = ("ok", "overflow", "error", "cut", "dead")
    for way in ways:
        for each in (body, plain):
            text = post("/v1/messages", each, b"x-way: " + way.encode(), *SAFE_LINES)
            await ask(url, text)
    target = f"/v1/messages?beta={CANARY}-query&key={CANARY}-query-key"
    await ask(url, post(target, body, *LINES))
    for target in (
        f"/v1/files/{CANARY}-path?key={CANARY}-key",
        f"/@nobody/x?key={CANARY}",
        f"/nowhere?key={CANARY}",
        f"/@dead/v1/{CANARY}",
    ):
        answered = await ask(url, post(target, b"x", *LINES))
        if b"sidecar_error" in answered.body:
            running.errors.append(answered.body)
    await ask(url, post("/v1/messages", f'{{"messages": ["{CANARY}'.encode(), *LINES))
    malformed = f"GET /{CANARY} HTTP/1.1\r\nX-Key: sk-{CANARY}\0\r\n\r\n".encode()
    running.errors.append((await ask(url, malformed)).body)
    async with raw_client(url) as client:
        asked = len(running.upstream.requests)
        await client.send(post("/v1/messages", body, b"x-way: hang", *SAFE_LINES))
        await running.upstream.until_asked(asked + 1)
        client.reset()
    await until(lambda: in_flight(running) == 0)
    async with raw_client(url) as client:
        await client.send(post("/v1/messages", body, *SAFE_LINES)[:-20])
        await until(lambda: in_flight(running) == 1)
    await until(lambda: in_flight(running) == 0)


def in_flight(running: Running) -> int:
    return int(str(running.app.feed.status()["in_flight"]))


async def read_admin(app: App) -> dict[str, str]:
    api = f"{app.addresses.admin}/api/v1"
    told = {}
    async with aiohttp.ClientSession() as session:

        async def read(url: str) -> str:
            async with session.get(url) as answered:
                return await answered.text()

        for path in ("requests?limit=100", "conversations", "status"):
            told[path] = await read(f"{api}/{path}")
        told["metrics"] = await read(f"{app.addresses.admin}/metrics")
        told["healthz"] = await read(f"{app.addresses.admin}/healthz")
        for each in json.loads(told["requests?limit=100"])["requests"]:
            told[f"request {each['id']}"] = await read(f"{api}/requests/{each['id']}")
    return told


async def test_no_canary_is_in_anything_that_the_sidecar_tells(
    running: Running, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(1)
    app = running.app
    notice = app.runtime.notice

    def keep(event: Event) -> None:
        # The path is cut down where it is told, not where it is noted.
        if isinstance(event, RequestFinished):
            event = msgspec.structs.replace(event, path="")
        running.events.append(event)
        notice(event)

    app.serving.runtime = replace(app.runtime, notice=keep)
    with heard_at_root() as heard:
        await talk(running)
        admin = await read_admin(app)
        await app.close()

    told = {
        "log": text_of(heard),
        "log records": repr([record.__dict__ for record in heard]),
        "caplog": caplog.text,
        "events": repr(running.events),
        "spans": repr(running.collector.traces),
        "metrics sent": repr(running.collector.metrics),
        "errors": repr(running.errors),
        **admin,
    }
    assert {name for name, text in told.items() if CANARY in text} == set()
    assert running.collector.spans()
    assert len(running.errors) >= 4
    assert len(json.loads(admin["requests?limit=100"])["requests"]) >= 14


async def test_the_canaries_were_really_on_their_way(running: Running) -> None:
    await talk(running)

    sent = b"".join(got.head + got.body for got in running.upstream.requests)
    for part in ("key", "prompt", "system", "tool", "result", "document", "query"):
        assert (
            f"{CANARY}-{part}".encode() in sent or f"{CANARY}_{part}".encode() in sent
        )
    answered = await ask(
        running.app.addresses.listen, request("GET", "/@nobody/x", None)
    )
    assert b"sidecar_error" in answered.body
