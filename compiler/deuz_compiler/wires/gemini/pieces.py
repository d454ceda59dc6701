"""One part of a Gemini turn, by the members that say what it is.

Rules:
- Every name has two spellings, `functionCall` and `function_call`, and both occur.
- The parts may be a list, or one part without a list around it.
"""

import msgspec

from deuz_compiler.wires.members import array_elements
from deuz_compiler.wires.parts import Place

_NONE = msgspec.Raw(b"null")


def spell(name: str) -> str:
    """Return the name as it is written in camel case."""
    first, *others = name.split("_")
    return first + "".join(word.capitalize() for word in others)


class Content(msgspec.Struct):
    """A turn; without a role it is the user's."""

    parts: msgspec.Raw
    role: str | None = None


class Piece(msgspec.Struct):
    """The raw members of a part that tell what it is; null where they are missing."""

    text: msgspec.Raw = _NONE
    thought: msgspec.Raw = _NONE
    call: msgspec.Raw = msgspec.field(default=_NONE, name="functionCall")
    call_snake: msgspec.Raw = msgspec.field(default=_NONE, name="function_call")
    result: msgspec.Raw = msgspec.field(default=_NONE, name="functionResponse")
    result_snake: msgspec.Raw = msgspec.field(default=_NONE, name="function_response")
    inline: msgspec.Raw = msgspec.field(default=_NONE, name="inlineData")
    inline_snake: msgspec.Raw = msgspec.field(default=_NONE, name="inline_data")
    file: msgspec.Raw = msgspec.field(default=_NONE, name="fileData")
    file_snake: msgspec.Raw = msgspec.field(default=_NONE, name="file_data")
    signature: msgspec.Raw = msgspec.field(default=_NONE, name="thoughtSignature")
    signature_snake: msgspec.Raw = msgspec.field(
        default=_NONE, name="thought_signature"
    )

    @property
    def is_thought(self) -> bool:
        """Whether the text is the model's thinking, not its answer."""
        return bytes(self.thought) == b"true"

    @property
    def is_signed(self) -> bool:
        """Whether the provider wants the part back as it is."""
        return is_there(self.signature) or is_there(self.signature_snake)

    @property
    def is_said(self) -> bool:
        """Whether it is visible text that is not empty."""
        return bytes(self.text) not in (b"null", b'""') and not self.is_thought

    @property
    def calls(self) -> bytes:
        """The function call, empty if it is none."""
        return either(self.call, self.call_snake)

    @property
    def returns(self) -> bytes:
        """The function response, empty if it is none."""
        return either(self.result, self.result_snake)

    @property
    def media(self) -> bytes:
        """Media in the part or by address, empty if there are none."""
        inline = either(self.inline, self.inline_snake)
        return inline or either(self.file, self.file_snake)


def is_there(value: msgspec.Raw) -> bool:
    """Whether a raw member is there and not null."""
    return bytes(value) != b"null"


def either(first: msgspec.Raw, second: msgspec.Raw) -> bytes:
    """Return the one of two spellings that is there, empty if neither is."""
    value = bytes(first if is_there(first) else second)
    return b"" if value == b"null" else value


def read_content(raw: bytes) -> Content:
    """Return a turn's role and raw parts; other shapes raise `UNREADABLE`."""
    return _content.decode(raw)


def read_pieces(parts: bytes) -> list[Piece]:
    """Return the parts of the raw list, or of the raw lone part."""
    if parts.startswith(b"{"):
        return [read_piece(parts)]
    return _pieces.decode(parts)


def read_piece(part: bytes) -> Piece:
    """Return one part; another shape raises `UNREADABLE`."""
    return _piece.decode(part)


def piece_places(parts: bytes, *, shift: int) -> list[Place]:
    """Return where the parts stand."""
    if parts.startswith(b"{"):
        return [(shift, shift + len(parts))]
    return array_elements(parts, shift=shift)


def role_of(content: Content) -> str:
    """Return the wire-neutral role."""
    return _ROLES.get(content.role or "user", content.role or "user")


_ROLES = {"model": "assistant", "function": "tool"}
_content = msgspec.json.Decoder(Content)
_piece = msgspec.json.Decoder(Piece)
_pieces = msgspec.json.Decoder(list[Piece])
