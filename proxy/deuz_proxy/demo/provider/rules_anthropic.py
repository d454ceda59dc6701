"""What Anthropic's Messages API refuses, in its own words.

Rules:
- Shape first, then roles, tool pairing, signed thinking, cache markers; the first
  broken rule is the answer, as at the provider.
- Results stand first in the user message directly behind their calls, all of them.
- A text without a visible character is blank, invisible code points included.
"""

import itertools
import unicodedata
from collections.abc import Iterator
from typing import Any

from deuz_proxy.demo.provider.exchange import Json, ProviderRequest, Refusal
from deuz_proxy.demo.provider.fields import (
    first_refusal,
    mapping,
    objects,
    whole,
    word,
)
from deuz_proxy.demo.provider.rules_anthropic_markers import check_markers
from deuz_proxy.demo.provider.rules_anthropic_thinking import check_thinking
from deuz_proxy.demo.provider.rules_anthropic_tools import check_pairing, check_tools
from deuz_proxy.demo.provider.rules_fields import check_anthropic_members
from deuz_proxy.demo.provider.signing import Signer
from deuz_proxy.demo.provider.traits import refuses_prefill, takes_system_turns


def check_anthropic(
    request: ProviderRequest, signer: Signer, *, alternate: bool = False
) -> Refusal | None:
    """Return the refusal of the first broken rule, or None."""
    payload = request.payload
    refusal = first_refusal((check_anthropic_members, _check_shape), payload)
    if refusal is None and request.purpose == "generate":
        refusal = _check_output_limit(payload)
    if refusal is not None:
        return refusal
    messages = objects(payload["messages"])
    return (
        first_refusal((_check_roles, check_tools, check_markers), payload)
        or _check_system_turns(messages, request.model)
        or first_refusal((_check_content, _check_blank, check_pairing), messages)
        or check_thinking(payload, signer)
        or _check_prefill(messages, request.model)
        or (_check_alternation(messages) if alternate else None)
    )


def is_blank(text: str) -> bool:
    """Whether nothing in the text can be seen."""
    return all(
        character.isspace() or unicodedata.category(character) in {"Cf", "Cc"}
        for character in text
    )


def _check_shape(payload: Json) -> Refusal | None:
    for name in ("model", "messages"):
        if payload.get(name) is None:
            return Refusal("missing_parameter", f"{name}: Field required")
    messages = payload["messages"]
    if not messages:
        return Refusal("empty_messages", "messages: at least one message is required")
    for place, message in enumerate(messages):
        if not isinstance(message, dict):
            return Refusal("shape", f"messages.{place}: Input should be an object")
        if not isinstance(message.get("content"), str | list):
            wanted = (
                "Input should be a valid string"
                if "content" in message
                else "Field required"
            )
            return Refusal("shape", f"messages.{place}.content: {wanted}")
    return None


def _check_output_limit(payload: Json) -> Refusal | None:
    limit = payload.get("max_tokens")
    if limit is None:
        return Refusal("missing_max_tokens", "max_tokens: Field required")
    if limit < 1:
        return Refusal(
            "parameter_value",
            "max_tokens: Input should be greater than or equal to 1",
        )
    budget = whole(mapping(payload.get("thinking")).get("budget_tokens"))
    if budget is not None and budget >= limit:
        return Refusal(
            "thinking_budget",
            "`max_tokens` must be greater than `thinking.budget_tokens`.",
        )
    return None


def _check_roles(payload: Json) -> Refusal | None:
    messages = objects(payload["messages"])
    for place, message in enumerate(messages):
        if message.get("role") not in {"user", "assistant", "system"}:
            return Refusal(
                "unknown_role",
                f"messages.{place}.role: Input should be 'user' or 'assistant'",
            )
    if messages[0]["role"] == "assistant":
        return Refusal("first_role", 'messages: first message must use the "user" role')
    return None


def _check_system_turns(messages: list[Json], model: str) -> Refusal | None:
    for place, message in enumerate(messages):
        if message["role"] != "system":
            continue
        if not takes_system_turns(model):
            return Refusal(
                "system_role", "role 'system' is not supported on this model"
            )
        if not _may_stand(messages, place):
            # The provider's wording is not known; the rule is documented.
            return Refusal(
                "system_turn_place",
                f"messages.{place}: a `system` message must follow a `user` turn and "
                "must be followed by an `assistant` turn or end the conversation",
            )
    return None


def _may_stand(messages: list[Json], place: int) -> bool:
    before = _next_turn(messages[:place][::-1])
    behind = _next_turn(messages[place + 1 :])
    if behind is not None and behind["role"] != "assistant":
        return False
    if before is None:
        return False
    return bool(before["role"] == "user" or _ends_in_server_result(before))


def _next_turn(messages: list[Json]) -> Json | None:
    return next((m for m in messages if m["role"] != "system"), None)


def _ends_in_server_result(message: Json) -> bool:
    blocks = objects(message["content"])
    return bool(blocks) and word(blocks[-1].get("type")).endswith("_tool_result")


def _check_content(messages: list[Json]) -> Refusal | None:
    last = len(messages) - 1
    for place, message in enumerate(messages):
        content = message["content"]
        is_final_answer = place == last and message["role"] == "assistant"
        if not content and not is_final_answer:
            return Refusal(
                "empty_content",
                f"messages.{place}: all messages must have non-empty content "
                "except for the optional final assistant message",
            )
        refusal = _check_blocks(content, f"messages.{place}.content")
        if refusal is not None:
            return refusal
    return None


def _check_blocks(content: Any, where: str) -> Refusal | None:
    if isinstance(content, str):
        return None
    for place, block in enumerate(content):
        kind = block.get("type") if isinstance(block, dict) else None
        if not isinstance(kind, str):
            return Refusal("shape", f"{where}.{place}.type: Field required")
        if kind == "text" and not isinstance(block.get("text"), str):
            return Refusal("shape", f"{where}.{place}.text.text: Field required")
    return None


def _check_blank(messages: list[Json]) -> Refusal | None:
    for text, may_be_space in _texts(messages):
        if not text:
            return Refusal(
                "blank_text", "messages: text content blocks must be non-empty"
            )
        if is_blank(text) and not may_be_space:
            return Refusal(
                "blank_text",
                "messages: text content blocks must contain non-whitespace text",
            )
    return None


def _texts(messages: list[Json]) -> Iterator[tuple[str, bool]]:
    for message in messages:
        content = message["content"]
        if isinstance(content, str) and content:
            yield content, False
        for block in objects(content):
            if block["type"] == "text":
                yield block["text"], False
            if block["type"] == "tool_result":
                # A tool may print white space only; an empty block is refused.
                for part in objects(block.get("content")):
                    if part.get("type") == "text":
                        yield word(part.get("text")), True


def _check_prefill(messages: list[Json], model: str) -> Refusal | None:
    turn = _next_turn(messages[::-1])
    if turn is None or turn["role"] != "assistant":
        return None
    if refuses_prefill(model):
        return Refusal(
            "prefill",
            "This model does not support assistant message prefill. "
            "The conversation must end with a user message.",
        )
    content = turn["content"]
    blocks = objects(content)
    text = (
        content if isinstance(content, str) else word(mapping(blocks[-1]).get("text"))
    )
    if text != text.rstrip():
        return Refusal(
            "prefill_whitespace",
            "messages: final assistant content cannot end with trailing whitespace",
        )
    return None


def _check_alternation(messages: list[Json]) -> Refusal | None:
    roles = [m["role"] for m in messages if m["role"] != "system"]
    for before, after in itertools.pairwise(roles):
        if before == after:
            return Refusal(
                "alternation",
                'messages: roles must alternate between "user" and "assistant", '
                f'but found multiple "{after}" roles in a row',
            )
    return None
