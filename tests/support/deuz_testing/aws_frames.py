"""Frames of the AWS event stream, as Bedrock sends them."""

import base64
import json
import struct
import zlib
from typing import Any

TEXT = 7


def header(name: str, value: str) -> bytes:
    """Return one header with a text value."""
    key, text = name.encode(), value.encode()
    return bytes([len(key)]) + key + bytes([TEXT]) + struct.pack(">H", len(text)) + text


def frame(headers: bytes, payload: bytes) -> bytes:
    """Return a whole message with its two checksums."""
    prelude = struct.pack(">II", len(headers) + len(payload) + 16, len(headers))
    message = prelude + struct.pack(">I", zlib.crc32(prelude)) + headers + payload
    return message + struct.pack(">I", zlib.crc32(message))


def event(name: str, payload: Any) -> bytes:
    """Return an event with this payload as JSON."""
    headers = header(":event-type", name) + header(":content-type", "application/json")
    return frame(headers + header(":message-type", "event"), _encoded(payload))


def chunk(inner: Any) -> bytes:
    """Return what InvokeModelWithResponseStream wraps a model's own event in."""
    wrapped = base64.b64encode(_encoded(inner)).decode()
    return event("chunk", {"bytes": wrapped, "p": "abcdefgh"})


def exception(name: str, payload: Any) -> bytes:
    """Return an exception of the service in the middle of a stream."""
    headers = header(":exception-type", name) + header(":message-type", "exception")
    return frame(headers, _encoded(payload))


def _encoded(payload: Any) -> bytes:
    return payload if isinstance(payload, bytes) else json.dumps(payload).encode()
