"""From bytes on the socket to a request that the provider understands.

Rules:
- Bodies may be compressed by any coding that clients use; what is logged are the bytes
  as they came.
- A body that is no JSON object is refused in the wire's own words.
"""

import json
import zlib

import brotli  # It ships no stubs.
from aiohttp import web

from deuz_proxy.demo.provider.exchange import (
    ANTHROPIC,
    GEMINI,
    OLLAMA,
    Json,
    LoggedRequest,
    ProviderRequest,
    Refusal,
)
from deuz_proxy.demo.provider.fields import word
from deuz_proxy.demo.provider.routing import Route, find_credential
from deuz_proxy.observe.zstandard import zstd

_GZIP_OR_ZLIB = 47


async def receive_body(request: web.BaseRequest) -> bytes:
    """Return the body as it came, however large."""
    if request.headers.get("Expect", "").lower() == "100-continue":
        transport = request.transport
        if transport is not None:
            transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")
    return await request.content.read()


def understand_request(
    request: web.BaseRequest, route: Route, logged: LoggedRequest
) -> ProviderRequest | Refusal:
    """Return the request with its decoded payload, or why it cannot be read."""
    headers = {name.lower(): value for name, value in request.headers.items()}
    try:
        body = unpack_body(logged.body, headers.get("content-encoding", ""))
        payload = json.loads(body) if route.wire != "other" else {}
    except (ValueError, RecursionError):
        return _unreadable(route.wire)
    if not isinstance(payload, dict):
        return _unreadable(route.wire)
    return ProviderRequest(
        wire=route.wire,
        model=route.model or word(payload.get("model")),
        is_streamed=route.is_streamed or is_stream_asked(route.wire, payload),
        payload=payload,
        body=body,
        headers=headers,
        query=dict(request.query),
        raw_path=logged.raw_path,
        credential=find_credential(headers, request.query),
        purpose=route.purpose,
    )


def is_stream_asked(wire: str, payload: Json) -> bool:
    """Tell whether a body asks for a stream; to Ollama, one that says nothing does."""
    stream = payload.get("stream")
    return stream is True or (wire in OLLAMA and stream is None)


def unpack_body(body: bytes, coding: str) -> bytes:
    """Undo a content coding.

    Raises:
        ValueError: the coding is unknown or the body is damaged.
    """
    name = coding.strip().lower()
    if name in {"", "identity"}:
        return body
    try:
        if name in {"gzip", "x-gzip", "deflate"}:
            return zlib.decompress(body, wbits=_GZIP_OR_ZLIB)
        if name == "zstd":
            return zstd.decompress(body)
        if name == "br":
            return bytes(brotli.decompress(body))
    except (zlib.error, zstd.ZstdError, brotli.error) as fault:
        raise ValueError("body does not match its coding") from fault
    raise ValueError("content coding is not known")


def _unreadable(wire: str) -> Refusal:
    words = {
        ANTHROPIC: "The request body is not valid JSON",
        GEMINI: "Invalid JSON payload received. Unexpected token.",
    }
    openai = (
        "We could not parse the JSON body of your request. (HINT: This likely means "
        "you aren't using your HTTP library correctly. The OpenAI API expects a JSON "
        "payload, but what was sent was not valid JSON.)"
    )
    return Refusal("not_json", words.get(wire, openai))
