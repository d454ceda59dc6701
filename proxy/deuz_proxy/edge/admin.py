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
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Protocol

import msgspec

from deuz_proxy.edge.admin_compile import add_compile
from deuz_proxy.edge.admin_guard import SECURITY_HEADERS, make_guard
from deuz_proxy.edge.admin_mcp import add_mcp
from deuz_proxy.edge.admin_memory import add_memory
from deuz_proxy.edge.admin_notes import add_notes
from deuz_proxy.edge.admin_openapi import add_openapi
from deuz_proxy.edge.admin_page import add_page
from deuz_proxy.edge.admin_web import (
    Answer,
    Application,
    Request,
    Response,
    Stream,
    refuse,
)
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


def make_admin(
    parts: AdminParts, *, token: str | None = None, hosts: Sequence[str] = ()
) -> Application:
    """Build the admin application.

    `hosts` are names, besides loopback ones, under which it may be reached without a
    token: the listen host, for one.
    """
    app = Application(guard=make_guard(token, hosts), headers=SECURITY_HEADERS)
    for path, show in (
        ("/healthz", show_health),
        ("/readyz", show_readiness),
        ("/metrics", show_metrics),
        ("/api/v1/requests", list_requests),
        ("/api/v1/requests/{id}", show_request),
        ("/api/v1/conversations", list_conversations),
        ("/api/v1/status", show_status),
        ("/api/v1/events", stream_events),
        ("/api/v1/config", show_config),
    ):
        app.add("GET", path, partial(show, parts))
    if parts.runtime is not None:
        add_memory(app, parts.runtime)
        add_notes(app, parts.runtime)
        add_compile(app, parts.runtime)
        add_mcp(app, parts.runtime, token)
        add_openapi(app, has_token=token is not None)
    add_page(app)
    return app


async def show_health(parts: AdminParts, _: Request) -> Response:
    """Answer that the process serves; faults of listeners are told, not fatal."""
    faults = list(parts.faults())
    return answer({"status": "ok", "faults": faults})


async def show_readiness(parts: AdminParts, _: Request) -> Response:
    """Answer whether traffic should be sent here, and if not, why."""
    reasons = list(parts.readiness())
    if reasons:
        return answer({"status": "not_ready", "reasons": reasons}, status=503)
    return answer({"status": "ready"})


async def show_metrics(parts: AdminParts, request: Request) -> Response:
    """Answer with the metrics in the form that the reader prefers."""
    accept = request.headers.get("accept")
    body, content_type = parts.metrics(accept)
    return Response(body, content_type=content_type)


async def list_requests(parts: AdminParts, request: Request) -> Response:
    """Answer with the newest requests and the place to follow them from."""
    limit = read_limit(request.query.get("limit"))
    if limit is None:
        return refuse(
            400,
            "invalid_limit",
            f"limit of /api/v1/requests is not a whole number from 1 to {LIMIT_CEILING}"
            f"; leave it out for the newest {LIMIT_DEFAULT}",
        )
    feed = parts.feed
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


async def show_request(parts: AdminParts, request: Request) -> Response:
    """Answer with all that is known of one request."""
    found = parts.feed.request(request.named["id"])
    if found is None:
        return refuse(
            404,
            "unknown_request",
            "no finished request with this id is remembered; only the newest are: "
            "list them at /api/v1/requests",
        )
    return answer(found)


async def list_conversations(parts: AdminParts, _: Request) -> Response:
    """Answer with the conversations, the one used last first."""
    listed = await encode_each(parts.feed.conversations())
    return answer({"conversations": listed})


async def show_status(parts: AdminParts, _: Request) -> Response:
    """Answer with the sums over all requests."""
    return answer(parts.feed.status())


async def show_config(parts: AdminParts, _: Request) -> Response:
    """Answer with the effective configuration."""
    return answer(parts.config())


async def stream_events(parts: AdminParts, request: Request) -> Answer:
    """Stream what happens from now on, or from behind the reader's last event."""
    reader = parts.feed.subscribe(request.headers.get("last-event-id"))
    if reader is None:
        return refuse(
            503,
            "too_many_readers",
            "all places at /api/v1/events are taken; close another page or reader",
        )
    frames = event_frames(reader, parts.heartbeat_seconds)
    return Stream("text/event-stream", frames, reader.close, WRITE_SECONDS)


async def event_frames(
    reader: Reader, heartbeat_seconds: float
) -> AsyncIterator[bytes]:
    """Yield events and heartbeats until the stream is over."""
    yield b"retry: 1000\n\n"
    while not reader.is_closed:
        yield await next_frames(reader, heartbeat_seconds)


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


def answer(content: Mapping[str, object], *, status: int = 200) -> Response:
    """Return an answer in JSON that nobody may keep."""
    return Response(encode(content), status)
