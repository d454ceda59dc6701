"""The Gemini request: its parts and where text may be added.

Rules:
- The model and whether the answer is streamed stand in the path, not in the body.
- Rendered order is the cached content, tools and system instruction, then the turns.
- A turn with a function's response goes on with a tool exchange, whatever else it says.
- A cached content holds the head of the prompt with the provider: its name stands for
  it. The turns are all in the body, so that they can be followed and added to.
"""

import msgspec

from deuz_compiler.wires.envelope import Envelope
from deuz_compiler.wires.gemini.pieces import (
    read_content,
    read_pieces,
    role_of,
    spell,
)
from deuz_compiler.wires.glancing import Peek
from deuz_compiler.wires.rules import Rules
from deuz_compiler.wires.writing import Writing


def _read(raw: bytes) -> tuple[Peek, bytes]:
    """Return what the turn is; rendered are its role and its parts, however written."""
    content = read_content(raw)
    role, parts = role_of(content), bytes(content.parts)
    listed = parts if parts.startswith(b"[") else b"[" + parts + b"]"
    return _peek(role, parts), role.encode() + listed


def _peek(role: str, parts: bytes) -> Peek:
    pieces = read_pieces(parts)
    has_results = any(piece.returns for piece in pieces)
    return Peek(
        role,
        is_fresh=role == "user"
        and not has_results
        and any(piece.is_said or piece.media for piece in pieces),
        opens_calls=role == "assistant" and any(piece.calls for piece in pieces),
    )


RULES = Rules(
    wire="gemini",
    history="contents",
    system="systemInstruction",
    # What a cached content replaces: so these are part of what is cached.
    params=frozenset({"cachedContent", "toolConfig"}),
    output_limits=("generationConfig.maxOutputTokens",),
    read=_read,
    lone=b"{",
    defaults=(("toolConfig", {"functionCallingConfig": {"mode": "AUTO"}}),),
    spell=spell,
    nested=("generationConfig",),
    needs_model=False,
    hidden="cachedContent",
    media=b'"inline',
)


def _ask(_asker: Envelope, _model: str, text: str, _output_tokens: int) -> bytes:
    # No limit: thinking counts against it, and could use it up before the first word.
    turn = {"role": "user", "parts": [{"text": text}]}
    return msgspec.json.encode({"contents": [turn]})


WRITING = Writing(
    turn=(b'{"role":"user","parts":[{"text":', b"}]}"),
    part=(b'{"text":', b"}"),
    wraps_strings=False,
    ask=_ask,
    content="parts",
)
