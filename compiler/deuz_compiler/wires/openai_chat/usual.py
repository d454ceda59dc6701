"""What most whole answers say, decoded at once and without notes.

Rules:
- Of one choice that has content or calls a tool, with counts as most servers tell them.
  Any other answer is left to `reply`, and so is what is no JSON.
- What is told is what `reply` would tell.
"""

import msgspec

from deuz_compiler.wires.chat_usage import ChatReport, read_reports
from deuz_compiler.wires.metering import (
    ABSENT,
    LONGEST_EMPTY,
    UNREADABLE,
    ReplyFacts,
    is_filled,
)

# What has to be null, or absent, tells more than is read here.


class _Message(msgspec.Struct, gc=False):
    content: msgspec.Raw = ABSENT
    tool_calls: msgspec.Raw = ABSENT
    function_call: None = None


class _Choice(msgspec.Struct, gc=False):
    message: _Message
    finish_reason: str | None = None
    delta: None = None
    text: None = None
    usage: None = None


class _Usual(msgspec.Struct, gc=False):
    choices: list[_Choice]
    id: str | None = None
    kind: str = msgspec.field(default="", name="object")
    model: str | None = None
    usage: ChatReport | None = None
    timings: None = None
    x_groq: None = None
    error: None = None


_decode = msgspec.json.Decoder(_Usual).decode


def read_usual(body: bytes) -> ReplyFacts | None:
    """Return what a whole answer tells; None of any that is not a usual one."""
    try:
        found = _decode(body)
    except UNREADABLE:
        return None
    if len(found.choices) != 1 or found.kind == "error":
        return None
    choice, usage = found.choices[0], found.usage
    if usage is not None and usage.prompt_tokens is None:
        # Perhaps of another shape.
        return None
    message = choice.message
    calls = message.tool_calls
    has_called = bool(calls) and is_filled(calls)
    # A shorter text may be an empty value, and what else is there counts then.
    if not has_called and len(message.content) <= LONGEST_EMPTY:
        return None
    # In the order of its fields: by name, each is looked for among all of them.
    return ReplyFacts(
        None if usage is None else read_reports(usage),
        choice.finish_reason or None,
        found.id or None,
        found.model or None,
        True,  # noqa: FBT003  # Has content.
        True,  # noqa: FBT003  # Is complete.
        None,
        None,
        has_called,
    )
