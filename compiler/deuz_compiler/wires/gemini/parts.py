"""The parts of one Gemini turn.

Rules:
- A function's response is an object. Its largest member is what a stub replaces: so it
  stays an object, and what is small in it stays as it is.
- A part with a signature is never touched: thinking that has one cannot be cut, and
  then none of the turn's is.
- Calls and responses are paired by id, where there is none by the function's name.
"""

import msgspec

from deuz_compiler.wires.gemini.pieces import (
    Piece,
    is_there,
    piece_places,
    read_content,
    read_piece,
    role_of,
    spell,
)
from deuz_compiler.wires.members import object_members
from deuz_compiler.wires.parts import (
    DOCUMENT,
    IMAGE,
    OTHER,
    REASONING,
    TEXT,
    TOOL_CALL,
    TOOL_RESULT,
    Part,
    Place,
    TurnReader,
    cut_places,
)


class _Call(msgspec.Struct):
    id: str | None = None
    name: str | None = None
    args: msgspec.Raw = msgspec.Raw(b"{}")
    response: msgspec.Raw = msgspec.Raw(b"")


class _Media(msgspec.Struct):
    mime: str | None = msgspec.field(default=None, name="mimeType")
    mime_snake: str | None = msgspec.field(default=None, name="mime_type")


_call = msgspec.json.Decoder(_Call)
_media = msgspec.json.Decoder(_Media)
_names = msgspec.json.Decoder(dict[str, msgspec.Raw])


def _role(raw: bytes) -> str:
    return role_of(read_content(raw))


def _read_parts(raw: bytes) -> tuple[Part, ...]:
    members = {member.key: member for member in object_members(raw)}
    parts = members.get("parts")
    if parts is None:
        return ()
    places = piece_places(raw[parts.start : parts.end], shift=parts.start)
    pieces = [read_piece(raw[start:end]) for start, end in places]
    is_cut = [piece.is_thought for piece in pieces]
    cuts = cut_places(places, is_cut)
    if any(piece.is_thought and piece.is_signed for piece in pieces):
        cuts = tuple((start, start) for start, _ in places)
    return tuple(
        _part(raw, piece, cut if piece.is_thought else place)
        for piece, place, cut in zip(pieces, places, cuts, strict=True)
    )


def _part(raw: bytes, piece: Piece, place: Place) -> Part:
    start, end = place
    if piece.calls:
        call = _call.decode(piece.calls)
        name = call.name or ""
        arguments = bytes(call.args).decode()
        return Part(TOOL_CALL, start, end, arguments, call.id or name, name)
    if piece.returns:
        return _result(raw, piece, place)
    if piece.media:
        return Part(_media_kind(piece.media), start, end)
    if piece.is_thought or is_there(piece.text):
        kind = REASONING if piece.is_thought else TEXT
        text = msgspec.json.decode(piece.text, type=str | None) or ""
        return Part(kind, start, end, text)
    return Part(OTHER, start, end, name=next(iter(_names.decode(raw[start:end])), ""))


def _media_kind(media: bytes) -> str:
    told = _media.decode(media)
    mime = told.mime or told.mime_snake or ""
    return IMAGE if mime.startswith("image/") else DOCUMENT


def _result(raw: bytes, piece: Piece, place: Place) -> Part:
    result = _call.decode(piece.returns)
    name = result.name or ""
    start, end = _response_place(raw, place)
    value = raw[start:end]
    text = bytes(result.response).decode()
    if value.startswith(b'"') and len(_names.decode(result.response)) == 1:
        text = msgspec.json.decode(value, type=str)
    return Part(TOOL_RESULT, start, end, text, result.id or name, name)


def _response_place(raw: bytes, place: Place) -> Place:
    """Return where the largest member of the response stands; empty without one."""
    at = place
    for name in ("functionResponse", "response"):
        members = object_members(raw[at[0] : at[1]], shift=at[0])
        found = [(m.start, m.end) for m in members if spell(m.key) == name]
        if not found:
            return at[0], at[0]
        at = found[0]
    if not raw.startswith(b"{", at[0]):
        return at[0], at[0]
    values = object_members(raw[at[0] : at[1]], shift=at[0])
    largest = max(values, key=lambda m: m.end - m.start, default=None)
    return (largest.start, largest.end) if largest else (at[0], at[0])


READER = TurnReader(_read_parts, _role)
read_parts, part_span = READER.read_parts, READER.part_span
transcribe_turn, user_text = READER.transcribe_turn, READER.user_text
