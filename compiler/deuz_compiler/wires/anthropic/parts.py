"""The parts of one Anthropic message.

Rules:
- A tool result stands inside a user message; its id and error flag are not its content.
- `thinking` and `redacted_thinking` are kept or cut all together, never one of them.
- Results of the provider's own tools hold sealed content: they are `other`, never cut.
"""

import msgspec

from deuz_compiler.errors import NotLifted
from deuz_compiler.wires.members import array_elements, object_members
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
    cut_places,
    told,
)

_KINDS = {
    "text": TEXT,
    "image": IMAGE,
    "document": DOCUMENT,
    "tool_use": TOOL_CALL,
    "tool_result": TOOL_RESULT,
    "thinking": REASONING,
    "redacted_thinking": REASONING,
    "compaction": SEALED,
}

_NAMED = (SEALED, OTHER)


class _Block(msgspec.Struct):
    type: str = ""
    text: str = ""
    thinking: str = ""
    id: str = ""
    tool_use_id: str = ""
    name: str = ""
    input: msgspec.Raw = msgspec.Raw(b"")
    content: msgspec.Raw = msgspec.Raw(b"")


class _Text(msgspec.Struct):
    type: str = ""
    text: str = ""


class _Message(msgspec.Struct):
    role: str
    content: msgspec.Raw


_message = msgspec.json.Decoder(_Message)
_block = msgspec.json.Decoder(_Block)
_texts = msgspec.json.Decoder(str | list[_Text])


def _role_of(raw: bytes) -> str:
    return _message.decode(raw).role


def _read_parts(raw: bytes) -> tuple[Part, ...]:
    members = {member.key: member for member in object_members(raw)}
    content = members.get("content")
    if content is None:
        raise NotLifted("unknown_shape")
    value = raw[content.start : content.end]
    if value.startswith(b'"'):
        text = msgspec.json.decode(value, type=str)
        return (Part(TEXT, content.start, content.end, text),)
    places = array_elements(value, shift=content.start)
    blocks = [_block.decode(raw[start:end]) for start, end in places]
    kinds = [_KINDS.get(block.type, OTHER) for block in blocks]
    cuts = cut_places(places, [kind == REASONING for kind in kinds])
    return tuple(
        _part(raw, kind, block, cut if kind == REASONING else place)
        for kind, block, place, cut in zip(kinds, blocks, places, cuts, strict=True)
    )


def _part(raw: bytes, kind: str, block: _Block, place: Place) -> Part:
    start, end = place
    if kind == TOOL_CALL:
        arguments = bytes(block.input).decode()
        return Part(kind, start, end, arguments, block.id, block.name)
    if kind == TOOL_RESULT:
        start, end = _content_place(raw, place)
        text = _result_text(bytes(block.content))
        return Part(kind, start, end, text, block.tool_use_id)
    name = block.type if kind in _NAMED else ""
    return Part(kind, start, end, block.text or block.thinking, name=name)


def _content_place(raw: bytes, place: Place) -> Place:
    start, end = place
    members = object_members(raw[start:end], shift=start)
    found = [(m.start, m.end) for m in members if m.key == "content"]
    return found[0] if found else (start, start)


def _result_text(content: bytes) -> str:
    if not content or content == b"null":
        return ""
    value = _texts.decode(content)
    if isinstance(value, str):
        return value
    return "\n".join(told(p.text, p.type, is_text=p.type == "text") for p in value)


READER = TurnReader(_read_parts, _role_of, has_plain_turns=True)
read_parts, part_span = READER.read_parts, READER.part_span
transcribe_turn, user_text = READER.transcribe_turn, READER.user_text
