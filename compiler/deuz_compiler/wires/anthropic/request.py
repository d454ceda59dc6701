"""The Anthropic Messages request: its parts and where text may be added.

Rules:
- Rendered order is tools, system, messages, whatever the order in the body. Parameters
  spoil the messages' cache; `speed` and, on some models, thinking reach further.
- Neighbouring user messages are legal and are rendered as one turn.
- A message with a tool result is the continuation of a tool exchange, even if it also
  holds text: nothing fresh was asked.
"""

import msgspec

from deuz_compiler.wires.envelope import Envelope
from deuz_compiler.wires.glancing import Peek, make_glance
from deuz_compiler.wires.rendered import rendered_turn
from deuz_compiler.wires.rules import Rules
from deuz_compiler.wires.writing import Writing


class _Message(msgspec.Struct, frozen=True, gc=False):
    role: str
    content: msgspec.Raw = msgspec.Raw(b"")
    cache_control: msgspec.Raw = msgspec.Raw(b"")
    prompt_cache_breakpoint: msgspec.Raw = msgspec.Raw(b"")


class _Kind(msgspec.Struct):
    type: str = ""


_message = msgspec.json.Decoder(_Message)
_kind = msgspec.json.Decoder(_Kind)
_kinds = msgspec.json.Decoder(list[_Kind])
_BLANK = frozenset({b'""', b""})
_FRESH = frozenset({"text", "image", "document"})
_RESULTS = frozenset({"tool_result"})


def _read(raw: bytes) -> tuple[Peek, bytes]:
    message = _message.decode(raw)
    content = bytes(message.content)
    marks = message.cache_control, message.prompt_cache_breakpoint
    return _peek(message, content), rendered_turn(raw, content, *marks)


def _peek(message: _Message, content: bytes) -> Peek:
    if content.startswith(b'"'):
        is_fresh = message.role == "user" and content not in _BLANK
        return Peek(message.role, is_fresh, opens_calls=False)
    kinds = [block.type for block in _kinds.decode(content)]
    opens_calls = message.role == "assistant" and "tool_use" in kinds
    is_fresh = (
        message.role == "user"
        and not any(kind in _RESULTS for kind in kinds)
        and any(kind in _FRESH for kind in kinds)
    )
    return Peek(message.role, is_fresh, opens_calls)


def _is_continued(thread: bytes) -> bool:
    """Tell whether the provider holds the turns before these."""
    return thread.startswith(b"{") and _kind.decode(thread).type == "continue"


RULES = Rules(
    wire="anthropic",
    history="messages",
    system="system",
    params=frozenset(
        {"tool_choice", "thinking", "output_config", "speed", "context_management"}
    ),
    output_limits=("max_tokens",),
    read=_read,
    glance=make_glance(
        roles=("user", "assistant"),
        text="content",
        bars=("cache_control", "prompt_cache_breakpoint"),
        types=("text", "image", "document", "tool_use", "tool_result"),
    ),
    defaults=(
        ("tool_choice", {"type": "auto"}),
        ("thinking", {"type": "disabled"}),
        ("output_config", {"effort": "high"}),
    ),
    is_params_last=True,
    cache_marker=b'"cache_control"',
    end_marker="cache_control",
    server_state=("thread",),
    is_continued=_is_continued,
)


def _ask(_asker: Envelope, model: str, text: str, output_tokens: int) -> bytes:
    messages = [{"role": "user", "content": text}]
    body = {"model": model, "max_tokens": output_tokens, "messages": messages}
    return msgspec.json.encode(body)


WRITING = Writing(
    turn=(b'{"role":"user","content":', b"}"),
    part=(b'{"type":"text","text":', b"}"),
    # Its clients move their cache marker, which only a list can carry.
    wraps_strings=True,
    ask=_ask,
)
