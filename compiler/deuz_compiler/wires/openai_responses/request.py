"""The OpenAI Responses request: its items and where text may be added.

Rules:
- Rendered order is tools, instructions, leading system and developer items, the rest.
- An input that is a string is one user message.
- Where the provider holds the history (`previous_response_id`, `conversation`), the
  body is only its end, and nothing is placed: what once stands in a history that we do
  not send could not be counted, found again, folded or forgotten.
- Single items that the provider holds (`item_reference`) have their place in a history
  that is here: it is understood, and they are never touched.
"""

import msgspec

from deuz_compiler.errors import NotLifted
from deuz_compiler.wires.envelope import Envelope
from deuz_compiler.wires.glancing import Peek
from deuz_compiler.wires.openai_responses.items import CALLS, MESSAGE, role_of_item
from deuz_compiler.wires.openai_responses.rendered import (
    Members,
    rendered_item,
    rendered_text,
)
from deuz_compiler.wires.rules import Rules
from deuz_compiler.wires.writing import Writing

_members = msgspec.json.Decoder(dict[str, msgspec.Raw])
_word = msgspec.json.Decoder(str | None)
_SAID = (b'"', b"[")
_BLANK = frozenset({b'""', b"[]"})
_NO_STATE = frozenset({b"null", b'""'})


def _read(raw: bytes) -> tuple[Peek, bytes]:
    if raw[:1] == b'"':
        peek = Peek("user", is_fresh=raw not in _BLANK, opens_calls=False)
        return peek, rendered_text(raw)
    members = _members.decode(raw)
    kind = _word_of(members, "type") or MESSAGE
    role = _word_of(members, "role")
    if kind == MESSAGE and not role:
        raise NotLifted("unknown_shape")
    return _peek(kind, role, members), rendered_item(kind, members)


def _word_of(members: Members, name: str) -> str:
    value = members.get(name)
    return "" if value is None else _word.decode(value) or ""


def _peek(kind: str, role: str, members: Members) -> Peek:
    neutral = role_of_item(kind, role)
    content = bytes(members.get("content", b""))
    is_said = content[:1] in _SAID and content not in _BLANK
    return Peek(neutral, neutral == "user" and is_said, kind in CALLS)


def _is_continued(state: bytes) -> bool:
    return state not in _NO_STATE


RULES = Rules(
    wire="openai_responses",
    history="input",
    system="instructions",
    params=frozenset(
        {
            "context_management",
            "parallel_tool_calls",
            "prompt",
            "prompt_cache_key",
            "prompt_cache_options",
            "prompt_cache_retention",
            "reasoning",
            "text",
        }
    ),
    output_limits=("max_output_tokens",),
    read=_read,
    lone=b'"',
    defaults=(
        ("parallel_tool_calls", True),
        ("text", {"format": {"type": "text"}}),
    ),
    server_state=("previous_response_id", "conversation"),
    is_continued=_is_continued,
    cache_marker=b'"prompt_cache_breakpoint"',
    marked_only=("prompt_cache_options", b'"explicit"'),
)


def _ask(_asker: Envelope, model: str, text: str, _output_tokens: int) -> bytes:
    # The limit would cut a model that thinks first; what it asks need not be kept.
    return msgspec.json.encode({"model": model, "input": text, "store": False})


WRITING = Writing(
    # The longest way to write it is the one that every server takes.
    turn=(
        b'{"type":"message","role":"user","content":[{"type":"input_text","text":',
        b"}]}",
    ),
    part=(b'{"type":"input_text","text":', b"}"),
    wraps_strings=True,
    ask=_ask,
)
