"""Exact places of the members of a JSON object or array, without decoding values.

Rules:
- msgspec validates and finds each value; a walk over the text gives the offsets.
- The walk proves itself: every value must stand where the walk says, so a duplicate key
  cannot lead it astray.
- A text known to start like an earlier one is resumed: only its rest is scanned.
"""

import msgspec

from deuz_compiler.errors import NotLifted
from deuz_compiler.wires.envelope import Member

_OBJECT = msgspec.json.Decoder(dict[str, msgspec.Raw])
_ARRAY = msgspec.json.Decoder(list[msgspec.Raw])
_SPACE = b" \t\n\r"
_QUOTE, _COMMA, _COLON, _CLOSE, _BACKSLASH = 0x22, 0x2C, 0x3A, 0x7D, 0x5C
BOM = b"\xef\xbb\xbf"


def object_members(text: bytes, *, shift: int = 0) -> tuple[Member, ...]:
    """Return the members of the one object in `text`, offsets moved by `shift`.

    Raises:
        NotLifted: not a JSON object, or a key stands twice.
    """
    values = _decode_object(text)
    members = []
    at = _skip(text, 0) + 1
    for _ in range(len(values)):
        key, at = _read_key(text, at)
        raw = bytes(values.get(key, b""))
        start = _skip(text, _skip(text, at) + 1)
        if not raw or not text.startswith(raw, start):
            raise NotLifted("duplicate_key")
        at = _skip(text, start + len(raw))
        members.append(Member(key, start + shift, start + len(raw) + shift))
        if text[at] == _COMMA:
            at += 1
    # As many were walked as keys differ: one that came twice leaves another unwalked.
    if values and text[at] != _CLOSE:
        raise NotLifted("duplicate_key")
    return tuple(members)


def array_elements(text: bytes, *, shift: int = 0) -> list[tuple[int, int]]:
    """Return start and end of each element of the one array in `text`.

    Raises:
        NotLifted: not a JSON array.
    """
    try:
        values = _ARRAY.decode(text)
    except (msgspec.DecodeError, RecursionError) as fault:
        raise NotLifted("unknown_shape") from fault
    places = []
    at = _skip(text, 0) + 1
    for value in values:
        # Grammar leaves only blanks and one comma between elements: stepping is exact.
        start = _skip(text, at)
        end = start + len(bytes(value))
        places.append((start + shift, end + shift))
        at = _skip(text, end) + 1
    return places


def without_members(text: bytes, names: frozenset[str]) -> bytes:
    """Return the object's text with the named members and one comma each cut out."""
    members = object_members(text)
    kept = [m for m in members if m.key not in names]
    if len(kept) == len(members):
        return text
    pieces: list[bytes] = []
    for position, member in enumerate(members):
        if member.key in names:
            continue
        # Each kept member brings the text before it back to the end of its neighbour;
        # the first one kept starts behind the opening brace.
        before = members[position - 1].end if pieces else _skip(text, 0) + 1
        if not pieces and position:
            before = _after_comma(text, members[position - 1].end)
        pieces.append(text[before : member.end])
    tail = text[members[-1].end :]
    return b"{" + b"".join(pieces) + tail


def _decode_object(text: bytes) -> dict[str, msgspec.Raw]:
    try:
        return _OBJECT.decode(text)
    except msgspec.ValidationError as fault:
        raise NotLifted("unknown_shape") from fault
    except (msgspec.DecodeError, RecursionError) as fault:
        raise NotLifted("not_json") from fault


def _skip(text: bytes, at: int) -> int:
    while at < len(text) and text[at] in _SPACE:
        at += 1
    return at


def _after_comma(text: bytes, at: int) -> int:
    return _skip(text, _skip(text, at) + 1)


def _read_key(text: bytes, at: int) -> tuple[str, int]:
    """Return the key that starts at or behind `at`, and the offset behind it."""
    start = _skip(text, at)
    if text[start] != _QUOTE:
        raise NotLifted("duplicate_key")
    end = text.find(b'"', start + 1)
    while _is_escaped(text, end):
        end = text.find(b'"', end + 1)
    key = msgspec.json.decode(text[start : end + 1], type=str)
    return key, end + 1


def _is_escaped(text: bytes, at: int) -> bool:
    count = 0
    while text[at - 1 - count] == _BACKSLASH:
        count += 1
    return count % 2 == 1
