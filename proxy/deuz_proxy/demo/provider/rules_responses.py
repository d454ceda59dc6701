"""What OpenAI's Responses refuse, in their own words.

Rules:
- Items held by the provider (`previous_response_id`) stand in front of the input.
- A group is a run of calls and the outputs they wait for; no message stands inside it.
  The provider is documented to take messages between complete groups only; whether it
  would bear one inside is not known, so this is the strict reading.
- A reasoning item is followed by an item of the model.
"""

from typing import Any

from deuz_proxy.demo.provider.exchange import Json, ProviderRequest, Refusal
from deuz_proxy.demo.provider.fields import first_refusal, objects, word
from deuz_proxy.demo.provider.rules_chat import missing
from deuz_proxy.demo.provider.rules_fields import (
    RESPONSES_MEMBERS,
    check_openai_members,
)
from deuz_proxy.demo.provider.signing import Signer

_PARTS = {
    "assistant": ("output_text", "refusal"),
    "user": ("input_text", "input_image", "input_file", "input_audio"),
    "system": ("input_text", "input_image", "input_file", "input_audio"),
    "developer": ("input_text", "input_image", "input_file", "input_audio"),
}
_CALLS = {
    "function_call": "function_call_output",
    "custom_tool_call": "custom_tool_call_output",
}
_OUTPUTS = {
    "function_call_output": "function call output",
    "custom_tool_call_output": "custom tool call output",
}


def check_responses(request: ProviderRequest, signer: Signer) -> Refusal | None:
    """Return the refusal of the first broken rule, or None."""
    refusal = check_openai_members(request.payload, RESPONSES_MEMBERS)
    if refusal is None:
        refusal = _check_required(request)
    if refusal is not None:
        return refusal
    own = request.payload.get("input")
    items = [*request.history, *objects(own)]
    return (
        first_refusal((_check_items,), own)
        or first_refusal((_check_ids, _check_pairing, _check_reasoning), items)
        or _check_encrypted(items, signer)
    )


def _check_required(request: ProviderRequest) -> Refusal | None:
    if not request.payload.get("model"):
        return missing("model")
    if request.payload.get("input") or request.history:
        return None
    return Refusal(
        "empty_messages",
        'One of "input" or "previous_response_id" or \'prompt\' or '
        "'conversation_id' must be provided.",
        code="missing_required_parameter",
    )


def _check_items(items: Any) -> Refusal | None:
    if not isinstance(items, list):
        return None
    for place, item in enumerate(items):
        where = f"input[{place}]"
        if not isinstance(item, dict):
            return Refusal(
                "shape",
                f"Invalid type for '{where}': expected an object.",
                code="invalid_type",
                param=where,
            )
        if "role" in item:
            refusal = _check_message(where, item)
            if refusal is not None:
                return refusal
        elif not isinstance(item.get("type"), str):
            return missing(f"{where}.type")
    return None


def _check_message(where: str, item: Json) -> Refusal | None:
    allowed = _PARTS.get(word(item["role"]))
    if allowed is None:
        roles = "'assistant', 'system', 'developer', and 'user'"
        return _value(f"{where}.role", word(item["role"]), roles)
    content = item.get("content")
    if isinstance(content, str):
        return None
    if not isinstance(content, list):
        return missing(f"{where}.content")
    for number, part in enumerate(content):
        kind = word(part.get("type")) if isinstance(part, dict) else ""
        if kind not in allowed:
            listed = " and ".join(
                [", ".join(f"'{name}'" for name in allowed[:-1]), f"'{allowed[-1]}'"]
            )
            return _value(f"{where}.content[{number}]", kind, listed)
    return None


def _check_ids(items: list[Json]) -> Refusal | None:
    seen: set[str] = set()
    for item in items:
        item_id = word(item.get("id"))
        if item_id in seen:
            return _plain(
                "duplicate_item",
                f"Duplicate item found with id {item_id}. Remove duplicate items from "
                "your input and try again.",
            )
        seen.update([item_id] if item_id else [])
    return None


def _check_pairing(items: list[Json]) -> Refusal | None:
    waiting: dict[str, str] = {}
    for item in items:
        kind = word(item.get("type"))
        call_id = word(item.get("call_id"))
        if kind in _CALLS:
            waiting[call_id] = _CALLS[kind]
        elif kind in _OUTPUTS:
            if waiting.pop(call_id, None) != kind:
                return _plain(
                    "result_without_call",
                    f"No tool call found for {_OUTPUTS[kind]} with call_id {call_id}.",
                )
        elif "role" in item and waiting:
            break
    if not waiting:
        return None
    return _plain(
        "calls_without_results",
        f"No tool output found for function call {next(iter(waiting))}.",
    )


def _check_reasoning(items: list[Json]) -> Refusal | None:
    for place, item in enumerate(items):
        if item.get("type") != "reasoning":
            continue
        following = next(
            (i for i in items[place + 1 :] if i.get("type") != "reasoning"), {}
        )
        kind = word(following.get("type"))
        is_own = following.get("role") == "assistant" or kind.endswith("_call")
        if not is_own:
            return _plain(
                "reasoning_alone",
                f"Item '{word(item.get('id'))}' of type 'reasoning' was provided "
                "without its required following item.",
            )
    return None


def _check_encrypted(items: list[Json], signer: Signer) -> Refusal | None:
    for item in items:
        blob = item.get("encrypted_content")
        if item.get("type") != "reasoning" or blob is None:
            continue
        if signer.unwrap(word(blob)) is None:
            return Refusal(
                "encrypted_content",
                f"The encrypted content for item {word(item.get('id'))} could not be "
                "verified. Reason: Encrypted content could not be decrypted or parsed.",
                code="invalid_encrypted_content",
            )
    return None


def _value(where: str, value: str, listed: str) -> Refusal:
    return Refusal(
        "value",
        f"Invalid value: '{value}'. Supported values are: {listed}.",
        code="invalid_value",
        param=where,
    )


def _plain(rule: str, message: str) -> Refusal:
    return Refusal(rule, message, param="input")
