"""From an answer to bytes on the socket, whole or in pieces.

Rules:
- Every event is written on its own, so that a reader sees them as they come.
- A cut answer ends like a provider that died: no last chunk, too few bytes.
"""

import asyncio
from collections.abc import Iterable

from aiohttp import web

from deuz_proxy.demo.provider.exchange import RawReply

EVENT_STREAM = "text/event-stream; charset=utf-8"
JSON = "application/json"
LINES = "application/x-ndjson"


async def send_whole(
    request: web.BaseRequest,
    body: bytes,
    *,
    status: int = 200,
    headers: dict[str, str] | None = None,
    is_cut: bool = False,
) -> web.StreamResponse:
    """Send a buffered answer; a cut one ends after half of the promised bytes."""
    named = {"Content-Type": JSON, **(headers or {})}
    if not is_cut:
        return web.Response(status=status, body=body, headers=named)
    response = web.StreamResponse(status=status, headers=named)
    response.content_length = len(body)
    await response.prepare(request)
    await response.write(body[: len(body) // 2])
    _hang_up(request)
    return response


async def send_events(
    request: web.BaseRequest,
    events: Iterable[bytes],
    *,
    headers: dict[str, str],
    pause_seconds: float = 0.0,
    cut_after: int | None = None,
) -> web.StreamResponse:
    """Send events one by one; a cut stream ends without its last chunk."""
    response = web.StreamResponse(headers=headers)
    await response.prepare(request)
    for place, event in enumerate(events):
        if cut_after is not None and place >= cut_after:
            _hang_up(request)
            return response
        if place and pause_seconds:
            await asyncio.sleep(pause_seconds)
        await response.write(event)
    await response.write_eof()
    return response


async def send_raw(request: web.BaseRequest, reply: RawReply) -> web.StreamResponse:
    """Send the given bytes, chunk by chunk."""
    response = web.StreamResponse(status=reply.status, headers=reply.headers)
    await response.prepare(request)
    for place, chunk in enumerate(reply.chunks):
        if place and reply.pause_seconds:
            await asyncio.sleep(reply.pause_seconds)
        await response.write(chunk)
    if reply.is_cut:
        _hang_up(request)
    else:
        await response.write_eof()
    return response


def _hang_up(request: web.BaseRequest) -> None:
    if request.transport is not None:
        request.transport.close()
