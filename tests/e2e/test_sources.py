"""Sources through the whole line, many tenants and scopes at the same time.

Rules:
- Each scope has a mark of its own in every source; a mark in another scope's request,
  or in anything that is told, is a leak.
"""

import asyncio
import hashlib
import json
import logging
from collections.abc import AsyncIterator, Mapping
from itertools import product
from pathlib import Path
from typing import Any

import aiohttp
import pytest
import pytest_asyncio

from deuz_proxy.app import App, Settings, running_app
from deuz_proxy.sources.build import transcripts_of
from deuz_testing.http_service import Service, running_service
from deuz_testing.upstreams import Got, raw_upstream

pytestmark = pytest.mark.e2e

KEYS = {"acme": "key-acme", "globex": "key-globex"}
SCOPES = [f"{tenant}/{name}" for tenant, name in product(KEYS, ("anna", "ben"))]
QUESTION = "where do rivers run this time"
CONFIG = """
listen: 127.0.0.1:0
admin: {{listen: "127.0.0.1:0"}}
upstreams:
  anthropic: {{url: "{upstream}", wire: anthropic}}
routes: [{{path: /v1/messages, mode: compile}}]
tenants: {tenants}
context:
  refresh: {{deadline_ms: 30000, rest_after: 2}}
  sources:
    - {{id: kb, kind: rag, type: http, url: "{service}"}}
    - {{id: past, type: transcript, min_score: 0}}
    - {{id: notes, type: store, min_score: 0}}
    - {{id: dead, type: http, url: "http://127.0.0.1:1/"}}
"""
ANSWER = {
    "id": "msg_1",
    "type": "message",
    "role": "assistant",
    "model": "m",
    "content": [{"type": "text", "text": "Fine."}],
    "stop_reason": "end_turn",
    "usage": {"input_tokens": 9, "output_tokens": 1},
}


def mark(scope: str, source: str) -> str:
    return f"mark{hashlib.sha256(f'{scope}{source}'.encode()).hexdigest()[:12]}"


async def answer(got: Got) -> None:
    await got.read_body()
    body = json.dumps(ANSWER).encode()
    head = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"
    await got.say(head + b"Content-Length: %d\r\n\r\n" % len(body) + body)


class Running:
    """A sidecar with everything around it."""

    def __init__(self, app: App, service: Service, requests: list[Got]) -> None:
        self.app = app
        self.service = service
        self.requests = requests
        self.session = aiohttp.ClientSession()

    async def ask(self, scope: str, *turns: tuple[str, str]) -> str:
        """Send a conversation; return the body that reached the upstream."""
        tenant, _, name = scope.partition("/")
        tag = mark(scope, f"request {len(self.requests)} {turns}")
        body = {
            "model": "claude-sonnet-4-5",
            "max_tokens": 9,
            "metadata": {"user_id": tag},
            "messages": [{"role": role, "content": text} for role, text in turns],
        }
        headers = {"x-api-key": KEYS[tenant], "x-deuz-scope": name}
        url = f"{self.app.addresses.listen}/v1/messages"
        async with self.session.post(url, json=body, headers=headers) as reply:
            assert reply.status == 200, await reply.text()
        sent = [each.body.decode() for each in self.requests]
        return next(text for text in reversed(sent) if tag in text)

    async def read(self, path: str) -> str:
        async with self.session.get(f"{self.app.addresses.admin}{path}") as reply:
            return await reply.text()

    async def status(self) -> Mapping[str, Any]:
        told: Mapping[str, Any] = json.loads(await self.read("/api/v1/status"))
        return {source["id"]: source for source in told["sources"]}


@pytest_asyncio.fixture
async def running(tmp_path: Path) -> AsyncIterator[Running]:
    records = {
        scope: [{"id": f"kb-{n}", "text": f"rivers run {mark(scope, 'kb')}"}]
        for n, scope in enumerate(SCOPES)
    }
    tenants = {
        tenant: {"keys": [f"sha256:{hashlib.sha256(key.encode()).hexdigest()}"]}
        for tenant, key in KEYS.items()
    }
    async with raw_upstream(answer) as upstream, running_service(records) as service:
        path = tmp_path / "deuz.yaml"
        path.write_text(
            CONFIG.format(
                upstream=upstream.url, service=service.url, tenants=json.dumps(tenants)
            )
        )
        async with running_app(Settings(path), {}) as app:
            made = Running(app, service, upstream.requests)
            yield made
            await made.session.close()


async def fill(running: Running, scope: str) -> None:
    """Give the scope a memory record and a past of its own."""
    url = f"{running.app.addresses.admin}/api/v1/memory/{scope.replace('/', '%2F')}/r1"
    text = {"text": f"rivers run {mark(scope, 'notes')}"}
    async with running.session.put(url, json=text) as reply:
        assert reply.status == 200, await reply.text()
    said = f"rivers run {mark(scope, 'past')}"
    await running.ask(scope, ("user", said), ("assistant", "So."), ("user", "thanks"))


async def test_no_mark_of_a_scope_reaches_another_or_anything_that_is_told(
    running: Running, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    for scope in SCOPES:
        await fill(running, scope)
    for transcript in transcripts_of(running.app.runtime.sources):
        await transcript.settled()

    asked = SCOPES * 6
    bodies = await asyncio.gather(
        *[
            running.ask(scope, ("user", f"{QUESTION} {number}"))
            for number, scope in enumerate(asked)
        ]
    )

    for scope, body in zip(asked, bodies, strict=True):
        for other, source in product(SCOPES, ("kb", "notes", "past")):
            is_there = mark(other, source) in body
            assert is_there == (other == scope), (scope, other, source)
    paths = ["/metrics", "/api/v1/status", "/api/v1/requests?limit=99"]
    told = "".join([await running.read(path) for path in paths]) + caplog.text
    assert "mark" not in told
    assert QUESTION not in told
    assert {question["scope"] for question in running.service.asked} == set(SCOPES)


async def test_a_source_that_is_dead_rests_and_that_is_told(running: Running) -> None:
    for number in range(3):
        await running.ask(SCOPES[0], ("user", f"{QUESTION} {number}"))

    status = await running.status()
    metrics = await running.read("/metrics")

    assert status["dead"] == {
        "id": "dead",
        "status": "skipped",
        "error": "resting",
        "failures": 2,
    }
    assert status["kb"]["status"] == "ok"
    name = "deuz_source_queries_total"
    assert f'{name}{{source="dead",status="skipped"}} 1.0' in metrics
    assert f'{name}{{source="dead",status="failed"}} 2.0' in metrics
