"""The one turn of an Ollama prompt: a string that is all text."""

import msgspec

from deuz_compiler.errors import NotLifted
from deuz_compiler.wires.parts import (
    TEXT,
    UNREADABLE,
    Part,
    Place,
    place_of,
    words_of,
)

_text = msgspec.json.Decoder(str)


def read_parts(raw: bytes) -> tuple[Part, ...]:
    """Return the prompt as one text.

    Raises:
        NotLifted: not a JSON string.
    """
    try:
        return (Part(TEXT, 0, len(raw), _text.decode(raw)),)
    except UNREADABLE as fault:
        raise NotLifted("unknown_shape") from fault


def part_span(raw: bytes, index: int) -> Place:
    """Return the place of the text.

    Raises:
        NotLifted: not a JSON string, or another part is asked for.
    """
    return place_of(read_parts(raw), index)


def user_text(raw: bytes) -> str:
    """Return the prompt, without what the sidecar added."""
    return words_of(read_parts(raw))
