"""One span as a member of an envelope, from what is known of it.

Rules:
- It is written in C (`_span_items.c`) where that was built with the package: a call in
  place of fifty steps for each request. Without it, the same bytes are written here.
- What is not known is left off: an absent count is no 0.

Source: opentelemetry-proto 1.x, trace.proto (field numbers).
"""

import importlib
import struct
from collections.abc import Callable
from functools import lru_cache

from deuz_proxy.sinks.otlp_bytes import ITEM, write_attribute, write_message, write_text

_NAME = "deuz_proxy.sinks._span_items"

SPAN_ATTRIBUTES = 9
"""The field of a span that attributes are members of."""

# Heads of ids: of 16 bytes, and of 8.
_TRACE_ID, _SPAN_ID, _PARENT_ID = b"\x0a\x10", b"\x12\x08", b"\x22\x08"
_pack_times = struct.Struct("<BQBQ").pack
_AT = b"\x09"
_NANOSECONDS = 1e9

Ids = tuple[bytes, int, int, bytes]
"""A trace's id, the span's own, that of the one above it (0: none), and flags."""
Times = tuple[float, float]
"""When it started, and how many seconds it took."""
Keys = tuple[bytes, ...]
Values = tuple[str | bool | int | float | None, ...]
Own = tuple[Keys, Values]
Events = tuple[bytes, ...]
"""Of each event of its end what stands ahead of the time, and what behind."""
WriteItem = Callable[[Ids, Times, bytes, Own, Events], bytes]
"""Takes also what many spans say alike, and attributes that this one alone has.

Raises:
    UnicodeEncodeError: a text has lone surrogates.
"""


def keys_of(*names: str) -> Keys:
    """Return attributes' names as they are written."""
    return tuple([write_text(1, name) for name in names])


def write_in_python(
    ids: Ids, times: Times, alike: bytes, own: Own, events: Events
) -> bytes:
    """Write an item without what is built."""
    trace_id, span_id, above, flags = ids
    started_at, seconds = times
    started = int(started_at * _NANOSECONDS)
    told = _pack_times(0x39, started, 0x41, int((started_at + seconds) * _NANOSECONDS))
    at = _AT + told[-8:]
    parent = _PARENT_ID + above.to_bytes(8, "big") if above else b""
    attributes = [
        write_attribute(SPAN_ATTRIBUTES, key, value)
        for key, value in zip(*own, strict=True)
        if value is not None
    ]
    heads, tails = events[::2], events[1::2]
    happened = [head + at + tail for head, tail in zip(heads, tails, strict=True)]
    start = _TRACE_ID, trace_id, _SPAN_ID, span_id.to_bytes(8, "big"), parent, flags
    said = b"".join((*start, told, alike, *attributes, *happened))
    return write_message(ITEM, said)


@lru_cache(maxsize=2)
def load_writer(name: str = _NAME) -> WriteItem:
    """Return what writes items: what was built, or what does without."""
    try:
        write: WriteItem = importlib.import_module(name).write_item
    except (ImportError, AttributeError):
        # Not built, or built from another source.
        return write_in_python
    return write
