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

# Fields of `AnyValue`, each with how its bytes are to be read.
_TEXT, _BOOL, _INT, _DOUBLE, _LIST = b"\x0a", b"\x10", b"\x18", b"\x21", b"\x2a"
_WITH_LENGTH = (_TEXT, _LIST)

_ONE_BYTE = tuple(bytes((number,)) for number in range(0x80))
# Seven bits, and that more follow.
_AND_MORE = tuple(bytes((number | 0x80,)) for number in range(0x80))
_TWO_BYTES = 1 << 14
_UNSIGNED = (1 << 64) - 1


ITEM = 2
"""The field of an envelope that spans, or metrics, are members of."""


@dataclass(frozen=True, slots=True)
class Envelope:
    """Who speaks: around all that is sent. Spans and metrics have the same one."""

    resource: Mapping[str, AttributeValue]
    scope: str
    version: str

    def seal(self, items: Iterable[bytes]) -> bytes:
        """Return the request with these spans, or metrics, each written as `ITEM`."""
        scope = write_text(1, self.scope) + write_text(2, self.version)
        said = b"".join((write_message(1, scope), *items))
        resource = write_message(1, write_attributes(1, self.resource))
        return write_message(1, resource + write_message(2, said))


def write_attributes(field: int, said: Mapping[str, AttributeValue | None]) -> bytes:
    """Return attributes as members of this field; a value of None is left off."""
    return b"".join(
        [
            write_attribute(field, write_text(1, name), value)
            for name, value in said.items()
            if value is not None
        ]
    )


def write_attribute(field: int, key: bytes, value: AttributeValue) -> bytes:
    """Return one attribute as a member of this field; its key is written already."""
    mark, raw = _value(value)
    return _head(field, key, mark, len(raw)) + raw


def write_message(field: int, content: bytes) -> bytes:
    """Return a message, or bytes, as a member of this field: one of the first 15."""
    return _ONE_BYTE[field << 3 | 2] + write_varint(len(content)) + content


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
        return _AND_MORE[number & 0x7F] + _ONE_BYTE[number >> 7]
    groups = bytearray()
    while number >= 0x80:  # noqa: PLR2004  # As above.
        groups.append(number & 0x7F | 0x80)
        number >>= 7
    groups.append(number)
    return bytes(groups)


# An attribute's name and the length of its value leave a few hundred heads.
@lru_cache(maxsize=2048)
def _head(field: int, key: bytes, mark: bytes, length: int) -> bytes:
    """Return a `KeyValue` as a member of this field, up to its value's own bytes."""
    opening = _opening(mark, length)
    named = key + b"\x12" + write_varint(len(opening) + length)
    size = write_varint(len(named) + len(opening) + length)
    return _ONE_BYTE[field << 3 | 2] + size + named + opening


def _opening(mark: bytes, length: int) -> bytes:
    return mark + write_varint(length) if mark in _WITH_LENGTH else mark


def _value(value: AttributeValue) -> tuple[bytes, bytes]:
    """Return an `AnyValue` in two: what kind of value it is, and its bytes.

    The empty text is a value too, and is written out.
    """
    if isinstance(value, str):
        return _TEXT, value.encode()
    if isinstance(value, bool):
        return _BOOL, _ONE_BYTE[value]
    if isinstance(value, int):
        return _INT, write_varint(value & _UNSIGNED)
    if isinstance(value, float):
        return _DOUBLE, pack_double(value)
    return _LIST, b"".join([write_message(1, _whole(each)) for each in value])


def _whole(value: AttributeValue) -> bytes:
    mark, raw = _value(value)
    return _opening(mark, len(raw)) + raw
