"""What a request costs beside its turns: tool schemas and the provider's own frame.

Rules:
- A schema is counted whole, as JSON: alternatives, defaults and enums too.
- A tool that is marked to be loaded later is not in the context yet.
- Anthropic adds a frame of its own as soon as a request has tools; the number can be
  replaced, since models differ.
"""

import msgspec

from deuz_compiler.tokens.estimate import estimate_bytes

TOOL_FRAME_TOKENS = 346

_tools = msgspec.json.Decoder(list[msgspec.Raw])


class _Tool(msgspec.Struct):
    defer_loading: bool = False


_tool = msgspec.json.Decoder(_Tool)


def tools_tokens(raw: bytes) -> int:
    """Return the likely tokens of a request's `tools` value."""
    try:
        tools = [bytes(tool) for tool in _tools.decode(raw)]
        return sum(estimate_bytes(tool) for tool in tools if not _is_deferred(tool))
    except msgspec.DecodeError:
        return estimate_bytes(raw)


def frame_tokens(wire: str, *, has_tools: bool, frame: int = TOOL_FRAME_TOKENS) -> int:
    """Return what the provider adds around a request."""
    return frame if wire == "anthropic" and has_tools else 0


def _is_deferred(tool: bytes) -> bool:
    return b"defer_loading" in tool and _tool.decode(tool).defer_loading
