"""What a request costs beside its turns: tool schemas and the provider's own frame.

Rules:
- A schema is counted whole, as JSON: alternatives, defaults and enums too.
- A tool that is marked to be loaded later is in the context only once a search found it
  and a turn refers to it.
- Anthropic adds a frame of its own as soon as a request has tools; the number can be
  replaced, since models differ.
"""

import re
from collections.abc import Collection, Iterable

import msgspec

from deuz_compiler.tokens.estimate import estimate_bytes

TOOL_FRAME_TOKENS = 346

_tools = msgspec.json.Decoder(list[msgspec.Raw])
_REFERENCE = b'"tool_reference"'
_NAME = re.compile(rb'"tool_name"\s*:\s*("(?:[^"\\]|\\.)*")')


class _Tool(msgspec.Struct):
    name: str = ""
    defer_loading: bool = False


_tool = msgspec.json.Decoder(_Tool)


def tools_tokens(raw: bytes, found: Collection[str] = ()) -> int:
    """Return the likely tokens of a request's `tools` value."""
    return sum(map(estimate_bytes, loaded_tools(raw, found)))


def loaded_tools(raw: bytes, found: Collection[str] = ()) -> tuple[bytes, ...]:
    """Return the tools that are in the context: all but the deferred, not yet `found`.

    What has an unknown shape is one tool.
    """
    try:
        tools = [bytes(tool) for tool in _tools.decode(raw)]
        return tuple(tool for tool in tools if not _is_deferred(tool, found))
    except (msgspec.DecodeError, RecursionError):
        return (raw,)


def found_tools(turns: Iterable[bytes]) -> tuple[str, ...]:
    """Return the names of the deferred tools that the turns refer to."""
    names = [
        name
        for turn in turns
        if _REFERENCE in turn
        for name in map(_decoded, _NAME.findall(turn))
    ]
    return tuple(dict.fromkeys(names))


def frame_tokens(wire: str, *, has_tools: bool, frame: int = TOOL_FRAME_TOKENS) -> int:
    """Return what the provider adds around a request."""
    return frame if wire == "anthropic" and has_tools else 0


def _is_deferred(tool: bytes, found: Collection[str]) -> bool:
    if b"defer_loading" not in tool:
        return False
    read = _tool.decode(tool)
    return read.defer_loading and read.name not in found


def _decoded(name: bytes) -> str:
    try:
        return msgspec.json.decode(name, type=str)
    except msgspec.DecodeError:
        return ""
