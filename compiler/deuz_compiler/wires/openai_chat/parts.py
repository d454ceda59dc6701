"""The parts of one chat completions message.

Rules:
- A tool result is a message of its own; its content is what a stub replaces.
- Reasoning stands in members that vendors added, beside the content, not inside it.
- The older `function_call` has no id: call and result are paired by the name.
"""

import msgspec

from deuz_compiler.wires.envelope import Member
from deuz_compiler.wires.members import array_elements, object_members
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
    told,
)

_KINDS = {"text": TEXT, "image_url": IMAGE, "file": DOCUMENT}
_REASONING = frozenset({"reasoning_content", "reasoning", "reasoning_details"})
_ROLES = {"developer": "system", "function": "tool"}
_NULL = b"null"


class _Piece(msgspec.Struct):
    type: str = ""
    text: str = ""


class _Function(msgspec.Struct, frozen=True, gc=False):
    name: str = ""
    arguments: str = ""
    input: str = ""


class _Call(msgspec.Struct):
    id: str = ""
    function: _Function = _Function()
    custom: _Function = _Function()


class _Message(msgspec.Struct):
    role: str
    tool_call_id: str | None = None
    name: str | None = None


_message = msgspec.json.Decoder(_Message)
_piece = msgspec.json.Decoder(_Piece)
_call = msgspec.json.Decoder(_Call)
_function = msgspec.json.Decoder(_Function)


def _role_of(raw: bytes) -> str:
    role = _message.decode(raw).role
    return _ROLES.get(role, role)


def _read_parts(raw: bytes) -> tuple[Part, ...]:
    message = _message.decode(raw)
    members = [m for m in object_members(raw) if raw[m.start : m.end] != _NULL]
    by_key = {member.key: member for member in members}
    content = by_key.get("content")
    parts = _reasoning(raw)
    if content and message.role in {"tool", "function"}:
        called = message.tool_call_id or message.name or ""
        parts.append(_result(raw, content, called))
    elif content:
        parts += _content(raw, content)
    if calls := by_key.get("tool_calls"):
        places = array_elements(raw[calls.start : calls.end], shift=calls.start)
        parts += [_tool_call(raw, place) for place in places]
    if function := by_key.get("function_call"):
        parts.append(_function_call(raw, function))
    return tuple(parts)


def _reasoning(raw: bytes) -> list[Part]:
    members = object_members(raw)
    is_cut = [
        m.key in _REASONING and raw[m.start : m.end] not in {_NULL, b'""', b"[]"}
        for m in members
    ]
    places = [(_key_start(raw, members, i), m.end) for i, m in enumerate(members)]
    cuts = cut_places(places, is_cut)
    return [
        Part(REASONING, *cut, _plain(raw, member), name=member.key)
        for member, cut, is_gone in zip(members, cuts, is_cut, strict=True)
        if is_gone
    ]


def _key_start(raw: bytes, members: tuple[Member, ...], index: int) -> int:
    """Return where the member's key opens: the first quote behind its neighbour."""
    return raw.find(b'"', members[index - 1].end if index else 0)


def _plain(raw: bytes, member: Member) -> str:
    value = raw[member.start : member.end]
    return msgspec.json.decode(value, type=str) if value[:1] == b'"' else value.decode()


def _result(raw: bytes, content: Member, call_id: str) -> Part:
    pieces = _content(raw, content)
    text = "\n".join(told(p.text, p.kind, is_text=p.kind == TEXT) for p in pieces)
    return Part(TOOL_RESULT, content.start, content.end, text, call_id)


def _content(raw: bytes, content: Member) -> list[Part]:
    value = raw[content.start : content.end]
    if value.startswith(b'"'):
        return [Part(TEXT, content.start, content.end, _plain(raw, content))]
    parts = []
    for start, end in array_elements(value, shift=content.start):
        piece = _piece.decode(raw[start:end])
        kind = _KINDS.get(piece.type, OTHER)
        name = piece.type if kind == OTHER else ""
        parts.append(Part(kind, start, end, piece.text, name=name))
    return parts


def _tool_call(raw: bytes, place: Place) -> Part:
    call = _call.decode(raw[place[0] : place[1]])
    function = call.function if call.function.name else call.custom
    text = function.arguments or function.input
    return Part(TOOL_CALL, *place, text, call.id, function.name)


def _function_call(raw: bytes, member: Member) -> Part:
    called = _function.decode(raw[member.start : member.end])
    place = (member.start, member.end)
    return Part(TOOL_CALL, *place, called.arguments, called.name, called.name)


READER = TurnReader(_read_parts, _role_of, has_plain_turns=True)
read_parts, part_span = READER.read_parts, READER.part_span
transcribe_turn, user_text = READER.transcribe_turn, READER.user_text
