"""The request side of the wires, by the wire's name.

Rules:
- A wire without an entry is forwarded and metered, but its body is not understood.
"""

from typing import Protocol

import msgspec

from deuz_compiler.errors import NotLifted
from deuz_compiler.wires.anthropic import parts as anthropic_parts
from deuz_compiler.wires.anthropic import request as anthropic
from deuz_compiler.wires.envelope import Envelope
from deuz_compiler.wires.lifting import Checkpoint, Rules, lift_body
from deuz_compiler.wires.openai_chat import parts as openai_chat_parts
from deuz_compiler.wires.openai_chat import request as openai_chat
from deuz_compiler.wires.parts import Part, Place

_RULES: dict[str, Rules] = {
    "anthropic": anthropic.RULES,
    "openai_chat": openai_chat.RULES,
}


class _Parts(Protocol):
    """What a wire's parts module gives."""

    def read_parts(self, raw: bytes) -> tuple[Part, ...]: ...
    def part_span(self, raw: bytes, index: int) -> Place: ...
    def user_text(self, raw: bytes) -> str: ...


_PARTS: dict[str, _Parts] = {
    "anthropic": anthropic_parts,
    "openai_chat": openai_chat_parts,
}


def lift(
    wire: str, body: bytes, *, seed: int = 0, known: Checkpoint | None = None
) -> Envelope:
    """Return the places of the body's parts; `known` must be a prefix of the body.

    Raises:
        NotLifted: the wire or the body is not understood.
    """
    rules = _RULES.get(wire)
    if rules is None:
        raise NotLifted("unknown_shape")
    return lift_body(rules, body, seed=seed, known=known)


def read_parts(wire: str, raw: bytes) -> tuple[Part, ...]:
    """Return the parts of one turn of the wire.

    Raises:
        NotLifted: not a turn of this wire.
    """
    return _PARTS[wire].read_parts(raw)


def part_span(wire: str, raw: bytes, index: int) -> Place:
    """Return where one part of the turn stands.

    Raises:
        NotLifted: the turn has no such part.
    """
    return _PARTS[wire].part_span(raw, index)


def user_text(wire: str, raw: bytes) -> str:
    """Return what the user wrote in the turn, without what the sidecar added."""
    return _PARTS[wire].user_text(raw)


def may_read_cache(envelope: Envelope) -> bool:
    """Tell whether the request lets the provider read what it has in its cache."""
    marker = _RULES[envelope.wire].cache_marker
    return marker is None or marker in envelope.body


def ask_once(wire: str, *, model: str, text: str, output_tokens: int) -> bytes:
    """Return a whole request that asks the model one thing, without tools or stream."""
    body: dict[str, object] = {"model": model}
    # Newer models of the other wire refuse the old name of the limit, and need none.
    if _RULES[wire].needs_output_limit:
        body["max_tokens"] = output_tokens
    body["messages"] = [{"role": "user", "content": text}]
    return msgspec.json.encode(body)
