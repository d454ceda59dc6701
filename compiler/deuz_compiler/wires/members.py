"""Exact places of the members of a JSON object or array, without decoding values.

Rules:
- msgspec validates and finds each value; a walk over the text gives the offsets.
- The walk proves itself: every value must stand where the walk says, so a duplicate key
  cannot lead it astray.
- A text known to start like an earlier one is resumed: only its rest is scanned.
"""

import re

import msgspec

from deuz_compiler.errors import NotLifted
from deuz_compiler.wires.envelope import Member

_OBJECT = msgspec.json.Decoder(dict[str, msgspec.Raw])
_ARRAY = msgspec.json.Decoder(list[msgspec.Raw])
# What stands between two values, in one step each: a Python loop over the bytes takes
# most of a small request's time. Values are not matched: they may be megabytes.
_KEY = re.compile(rb'[ \t\n\r,]*"((?:[^"\\]|\\.)*)"[ \t\n\r]*:[ \t\n\r]*', re.DOTALL)
_BETWEEN = re.compile(rb"[ \t\n\r]*,?[ \t\n\r]*")
_SPACE = re.compile(rb"[ \t\n\r]*")
_NEXT = b",{"
BOM = b"\xef\xbb\xbf"


def object_members(text: bytes, *, shift: int = 0) -> tuple[Member, ...]:
    """Return the members of the one object in `text`, offsets moved by `shift`.

    Raises:
        NotLifted: not a JSON object, or a key stands twice.
    """
    values = _decode_object(text)
    members = []
    at = text.index(b"{") + 1
    for _ in values:
        found = _KEY.match(text, at)
        if found is None:
            raise NotLifted("duplicate_key")
        key, start = _spelled_out(found[1]), found.end()
        raw = bytes(values.get(key, b""))
        at = start + len(raw)
        if not raw or not text.startswith(raw, start):
            raise NotLifted("duplicate_key")
        members.append(Member(key, start + shift, at + shift))
    # As many were walked as keys differ: one that came twice leaves another unwalked.
    if values and not text.startswith(b"}", _skip(text, at)):
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
    end = _skip(text, 0) + 1
    for value in values:
        # Grammar leaves only blanks and one comma between elements: stepping is exact.
        start = _after_comma(text, end)
        end = start + len(bytes(value))
        places.append((start + shift, end + shift))
    return places


def step_over(
    text: bytes, at: int, values: list[msgspec.Raw], *, shift: int = 0
) -> tuple[list[tuple[int, bytes]], int]:
    """Return start and text of each of an array's values, and where the last one ends.

    `at` is where the text goes on with the first of them, or the comma ahead of it.
    Starts are moved by `shift`.

    Raises:
        NotLifted: they do not stand here: a key stands twice.
    """
    elements = []
    for value in values:
        raw = bytes(value)
        # As most clients write it; grammar leaves but blanks and one comma.
        if text.startswith(_NEXT, at):
            at += 1
        elif not text.startswith(raw, at):
            at = _after_comma(text, at)
        if not text.startswith(raw, at):
            raise NotLifted("duplicate_key")
        elements.append((at + shift, raw))
        at += len(raw)
    return elements, at


def end_of_array(text: bytes, at: int) -> int:
    """Return the end of an array whose last value ends here.

    Raises:
        NotLifted: it does not end here: a key stands twice.
    """
    at = _skip(text, at)
    if not text.startswith(b"]", at):
        raise NotLifted("duplicate_key")
    return at + 1


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
    return _SPACE.match(text, at).end()  # type: ignore[union-attr]  # Matches nothing too.


def _after_comma(text: bytes, at: int) -> int:
    return _BETWEEN.match(text, at).end()  # type: ignore[union-attr]  # As above.


def _spelled_out(key: bytes) -> str:
    if b"\\" in key:
        return msgspec.json.decode(b'"' + key + b'"', type=str)
    return key.decode()
