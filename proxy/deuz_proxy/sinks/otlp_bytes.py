"""What spans and metrics have in common as bytes of an OTLP request.

Rules:
- Bytes are written straight from the values: the SDK makes an object for each attribute
  and each value, which costs more than relaying a small request.
- What comes again is remembered: heads of attributes here, whole runs of attributes by
  those who know which (`spans`).

Source: opentelemetry-proto 1.x, common.proto and resource.proto (field numbers), and
the wire format of Protocol Buffers.
"""

import struct
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache

AttributeValue = str | bool | int | float | tuple[str, ...]

pack_fixed64 = struct.Struct("<q").pack
pack_double = struct.Struct("<d").pack

_ONE_BYTE = tuple(bytes((number,)) for number in range(0x80))
_TWO_BYTES = 1 << 14
_UNSIGNED = (1 << 64) - 1


@dataclass(frozen=True, slots=True)
class Envelope:
    """Who speaks: around all that is sent. Spans and metrics have the same one."""

    resource: Mapping[str, AttributeValue]
    scope: str
    version: str

    def seal(self, items: Iterable[bytes]) -> bytes:
        """Return the request with these spans, or with these metrics."""
        scope = write_text(1, self.scope) + write_text(2, self.version)
        said = [write_message(1, scope), *[write_message(2, item) for item in items]]
        resource = write_message(1, write_attributes(1, self.resource))
        return write_message(1, resource + write_message(2, b"".join(said)))


def write_attributes(field: int, said: Mapping[str, AttributeValue | None]) -> bytes:
    """Return attributes as members of this field; a value of None is left off."""
    pieces: list[bytes] = []
    for name, value in said.items():
        if value is None:
            continue
        head = _head(name)
        raw = _value(value)
        raw_length = write_varint(len(raw))
        length = write_varint(len(head) + len(raw_length) + len(raw))
        pieces += (_tag(field), length, head, raw_length, raw)
    return b"".join(pieces)


def write_message(field: int, content: bytes) -> bytes:
    """Return a message, or bytes, as a member of this field."""
    return _tag(field) + write_varint(len(content)) + content


def write_text(field: int, text: str) -> bytes:
    """Return a text as a member of this field; an empty one is not written."""
    return write_message(field, text.encode()) if text else b""


def write_number(field: int, number: int) -> bytes:
    """Return a whole number as a member of this field; 0 is not written."""
    return write_varint(field << 3) + write_varint(number) if number else b""


def write_varint(number: int) -> bytes:
    """Return a number that is not negative in as many bytes as it needs."""
    if number < 0x80:  # noqa: PLR2004  # Seven bits to a byte.
        return _ONE_BYTE[number]
    if number < _TWO_BYTES:
        return bytes((number & 0x7F | 0x80, number >> 7))
    groups = bytearray()
    while number >= 0x80:  # noqa: PLR2004  # As above.
        groups.append(number & 0x7F | 0x80)
        number >>= 7
    groups.append(number)
    return bytes(groups)


@lru_cache(maxsize=64)
def _tag(field: int) -> bytes:
    """Return what opens a member that has a length."""
    return write_varint(field << 3 | 2)


@lru_cache(maxsize=1024)
def _head(name: str) -> bytes:
    """Return a `KeyValue` up to the length of its value."""
    return write_text(1, name) + _tag(2)


def _value(value: AttributeValue) -> bytes:
    """Return an `AnyValue`. The empty text is a value too, and is written out."""
    if isinstance(value, str):
        raw = value.encode()
        return b"\x0a" + write_varint(len(raw)) + raw
    if isinstance(value, bool):
        return b"\x10\x01" if value else b"\x10\x00"
    if isinstance(value, int):
        return b"\x18" + write_varint(value & _UNSIGNED)
    if isinstance(value, float):
        return b"\x21" + pack_double(value)
    return write_message(5, b"".join(write_message(1, _value(each)) for each in value))
