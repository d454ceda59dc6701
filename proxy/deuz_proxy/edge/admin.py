"""The admin address: health, metrics, the JSON API, the event stream and the page.

Rules:
- It answers from memory and never touches the way of a request; long answers are made
  in pieces, with the loop free in between.
- With a token, all but health and the page's own files asks for it. Without one, the
  address is for this machine: a name that may have been rebound to it is refused.
- No answer may be read, framed or scripted by another site.
- An error says what is wrong, where, and what to do; it repeats nothing of the request.
"""

import asyncio
import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import msgspec
from aiohttp import hdrs, web

from deuz_proxy.edge.admin_compile import add_compile
from deuz_proxy.edge.admin_guard import (
    add_security_headers,
    explain_errors,
    make_guard,
    refuse,
)
from deuz_proxy.edge.admin_mcp import add_mcp
from deuz_proxy.edge.admin_memory import add_memory
from deuz_proxy.edge.admin_notes import add_notes
from deuz_proxy.edge.admin_openapi import add_openapi
from deuz_proxy.edge.admin_page import add_page
from deuz_proxy.runtime import Runtime

LIMIT_DEFAULT = 100
LIMIT_CEILING = 500
"""The most requests one answer lists; the feed remembers no more by default."""

PIECES_AT_ONCE = 25
"""Descriptions made before other tasks get a turn: 0.2 ms on the reference box."""

WRITE_SECONDS = 30.0
"""A reader that takes nothing for so long is gone, or asleep, and may come back."""


class Notice(Protocol):
    """One message of the event stream."""

    @property
    def id(self) -> str | None:
        """Where to resume behind it; None if it has no place."""

    @property
    def name(self) -> str:
        """The kind of message."""

    @property
    def content(self) -> Mapping[str, object]:
        """What is told, as plain JSON values."""


class Reader(Protocol):
    """A place in the event stream."""

    @property
    def is_closed(self) -> bool:
        """Whether the stream is over."""

    async def wait(self) -> None:
        """Return when there is something to take, or the stream is over."""

    def take(self) -> Sequence[Notice]:
        """Return what came since the last time."""

    def close(self) -> None:
        """End the stream; a second time changes nothing."""


class Feed(Protocol):
    """What is remembered; more than three methods, since it is one memory."""

    @property
    def last_event_id(self) -> str:
        """The place behind the newest request."""

    def requests(self, limit: int) -> Iterable[Mapping[str, object]]:
        """Describe the newest requests, newest first."""

    def request(self, request_id: str) -> Mapping[str, object] | None:
        """Describe one request in full, if it is remembered."""

    def conversations(self) -> Iterable[Mapping[str, object]]:
        """Describe the conversations, the one used last first."""

    def status(self) -> Mapping[str, object]:
        """Describe the sums over all requests."""

    def subscribe(self, after: str | None) -> Reader | None:
        """Open a reader behind a place, or at the newest; None: too many."""


@dataclass(frozen=True, slots=True)
class AdminParts:
    """What the admin address shows.

    `metrics` takes the Accept header and returns the body and its content type.
    `readiness` returns the reasons not to send traffic, `faults` kinds of faults that
    listeners had. `config` returns the effective configuration without its secrets.
    `runtime` is what requests are served with: without it there is no memory API.
    """

    feed: Feed
    metrics: Callable[[str | None], tuple[bytes, str]]
    readiness: Callable[[], Sequence[str]]
    config: Callable[[], Mapping[str, object]]
    faults: Callable[[], Sequence[str]] = tuple
    runtime: Callable[[], Runtime] | None = None
    heartbeat_seconds: float = 15.0


PARTS = web.AppKey("parts", AdminParts)
READERS = web.AppKey("readers", list[Reader])


def make_admin(
    parts: AdminParts, *, token: str | None = None, hosts: Sequence[str] = ()
) -> web.Application:
    """Build the admin application.

    `hosts` are names, besides loopback ones, under which it may be reached without a
    token: the listen host, for one.
    """
    app = web.Application(middlewares=[explain_errors, make_guard(token, hosts)])
    app[PARTS] = parts
    app[READERS] = []
    app.on_response_prepare.append(add_security_headers)
    app.on_shutdown.append(end_streams)
    app.router.add_get("/healthz", show_health)
    app.router.add_get("/readyz", show_readiness)
    app.router.add_get("/metrics", show_metrics)
    app.router.add_get("/api/v1/requests", list_requests)
    app.router.add_get("/api/v1/requests/{id}", show_request)
    app.router.add_get("/api/v1/conversations", list_conversations)
    app.router.add_get("/api/v1/status", show_status)
    app.router.add_get("/api/v1/events", stream_events)
    app.router.add_get("/api/v1/config", show_config)
    if parts.runtime is not None:
        add_memory(app, parts.runtime)
        add_notes(app)
        add_compile(app)
        add_mcp(app, token)
        add_openapi(app, has_token=token is not None)
    add_page(app)
    return app


async def show_health(request: web.Request) -> web.Response:
    """Answer that the process serves; faults of listeners are told, not fatal."""
    faults = list(request.app[PARTS].faults())
    return answer({"status": "ok", "faults": faults})


async def show_readiness(request: web.Request) -> web.Response:
    """Answer whether traffic should be sent here, and if not, why."""
    reasons = list(request.app[PARTS].readiness())
    if reasons:
        return answer({"status": "not_ready", "reasons": reasons}, status=503)
    return answer({"status": "ready"})


async def show_metrics(request: web.Request) -> web.Response:
    """Answer with the metrics in the form that the reader prefers."""
    accept = request.headers.get(hdrs.ACCEPT)
    body, content_type = request.app[PARTS].metrics(accept)
    return web.Response(body=body, headers={hdrs.CONTENT_TYPE: content_type})


async def list_requests(request: web.Request) -> web.Response:
    """Answer with the newest requests and the place to follow them from."""
    limit = read_limit(request.query.get("limit"))
    if limit is None:
        return refuse(
            400,
            "invalid_limit",
            f"limit of /api/v1/requests is not a whole number from 1 to {LIMIT_CEILING}"
            f"; leave it out for the newest {LIMIT_DEFAULT}",
        )
    feed = request.app[PARTS].feed
    # The place is taken first: a request that comes meanwhile is told twice, not never.
    place = feed.last_event_id
    listed = await encode_each(feed.requests(limit))
    return answer({"requests": listed, "last_event_id": place})


def read_limit(text: str | None) -> int | None:
    """Return the number of requests asked for; None if it is not a valid one."""
    if text is None:
        return LIMIT_DEFAULT
    if not re.fullmatch("[0-9]{1,4}", text):
        return None
    limit = int(text)
    return limit if 1 <= limit <= LIMIT_CEILING else None


async def show_request(request: web.Request) -> web.Response:
    """Answer with all that is known of one request."""
    found = request.app[PARTS].feed.request(request.match_info["id"])
    if found is None:
        return refuse(
            404,
            "unknown_request",
            "no finished request with this id is remembered; only the newest are: "
            "list them at /api/v1/requests",
        )
    return answer(found)


async def list_conversations(request: web.Request) -> web.Response:
    """Answer with the conversations, the one used last first."""
    listed = await encode_each(request.app[PARTS].feed.conversations())
    return answer({"conversations": listed})


async def show_status(request: web.Request) -> web.Response:
    """Answer with the sums over all requests."""
    return answer(request.app[PARTS].feed.status())


async def show_config(request: web.Request) -> web.Response:
    """Answer with the effective configuration."""
    return answer(request.app[PARTS].config())


async def stream_events(request: web.Request) -> web.StreamResponse:
    """Stream what happens from now on, or from behind the reader's last event."""
    reader = request.app[PARTS].feed.subscribe(request.headers.get("Last-Event-ID"))
    if reader is None:
        return refuse(
            503,
            "too_many_readers",
            "all places at /api/v1/events are taken; close another page or reader",
        )
    readers = request.app[READERS]
    readers.append(reader)
    try:
        return await send_events(request, reader)
    finally:
        readers.remove(reader)
        reader.close()


async def send_events(request: web.Request, reader: Reader) -> web.StreamResponse:
    """Send events and heartbeats until one side ends the stream."""
    response = web.StreamResponse(headers={hdrs.CONTENT_TYPE: "text/event-stream"})
    await response.prepare(request)
    heartbeat_seconds = request.app[PARTS].heartbeat_seconds
    try:
        await response.write(b"retry: 1000\n\n")
        while not reader.is_closed:
            frames = await next_frames(reader, heartbeat_seconds)
            async with asyncio.timeout(WRITE_SECONDS):
                await response.write(frames)
    except (ConnectionResetError, TimeoutError):
        # The reader left or fell asleep; its place is named in what it got last.
        pass
    return response


async def next_frames(reader: Reader, heartbeat_seconds: float) -> bytes:
    """Return what is new as event frames, or a heartbeat if nothing is for so long."""
    try:
        async with asyncio.timeout(heartbeat_seconds):
            await reader.wait()
    except TimeoutError:
        return b": heartbeat\n\n"
    return b"".join(frame(notice) for notice in reader.take())


def frame(notice: Notice) -> bytes:
    """Return a notice in the form of the event stream."""
    place = b"" if notice.id is None else b"id: %s\n" % notice.id.encode()
    name = notice.name.encode()
    # JSON escapes line breaks in strings, so the content is always one line.
    return b"%sevent: %s\ndata: %s\n\n" % (place, name, encode(notice.content))


async def end_streams(app: web.Application) -> None:
    """End the streams at shutdown: the server waits for them otherwise."""
    for reader in app[READERS]:
        reader.close()


async def encode_each(items: Iterable[Mapping[str, object]]) -> list[msgspec.Raw]:
    """Encode descriptions, letting other tasks run in between."""
    encoded = []
    for count, item in enumerate(items, 1):
        encoded.append(msgspec.Raw(encode(item)))
        if count % PIECES_AT_ONCE == 0:
            await asyncio.sleep(0)
    return encoded


def encode(content: Mapping[str, object]) -> bytes:
    """Return JSON, whatever the strings hold."""
    try:
        return msgspec.json.encode(content)
    except UnicodeEncodeError:
        # A path of bytes that are not UTF-8 comes as lone surrogates.
        return json.dumps(content).encode()


def answer(content: Mapping[str, object], *, status: int = 200) -> web.Response:
    """Return an answer in JSON that nobody may keep."""
    return web.Response(
        body=encode(content), status=status, content_type="application/json"
    )
