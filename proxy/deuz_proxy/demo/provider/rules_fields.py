"""Types of the well-known top-level members, and the complaint about a wrong one.

Rules:
- Members that are not listed are tolerated, whatever they hold: providers add fields
  faster than this file changes.
- `null` is as good as absent.
"""

from typing import Any

from deuz_proxy.demo.provider.exchange import Json, Refusal

_ANTHROPIC_WORDS = {
    "string": "Input should be a valid string",
    "integer": "Input should be a valid integer",
    "number": "Input should be a valid number",
    "boolean": "Input should be a valid boolean",
    "array": "Input should be a valid list",
    "object": "Input should be an object",
    "text": "Input should be a valid string",
}
_OPENAI_WORDS = {
    "string": "a string",
    "integer": "an integer",
    "number": "a decimal",
    "boolean": "a boolean",
    "array": "an array of objects",
    "object": "an object",
    "text": "one of a string or array of objects",
    "choice": "one of a string or object",
}
_FOUND_WORDS = {
    bool: "a boolean",
    int: "an integer",
    float: "a decimal",
    str: "a string",
    list: "an array",
    dict: "an object",
}
_TYPES: dict[str, tuple[type, ...]] = {
    "string": (str,),
    "integer": (int,),
    "number": (int, float),
    "boolean": (bool,),
    "array": (list,),
    "object": (dict,),
    "text": (str, list),
    "choice": (str, dict),
}

ANTHROPIC_MEMBERS = {
    "model": "string",
    "max_tokens": "integer",
    "messages": "array",
    "system": "text",
    "tools": "array",
    "tool_choice": "object",
    "thinking": "object",
    "metadata": "object",
    "stream": "boolean",
    "temperature": "number",
    "top_p": "number",
    "top_k": "integer",
    "stop_sequences": "array",
    "cache_control": "object",
}
CHAT_MEMBERS = {
    "model": "string",
    "messages": "array",
    "tools": "array",
    "tool_choice": "choice",
    "stream": "boolean",
    "stream_options": "object",
    "temperature": "number",
    "top_p": "number",
    "max_tokens": "integer",
    "max_completion_tokens": "integer",
    "response_format": "object",
    "prompt_cache_key": "string",
    "user": "string",
    "metadata": "object",
    "parallel_tool_calls": "boolean",
}
RESPONSES_MEMBERS = {
    "model": "string",
    "input": "text",
    "instructions": "text",
    "tools": "array",
    "tool_choice": "choice",
    "stream": "boolean",
    "temperature": "number",
    "top_p": "number",
    "max_output_tokens": "integer",
    "previous_response_id": "string",
    "prompt_cache_key": "string",
    "reasoning": "object",
    "text": "object",
    "metadata": "object",
    "store": "boolean",
    "parallel_tool_calls": "boolean",
}


def check_anthropic_members(payload: Json) -> Refusal | None:
    """Complain about the first member of a wrong type, as Anthropic words it."""
    name = _first_mistyped(payload, ANTHROPIC_MEMBERS)
    if name is None:
        return None
    expected = _ANTHROPIC_WORDS[ANTHROPIC_MEMBERS[name]]
    return Refusal("parameter_type", f"{name}: {expected}")


def check_openai_members(payload: Json, members: dict[str, str]) -> Refusal | None:
    """Complain about the first member of a wrong type, as OpenAI words it."""
    name = _first_mistyped(payload, members)
    if name is None:
        return None
    expected = _OPENAI_WORDS[members[name]]
    found = _FOUND_WORDS.get(type(payload[name]), "an unknown value")
    return Refusal(
        "parameter_type",
        f"Invalid type for '{name}': expected {expected}, but got {found} instead.",
        code="invalid_type",
        param=name,
    )


def _first_mistyped(payload: Json, members: dict[str, str]) -> str | None:
    for name, value in payload.items():
        kind = members.get(name)
        if kind is not None and value is not None and not _fits(value, kind):
            return name
    return None


def _fits(value: Any, kind: str) -> bool:
    # Python calls a boolean an integer; no provider does.
    if isinstance(value, bool):
        return kind == "boolean"
    return isinstance(value, _TYPES[kind])
