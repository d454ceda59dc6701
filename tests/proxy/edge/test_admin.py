import asyncio
import json
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

import aiohttp
import pytest

from deuz_proxy.edge.admin import AdminParts, make_admin
from deuz_proxy.sinks.feed import Feed
from deuz_testing.admin import asked
from deuz_testing.feed_events import agent_session, finished
from deuz_testing.waiting import WAIT_SECONDS


def parts_of(feed: Feed, **changes: Any) -> AdminParts:
    parts = AdminParts(
        feed,
        metrics=lambda accept: (f"# {accept}".encode(), "text/plain; version=9"),
        readiness=tuple,
        config=lambda: {"listen": "127.0.0.1:4141", "admin": {"token": "***"}},
    )
    return replace(parts, **changes)


@pytest.fixture
def feed() -> Feed:
    return Feed(generation="g1")


@pytest.fixture
async def client(feed: Feed) -> AsyncIterator[aiohttp.ClientSession]:
    app = make_admin(parts_of(feed, heartbeat_seconds=0.05))
    async with asked(app) as session:
        yield session


async def read(client: aiohttp.ClientSession, path: str) -> tuple[int, Any]:
    async with client.get(path) as answer:
        return answer.status, await answer.json()


async def next_event(answer: aiohttp.ClientResponse) -> dict[str, str]:
    """The next event of a stream that has a name; heartbeats are passed over."""
    async with asyncio.timeout(WAIT_SECONDS):
        while True:
            frame = (await answer.content.readuntil(b"\n\n")).decode()
            lines = [line.partition(":") for line in frame.strip().splitlines()]
            event = {field: value.strip() for field, _, value in lines}
            if "event" in event:
                return event


async def test_health_tells_the_faults_of_listeners_and_is_still_ok(feed: Feed) -> None:
    app = make_admin(parts_of(feed, faults=lambda: ("ValueError",)))
    async with asked(app) as client:
        assert await read(client, "/healthz") == (
            200,
            {"status": "ok", "faults": ["ValueError"]},
        )


async def test_sidecar_without_reasons_is_ready(client: aiohttp.ClientSession) -> None:
    assert await read(client, "/readyz") == (200, {"status": "ready"})


async def test_sidecar_that_is_not_ready_says_why(feed: Feed) -> None:
    app = make_admin(parts_of(feed, readiness=lambda: ("draining",)))
    async with asked(app) as client:
        assert await read(client, "/readyz") == (
            503,
            {"status": "not_ready", "reasons": ["draining"]},
        )


async def test_metrics_are_rendered_for_what_the_reader_accepts(
    client: aiohttp.ClientSession,
) -> None:
    async with client.get("/metrics", headers={"Accept": "x/y"}) as answer:
        assert await answer.text() == "# x/y"
        assert answer.headers["Content-Type"] == "text/plain; version=9"


async def test_list_has_the_newest_requests_and_the_place_behind_them(
    client: aiohttp.ClientSession, feed: Feed
) -> None:
    for event in agent_session():
        feed(event)

    status, content = await read(client, "/api/v1/requests?limit=2")

    assert status == 200
    assert [request["id"] for request in content["requests"]] == ["r8", "r7"]
    assert content["last_event_id"] == feed.last_event_id


async def test_list_without_a_limit_has_a_hundred_requests(
    client: aiohttp.ClientSession, feed: Feed
) -> None:
    for number in range(120):
        feed(finished(f"r{number}"))

    _, content = await read(client, "/api/v1/requests")

    assert len(content["requests"]) == 100
    assert content["requests"][-1]["id"] == "r20"


@pytest.mark.parametrize(
    "limit", ["0", "501", "-1", "", "ten", "1.5", "٣", "9" * 5_000]
)
async def test_limit_that_is_none_is_refused_without_repeating_it(
    client: aiohttp.ClientSession, limit: str
) -> None:
    async with client.get("/api/v1/requests", params={"limit": limit}) as answer:
        content = await answer.json()

    assert answer.status == 400
    assert content["error"]["code"] == "invalid_limit"
    assert "from 1 to 500" in content["error"]["message"]


@pytest.mark.parametrize("limit", ["1", "500", "007"])
async def test_limit_within_its_bounds_is_taken(
    client: aiohttp.ClientSession, limit: str
) -> None:
    status, _ = await read(client, f"/api/v1/requests?limit={limit}")

    assert status == 200


async def test_one_request_is_told_in_full(
    client: aiohttp.ClientSession, feed: Feed
) -> None:
    feed(agent_session()[1])

    status, content = await read(client, "/api/v1/requests/r2")

    assert status == 200
    assert [line["record_id"] for line in content["compile"]["records"]] == [
        "r-units",
        "guide.md#2",
        "guide.md#9",
    ]


async def test_request_that_is_not_remembered_is_an_error_that_says_what_to_do(
    client: aiohttp.ClientSession,
) -> None:
    status, content = await read(client, "/api/v1/requests/unknown")

    assert (status, content["error"]["code"]) == (404, "unknown_request")
    assert "/api/v1/requests" in content["error"]["message"]


async def test_conversations_are_listed(
    client: aiohttp.ClientSession, feed: Feed
) -> None:
    for event in agent_session():
        feed(event)

    _, content = await read(client, "/api/v1/conversations")

    assert [known["id"] for known in content["conversations"]] == ["c2", "c1"]


async def test_status_has_the_sums(client: aiohttp.ClientSession, feed: Feed) -> None:
    feed(finished("r1"))

    assert (await read(client, "/api/v1/status"))[1]["requests"] == 1


async def test_config_is_what_its_owner_gives(client: aiohttp.ClientSession) -> None:
    assert await read(client, "/api/v1/config") == (
        200,
        {"listen": "127.0.0.1:4141", "admin": {"token": "***"}},
    )


async def test_text_that_is_not_utf_8_is_answered_as_escapes(
    client: aiohttp.ClientSession, feed: Feed
) -> None:
    feed(finished("r1", route="/\udcff"))

    _, content = await read(client, "/api/v1/requests")

    assert content["requests"][0]["route"] == "/\udcff"


async def test_stream_tells_a_request_as_it_finishes(
    client: aiohttp.ClientSession, feed: Feed
) -> None:
    async with client.get("/api/v1/events") as answer:
        assert answer.headers["Content-Type"] == "text/event-stream"
        assert (await next_event(answer))["event"] == "status"
        feed(finished("r1"))
        event = await next_event(answer)

    assert (event["event"], event["id"]) == ("request", feed.last_event_id)
    assert json.loads(event["data"])["request"]["id"] == "r1"


async def test_stream_resumes_behind_the_last_event(
    client: aiohttp.ClientSession, feed: Feed
) -> None:
    feed(finished("r1"))
    place = feed.last_event_id
    feed(finished("r2"))

    async with client.get("/api/v1/events", headers={"Last-Event-ID": place}) as answer:
        event = await next_event(answer)

    assert json.loads(event["data"])["request"]["id"] == "r2"


async def test_silent_stream_has_heartbeats(client: aiohttp.ClientSession) -> None:
    async with client.get("/api/v1/events") as answer, asyncio.timeout(WAIT_SECONDS):
        await answer.content.readuntil(b": heartbeat\n\n")
        await answer.content.readuntil(b": heartbeat\n\n")


async def test_line_breaks_in_names_cannot_forge_an_event(
    client: aiohttp.ClientSession, feed: Feed
) -> None:
    async with client.get("/api/v1/events") as answer:
        await next_event(answer)
        feed(finished("r1", model="x\n\nevent: forged\ndata: {}"))
        event = await next_event(answer)
        feed(finished("r2"))
        following = [(await next_event(answer))["event"] for _ in range(2)]

    assert json.loads(event["data"])["request"]["model"].startswith("x\n\nevent")
    assert following == ["status", "request"]


async def test_reader_that_left_gives_its_place_to_the_next(feed: Feed) -> None:
    single = Feed(generation="g1", readers_kept=1)
    app = make_admin(parts_of(single, heartbeat_seconds=0.02))
    async with asked(app) as client:
        async with client.get("/api/v1/events") as first:
            await next_event(first)
            status, content = await read(client, "/api/v1/events")
            assert (status, content["error"]["code"]) == (503, "too_many_readers")
            first.close()

        async with asyncio.timeout(WAIT_SECONDS):
            while True:
                async with client.get("/api/v1/events") as answer:
                    if answer.status == 200:
                        break


async def test_open_stream_does_not_hold_up_the_shutdown(feed: Feed) -> None:
    app = make_admin(parts_of(feed))
    port = await app.listen("127.0.0.1", 0)
    url = f"http://127.0.0.1:{port}/api/v1/events"

    async with aiohttp.ClientSession() as client, client.get(url) as answer:
        await next_event(answer)
        async with asyncio.timeout(WAIT_SECONDS):
            await app.close(grace_seconds=60)

        assert b"event: request" not in await answer.content.read()


async def test_answers_are_not_kept_framed_or_read_by_other_sites(
    client: aiohttp.ClientSession,
) -> None:
    for path in ("/api/v1/requests", "/api/v1/events", "/metrics", "/nowhere"):
        async with client.get(path) as answer:
            assert answer.headers["Cache-Control"] == "no-store"
            assert "default-src 'self'" in answer.headers["Content-Security-Policy"]
            assert "frame-ancestors 'none'" in answer.headers["Content-Security-Policy"]
            assert answer.headers["X-Content-Type-Options"] == "nosniff"
            assert "Access-Control-Allow-Origin" not in answer.headers
            assert answer.headers["Server"] == "deuz-sidecar"
