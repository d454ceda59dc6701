"""The one turn of an Ollama prompt: a string that is all text."""

import msgspec

from deuz_compiler.wires.parts import (
    TEXT,
    Part,
    TurnReader,
)

_text = msgspec.json.Decoder(str)


def _find_parts(raw: bytes) -> tuple[Part, ...]:
    return (Part(TEXT, 0, len(raw), _text.decode(raw)),)


READER = TurnReader(_find_parts, lambda _raw: "user")
read_parts, part_span = READER.read_parts, READER.part_span
user_text = READER.user_text
