"""The parts of one message of an Ollama chat.

Rules:
- Content is one string; pictures stand beside it, and so do thinking and calls.
- A call and its result are paired by id, where there is none by the tool's name.
"""

import msgspec

from deuz_compiler.wires.envelope import Member
from deuz_compiler.wires.members import array_elements, object_members
from deuz_compiler.wires.parts import (
    IMAGE,
    REASONING,
    TEXT,
    TOOL_CALL,
    TOOL_RESULT,
    Part,
    Place,
    TurnReader,
    cut_places,
)


class _Message(msgspec.Struct):
    role: str
    tool_name: str | None = None
    tool_call_id: str | None = None


class _Function(msgspec.Struct, frozen=True, gc=False):
    name: str = ""
    arguments: msgspec.Raw = msgspec.Raw(b"{}")


class _Call(msgspec.Struct):
    id: str | None = None
    function: _Function = _Function()


_message = msgspec.json.Decoder(_Message)
_call = msgspec.json.Decoder(_Call)
_text = msgspec.json.Decoder(str)
_EMPTY = (b"null", b'""', b"[]")


def _role_of(raw: bytes) -> str:
    return _message.decode(raw).role


def _read_parts(raw: bytes) -> tuple[Part, ...]:
    """Return the parts in order: thinking, then content, pictures and calls."""
    message = _message.decode(raw)
    members = object_members(raw)
    filled = {m.key: m for m in members if raw[m.start : m.end] not in _EMPTY}
    parts = []
    if "thinking" in filled:
        parts.append(_thinking(raw, members))
    if content := filled.get("content"):
        parts.append(_content(raw, content, message))
    if images := filled.get("images"):
        parts += [Part(IMAGE, *place) for place in _elements(raw, images)]
    if calls := filled.get("tool_calls"):
        parts += [_tool_call(raw, place) for place in _elements(raw, calls)]
    return tuple(parts)


def _thinking(raw: bytes, members: tuple[Member, ...]) -> Part:
    """Return the thinking; a stub for it takes the member away, with one comma."""
    ends = [0, *(member.end for member in members[:-1])]
    starts = [raw.find(b'"', end) for end in ends]
    places = [(at, m.end) for at, m in zip(starts, members, strict=True)]
    is_cut = [member.key == "thinking" for member in members]
    cut = cut_places(places, is_cut)[is_cut.index(True)]
    member = members[is_cut.index(True)]
    return Part(REASONING, *cut, _text.decode(raw[member.start : member.end]))


def _content(raw: bytes, content: Member, message: _Message) -> Part:
    text = _text.decode(raw[content.start : content.end])
    if message.role == "tool":
        called = message.tool_call_id or message.tool_name or ""
        return Part(TOOL_RESULT, content.start, content.end, text, called)
    return Part(TEXT, content.start, content.end, text)


def _elements(raw: bytes, member: Member) -> list[Place]:
    return array_elements(raw[member.start : member.end], shift=member.start)


def _tool_call(raw: bytes, place: Place) -> Part:
    call = _call.decode(raw[place[0] : place[1]])
    name, arguments = call.function.name, bytes(call.function.arguments).decode()
    return Part(TOOL_CALL, *place, arguments, call.id or name, name)


READER = TurnReader(_read_parts, _role_of, has_plain_turns=True)
read_parts, part_span = READER.read_parts, READER.part_span
transcribe_turn, user_text = READER.transcribe_turn, READER.user_text
