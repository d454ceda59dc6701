"""The parts of one turn, told alike for every wire, with the places a stub would take.

Rules:
- `start` and `end` are the bytes that a stub replaces: of a tool result only its
  content, of reasoning the text and one comma: what is left is valid JSON.
- Reasoning that is all a turn says has an empty place: the turn would become invalid.
- A sealed part is run state or a summary of the provider's own: its turn must stay.
- A part's index depends on the turn's content alone, so that it can be stored.
"""

from collections.abc import Callable, Sequence

import msgspec

from deuz_compiler.errors import NotLifted
from deuz_compiler.wires.own import is_own_text, without_own_blocks

TEXT, IMAGE, DOCUMENT = "text", "image", "document"
TOOL_CALL, TOOL_RESULT = "tool_call", "tool_result"
REASONING, SEALED, OTHER = "reasoning", "sealed", "other"

# What decoding raises for another shape, and for one nested too deep.
UNREADABLE = (msgspec.DecodeError, RecursionError)

Place = tuple[int, int]

# As clients write a plain turn.
_PLAIN_HEADS = b'{"role":"user","content":"', b'{"role": "user", "content": "'
_CONTENT = b'content"'
_text = msgspec.json.Decoder(str)


class Part(msgspec.Struct, frozen=True, gc=False):
    """One part of a turn.

    `text` is decoded: of a call its arguments as JSON, "" where there is no text.
    `name` is the tool's, of a `sealed` or `other` part what the wire calls it.
    """

    kind: str
    start: int
    end: int
    text: str = ""
    call_id: str = ""
    name: str = ""


ReadParts = Callable[[bytes], tuple[Part, ...]]


class TurnReader(msgspec.Struct, frozen=True, gc=False):
    """What every wire tells of one turn, from how it finds the parts and the role.

    `find_parts` and `find_role` may raise what decoding raises: then it is no turn of
    the wire, which is `NotLifted`. A role is wire-neutral. Where turns may be plain,
    `{"role": "user", "content": "text"}` is one.
    """

    find_parts: ReadParts
    find_role: Callable[[bytes], str]
    has_plain_turns: bool = False

    def read_parts(self, raw: bytes) -> tuple[Part, ...]:
        """Return the turn's parts.

        Raises:
            NotLifted: not a turn of this wire.
        """
        try:
            return self.find_parts(raw)
        except UNREADABLE as fault:
            raise NotLifted("unknown_shape") from fault

    def part_span(self, raw: bytes, index: int) -> Place:
        """Return the place of one part.

        Raises:
            NotLifted: not a turn of this wire, or it has no such part.
        """
        return place_of(self.read_parts(raw), index)

    def role_of(self, raw: bytes) -> str:
        """Return whose turn it is, wire-neutral.

        Raises:
            NotLifted: not a turn of this wire.
        """
        try:
            return self.find_role(raw)
        except UNREADABLE as fault:
            raise NotLifted("unknown_shape") from fault

    def transcribe_turn(self, raw: bytes) -> tuple[str, ...]:
        """Return the turn for a summariser to read, one entry for each part.

        Raises:
            NotLifted: not a turn of this wire.
        """
        return transcribe(self.role_of(raw), self.read_parts(raw))

    def user_text(self, raw: bytes) -> str:
        """Return what the user wrote, without what the sidecar added; "" for others.

        Raises:
            NotLifted: not a turn of this wire.
        """
        is_plain = raw.startswith(_PLAIN_HEADS) and raw.endswith(b"}")
        if is_plain and self.has_plain_turns:
            # Most questions: a string, and nothing behind it.
            start = raw.find(b'"', raw.find(_CONTENT) + len(_CONTENT))
            try:
                text = _text.decode(raw[start:-1])
                return words_of((Part(TEXT, 0, 0, text),))
            except UNREADABLE:
                pass
        return words_of(self.read_parts(raw)) if self.role_of(raw) == "user" else ""


def place_of(parts: Sequence[Part], index: int) -> Place:
    """Return the place of the part.

    Raises:
        NotLifted: the turn has no such part.
    """
    if index >= len(parts):
        raise NotLifted("unknown_shape")
    return parts[index].start, parts[index].end


def stub_result(raw: bytes, part: Part, stub_text: str) -> bytes:
    """Return the turn with the result's content replaced, and nothing else."""
    return raw[: part.start] + msgspec.json.encode(stub_text) + raw[part.end :]


def told(text: str, name: str, *, is_text: bool) -> str:
    """Return what a piece says, or its name in brackets if it is no text."""
    return text if text or is_text else f"[{name}]"


def cut_places(places: Sequence[Place], is_cut: Sequence[bool]) -> tuple[Place, ...]:
    """Return what to cut so that these elements and one comma each are gone.

    The places never overlap. Where all would go, nothing can: they are empty.
    """
    if all(is_cut):
        return tuple((start, start) for start, _ in places)
    last_kept = max(index for index, cut in enumerate(is_cut) if not cut)
    # Before something kept an element takes the comma behind it, else the one before.
    return tuple(
        (start, places[index + 1][0])
        if index < last_kept
        else (places[index - 1][1] if index > last_kept else start, end)
        for index, (start, end) in enumerate(places)
    )


def transcribe(role: str, parts: Sequence[Part]) -> tuple[str, ...]:
    """Return the turn for a summariser to read: one entry for each part that says some.

    What the sidecar added is left out: it is not part of what was said.
    """
    lines = (_line(role, part) for part in parts)
    return tuple(line for line in lines if line)


def words_of(parts: Sequence[Part]) -> str:
    """Return the turn's own text without what the sidecar wrote into it."""
    texts = [without_own_blocks(p.text) for p in parts if _is_said(p)]
    return "\n".join(text for text in texts if text.strip())


def _is_said(part: Part) -> bool:
    return part.kind == TEXT and not is_own_text(part.text)


def _line(role: str, part: Part) -> str:
    speaker = "TOOL" if part.kind == TOOL_RESULT else role.upper()
    if part.kind == TEXT:
        said = words_of((part,))
        return f"{speaker}: {said}" if said else ""
    if part.kind == TOOL_CALL:
        return f"{speaker}: [call {part.name}({part.text})]"
    if part.kind == TOOL_RESULT:
        return f"{speaker}: [result: {part.text}]"
    if part.kind == REASONING:
        return f"{speaker}: [thinking: {part.text}]" if part.text else ""
    return f"{speaker}: [{part.name or part.kind}]"
