"""What OpenAI's chat completions refuse, in their own words.

Rules:
- Every call of an assistant message is answered by a tool message directly behind it,
  in any order among themselves, with nothing in between.
- Blank text, several system messages and runs of one role are fine at OpenAI; chat
  templates of local servers demand alternation, which is checked on request.
- Two tools of one name are accepted, as OpenAI does.
"""

from typing import Any

from deuz_proxy.demo.provider.exchange import Json, ProviderRequest, Refusal
from deuz_proxy.demo.provider.fields import first_refusal, objects, word
from deuz_proxy.demo.provider.rules_fields import CHAT_MEMBERS, check_openai_members

MAX_TOOLS = 128
_ROLES = ("system", "assistant", "user", "function", "tool", "developer")
_PARTS = {
    "user": ("text", "image_url", "input_audio", "refusal", "audio", "file"),
    "assistant": ("text", "refusal"),
}


def check_chat(request: ProviderRequest, *, alternate: bool = False) -> Refusal | None:
    """Return the refusal of the first broken rule, or None."""
    payload = request.payload
    refusal = check_openai_members(payload, CHAT_MEMBERS) or first_refusal(
        (_check_required, _check_tools), payload
    )
    if refusal is not None:
        return refusal
    messages = payload["messages"]
    return first_refusal((_check_messages, _check_pairing), messages) or (
        _check_template(messages) if alternate else None
    )


def missing(name: str) -> Refusal:
    """Return OpenAI's complaint about an absent parameter."""
    return Refusal(
        "missing_parameter",
        f"Missing required parameter: '{name}'.",
        code="missing_required_parameter",
        param=name,
    )


def empty_array(name: str, rule: str) -> Refusal:
    """Return OpenAI's complaint about an array without elements."""
    return Refusal(
        rule,
        f"Invalid '{name}': empty array. Expected an array with minimum length 1, but "
        "got an empty array instead.",
        code="empty_array",
        param=name,
    )


def _check_required(payload: Json) -> Refusal | None:
    if not payload.get("model"):
        return Refusal("missing_parameter", "you must provide a model parameter")
    if payload.get("messages") is None:
        return missing("messages")
    if not payload["messages"]:
        return empty_array("messages", "empty_messages")
    return None


def _check_tools(payload: Json) -> Refusal | None:
    tools = payload.get("tools")
    if tools is None:
        if payload.get("tool_choice") in (None, "none"):
            return None
        return Refusal(
            "tool_choice",
            "Invalid value for 'tool_choice': 'tool_choice' is only allowed when "
            "'tools' are specified.",
            param="tool_choice",
        )
    if not tools:
        return empty_array("tools", "empty_tools")
    if len(tools) > MAX_TOOLS:
        return Refusal(
            "too_many_tools",
            "Invalid 'tools': array too long. Expected an array with maximum length "
            f"{MAX_TOOLS}, but got an array with length {len(tools)} instead.",
            code="array_above_max_length",
            param="tools",
        )
    return None


def _check_messages(messages: list[Any]) -> Refusal | None:
    for place, message in enumerate(messages):
        where = f"messages[{place}]"
        if not isinstance(message, dict):
            return Refusal(
                "shape",
                f"Invalid type for '{where}': expected an object.",
                code="invalid_type",
                param=where,
            )
        if message.get("role") not in _ROLES:
            return _invalid_value(f"{where}.role", word(message.get("role")), _ROLES)
        refusal = _check_content(where, message)
        if refusal is not None:
            return refusal
    return None


def _check_content(where: str, message: Json) -> Refusal | None:
    content = message.get("content")
    if content is None:
        return _check_absent(where, message)
    if isinstance(content, str):
        return None
    if not isinstance(content, list):
        return Refusal(
            "shape",
            f"Invalid type for '{where}.content': expected one of a string or array "
            "of objects.",
            code="invalid_type",
            param=f"{where}.content",
        )
    if not content:
        return empty_array(f"{where}.content", "empty_content")
    return _check_parts(f"{where}.content", content, message["role"])


def _check_parts(where: str, parts: list[Any], role: str) -> Refusal | None:
    allowed = _PARTS.get(role, ("text",))
    for number, part in enumerate(parts):
        kind = part.get("type") if isinstance(part, dict) else None
        if kind not in allowed:
            return _invalid_value(f"{where}[{number}]", word(kind), allowed)
    return None


def _check_absent(where: str, message: Json) -> Refusal | None:
    is_assistant = message["role"] == "assistant"
    if is_assistant and any(
        message.get(name)
        for name in ("tool_calls", "function_call", "refusal", "audio")
    ):
        return None
    return Refusal(
        "null_content",
        "Invalid value for 'content': expected a string, got null.",
        param=f"{where}.content",
    )


def _check_pairing(messages: list[Json]) -> Refusal | None:
    waiting: list[str] = []
    called: list[str] = []
    for place, message in enumerate(messages):
        if message["role"] == "tool":
            refusal = _check_result(place, message, called, waiting)
            if refusal is not None:
                return refusal
            waiting.remove(message["tool_call_id"])
            continue
        if waiting:
            return _unanswered(place, waiting)
        called = [word(call.get("id")) for call in objects(message.get("tool_calls"))]
        waiting = list(called)
        if message.get("tool_calls") == []:
            return empty_array(f"messages[{place}].tool_calls", "empty_tool_calls")
    return _unanswered(len(messages), waiting) if waiting else None


def _check_result(
    place: int, message: Json, called: list[str], waiting: list[str]
) -> Refusal | None:
    call_id = message.get("tool_call_id")
    if not isinstance(call_id, str):
        return missing(f"messages[{place}].tool_call_id")
    if call_id in waiting:
        return None
    if not called:
        return Refusal(
            "result_without_call",
            "Invalid parameter: messages with role 'tool' must be a response to a "
            "preceeding message with 'tool_calls'.",
            param=f"messages.[{place}].role",
        )
    if call_id in called:
        return Refusal(
            "duplicate_result",
            f"Duplicate value for 'tool_call_id' of '{call_id}' in message[{place}]",
            param=f"messages.[{place}].tool_call_id",
        )
    return Refusal(
        "result_without_call",
        f"Invalid parameter: 'tool_call_id' of '{call_id}' not found in 'tool_calls' "
        "of previous message.",
        param=f"messages.[{place}].tool_call_id",
    )


def _unanswered(place: int, waiting: list[str]) -> Refusal:
    return Refusal(
        "calls_without_results",
        "An assistant message with 'tool_calls' must be followed by tool messages "
        "responding to each 'tool_call_id'. The following tool_call_ids did not have "
        f"response messages: {', '.join(waiting)}",
        param=f"messages.[{place}].role",
    )


def _check_template(messages: list[Json]) -> Refusal | None:
    """Refuse what chat templates of local servers refuse."""
    turns = 0
    for place, message in enumerate(messages):
        role = message["role"]
        if role in {"system", "developer"} and place:
            return _template("System message must be at the beginning.")
        is_turn = role == "user" or (
            role == "assistant" and not message.get("tool_calls")
        )
        if not is_turn:
            continue
        if (role == "user") != (turns % 2 == 0):
            return _template(
                "Conversation roles must alternate user/assistant/user/assistant/..."
            )
        turns += 1
    return None


def _template(message: str) -> Refusal:
    return Refusal("alternation", message)


def _invalid_value(where: str, value: str, allowed: tuple[str, ...]) -> Refusal:
    quoted = [f"'{name}'" for name in allowed]
    listed = f"{', '.join(quoted[:-1])}, and {quoted[-1]}" if quoted[1:] else quoted[0]
    return Refusal(
        "value",
        f"Invalid value: '{value}'. Supported values are: {listed}.",
        code="invalid_value",
        param=where,
    )
