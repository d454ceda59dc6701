"""The OpenAI chat completions request: its parts and where text may be added.

Rules:
- Rendered order is tools, leading system and developer messages, then the rest.
- Tool results are messages of their own, so a user message is always fresh.
"""

from deuz_compiler.wires.lifting import Message, Peek, Rules

_ROLES = {"developer": "system", "function": "tool"}


_NOTHING = frozenset({b"null", b"[]"})
# Text, or a list of parts; whatever else stands there is not ours to join.
_SAID = (b'"', b"[")
_BLANK = frozenset({b"null", b'""', b"[]", b""})


def _peek(message: Message, content: bytes) -> Peek:
    role = _ROLES.get(message.role, message.role)
    calls = (bytes(message.tool_calls), bytes(message.function_call))
    return Peek(
        role,
        is_fresh=role == "user" and content[:1] in _SAID and content not in _BLANK,
        opens_calls=role == "assistant" and any(c not in _NOTHING for c in calls),
    )


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
    peek=_peek,
)
