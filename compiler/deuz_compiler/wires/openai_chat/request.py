"""The OpenAI chat completions request: its parts and where text may be added.

Rules:
- Rendered order is tools, leading system and developer messages, then the rest.
- Tool results are messages of their own, so a user message is always fresh.
"""

import msgspec

from deuz_compiler.wires.envelope import Envelope
from deuz_compiler.wires.glancing import Peek, make_glance
from deuz_compiler.wires.rendered import rendered_turn
from deuz_compiler.wires.rules import Rules
from deuz_compiler.wires.writing import Writing

# What is not there is told by identity, which is cheap.
_ABSENT, _NULL = msgspec.Raw(b""), msgspec.Raw(b"null")


class _Message(msgspec.Struct, frozen=True, gc=False):
    role: str
    content: msgspec.Raw = _ABSENT
    cache_control: msgspec.Raw = _ABSENT
    prompt_cache_breakpoint: msgspec.Raw = _ABSENT
    tool_calls: msgspec.Raw = _NULL
    function_call: msgspec.Raw = _NULL


_message = msgspec.json.Decoder(_Message)
_NO_MARKS = (_ABSENT, _ABSENT)
_ROLES = {"developer": "system", "function": "tool"}
_NO_CALLS = (_NULL, _NULL)
_NOTHING = frozenset({b"null", b"[]"})
# Text, or a list of parts; whatever else stands there is not ours to join.
_SAID = (b'"', b"[")
_BLANK = frozenset({b"null", b'""', b"[]", b""})


def _read(raw: bytes) -> tuple[Peek, bytes]:
    message = _message.decode(raw)
    content = bytes(message.content)
    marks = message.cache_control, message.prompt_cache_breakpoint
    if content.startswith(b'"') and marks == _NO_MARKS:
        return _peek(message, content), raw
    return _peek(message, content), rendered_turn(raw, content, *marks)


def _peek(message: _Message, content: bytes) -> Peek:
    role = _ROLES.get(message.role, message.role)
    if role == "user":
        is_fresh = content[:1] in _SAID and content not in _BLANK
        return Peek(role, is_fresh, opens_calls=False)
    calls = message.tool_calls, message.function_call
    opens_calls = (
        role == "assistant"
        and calls != _NO_CALLS
        and not _NOTHING.issuperset(map(bytes, calls))
    )
    return Peek(role, is_fresh=False, opens_calls=opens_calls)


RULES = Rules(
    wire="openai_chat",
    history="messages",
    system=None,
    params=frozenset(
        {
            "response_format",
            "reasoning_effort",
            "reasoning",
            "verbosity",
            "parallel_tool_calls",
            "prompt_cache_key",
            "prompt_cache_options",
            "prompt_cache_retention",
        }
    ),
    output_limits=("max_completion_tokens", "max_tokens"),
    read=_read,
    glance=make_glance(
        roles=("system", "developer", "user", "assistant", "tool", "function"),
        text="content",
        seen=("tool_calls", "function_call"),
        bars=("cache_control", "prompt_cache_breakpoint"),
        types=("text",),
    ),
    cache_marker=b'"prompt_cache_breakpoint"',
    marked_only=("prompt_cache_options", b'"explicit"'),
)


def _ask(_asker: Envelope, model: str, text: str, _output_tokens: int) -> bytes:
    # Newer models refuse the old name of the limit, and need none.
    messages = [{"role": "user", "content": text}]
    return msgspec.json.encode({"model": model, "messages": messages})


WRITING = Writing(
    turn=(b'{"role":"user","content":', b"}"),
    part=(b'{"type":"text","text":', b"}"),
    # A string stays one: chat templates of local servers may know nothing else.
    wraps_strings=False,
    ask=_ask,
)
