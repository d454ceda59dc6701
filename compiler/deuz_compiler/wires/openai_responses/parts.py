"""The parts of one Responses item; a message has several, any other item is one.

Rules:
- A call and its output are items of their own; the output is what a stub replaces, but
  only where the wire takes any string there.
- Reasoning is an item that the item behind it cannot do without: it is never cut.
- An input that is a string is a message of one text.
"""

import msgspec

from deuz_compiler.errors import NotLifted
from deuz_compiler.wires.members import array_elements, object_members
from deuz_compiler.wires.openai_responses.items import (
    CALLS,
    MESSAGE,
    RESULTS,
    role_of_item,
)
from deuz_compiler.wires.openai_responses.items import SEALED as SEALED_ITEMS
from deuz_compiler.wires.parts import (
    DOCUMENT,
    IMAGE,
    OTHER,
    REASONING,
    SEALED,
    TEXT,
    TOOL_CALL,
    TOOL_RESULT,
    Part,
    Place,
    TurnReader,
    told,
)

_KINDS = {
    "input_text": TEXT,
    "output_text": TEXT,
    "text": TEXT,
    "refusal": TEXT,
    "input_image": IMAGE,
    "input_file": DOCUMENT,
}
_REPLACEABLE = frozenset({"function_call_output", "custom_tool_call_output"})


class _Piece(msgspec.Struct):
    type: str = ""
    text: str = ""
    refusal: str = ""


class _Item(msgspec.Struct):
    type: str | None = MESSAGE
    role: str | None = ""
    id: str | None = None
    call_id: str | None = None
    approval_request_id: str | None = ""
    name: str | None = ""
    content: msgspec.Raw = msgspec.Raw(b"[]")
    summary: list[_Piece] = []
    arguments: msgspec.Raw = msgspec.Raw(b"")
    input: msgspec.Raw = msgspec.Raw(b"")
    action: msgspec.Raw = msgspec.Raw(b"")
    operation: msgspec.Raw = msgspec.Raw(b"")
    code: msgspec.Raw = msgspec.Raw(b"")
    output: msgspec.Raw = msgspec.Raw(b"")


_QUOTE = b'"'
_text = msgspec.json.Decoder(str)
_item = msgspec.json.Decoder(_Item)
_piece = msgspec.json.Decoder(_Piece)
_pieces = msgspec.json.Decoder(list[_Piece] | None)


def _role_of(raw: bytes) -> str:
    """Outputs are a tool's, a lone text is the user's."""
    if raw[:1] == _QUOTE:
        return "user"
    item = _item.decode(raw)
    return role_of_item(item.type or MESSAGE, item.role or "")


def _find_parts(raw: bytes) -> tuple[Part, ...]:
    return _lone_text(raw) if raw[:1] == _QUOTE else _read_parts(raw)


def _lone_text(raw: bytes) -> tuple[Part, ...]:
    return (Part(TEXT, 0, len(raw), _text.decode(raw)),)


def _read_parts(raw: bytes) -> tuple[Part, ...]:
    item = _item.decode(raw)
    kind = item.type or MESSAGE
    if kind == MESSAGE:
        return _message_parts(raw, item)
    if kind in CALLS:
        return (_call(raw, item, kind),)
    if kind in RESULTS:
        return (_result(raw, item, kind),)
    if kind == "reasoning":
        return (Part(REASONING, 0, 0, _thought(item)),)
    told_as = SEALED if kind in SEALED_ITEMS else OTHER
    return (Part(told_as, 0, len(raw), name=kind),)


def _message_parts(raw: bytes, item: _Item) -> tuple[Part, ...]:
    if not item.role:
        raise NotLifted("unknown_shape")
    start, end = _place(raw, "content")
    value = raw[start:end]
    if value.startswith(b'"'):
        return (Part(TEXT, start, end, msgspec.json.decode(value, type=str)),)
    places = array_elements(value, shift=start)
    return tuple(_content_part(raw, place) for place in places)


def _content_part(raw: bytes, place: Place) -> Part:
    piece = _piece.decode(raw[place[0] : place[1]])
    kind = _KINDS.get(piece.type, OTHER)
    name = piece.type if kind == OTHER else ""
    return Part(kind, *place, piece.text or piece.refusal, name=name)


def _call(raw: bytes, item: _Item, kind: str) -> Part:
    said = getattr(item, CALLS[kind])
    name = item.name or kind
    return Part(TOOL_CALL, 0, len(raw), _plain(said), _called(item), name)


def _result(raw: bytes, item: _Item, kind: str) -> Part:
    # Screens, shell logs and approvals have shapes of their own: no stub fits there.
    place = _place(raw, "output") if kind in _REPLACEABLE else (0, 0)
    return Part(TOOL_RESULT, *place, _output_text(bytes(item.output)), _called(item))


def _called(item: _Item) -> str:
    """Return what pairs a call with its output."""
    return item.call_id or item.approval_request_id or item.id or ""


def _output_text(output: bytes) -> str:
    if not output.startswith(b"["):
        return _plain(output)
    pieces = msgspec.json.decode(output, type=list[_Piece])
    return "\n".join(
        told(piece.text, piece.type, is_text=_KINDS.get(piece.type) == TEXT)
        for piece in pieces
    )


def _plain(value: bytes | msgspec.Raw) -> str:
    text = bytes(value)
    return msgspec.json.decode(text, type=str) if text[:1] == b'"' else text.decode()


def _thought(item: _Item) -> str:
    """Return what can be read of the reasoning: its summary, or its open text."""
    pieces = item.summary or _pieces.decode(item.content) or []
    return "\n".join(piece.text for piece in pieces)


def _place(raw: bytes, key: str) -> Place:
    """Return where the member's value stands.

    Raises:
        NotLifted: there is none.
    """
    found = [(m.start, m.end) for m in object_members(raw) if m.key == key]
    if not found:
        raise NotLifted("unknown_shape")
    return found[0]


READER = TurnReader(_find_parts, _role_of, has_plain_turns=True)
read_parts, part_span = READER.read_parts, READER.part_span
role_of = READER.role_of
transcribe_turn, user_text = READER.transcribe_turn, READER.user_text
