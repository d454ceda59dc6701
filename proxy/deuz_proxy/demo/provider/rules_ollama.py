"""What Ollama refuses, in its own words: little, for it is not strict.

Rules:
- A content is one string; a body of another shape does not fit its types.
- With `alternate` it acts like a chat template that wants user and assistant in turns.
"""

import itertools
from typing import Any

from deuz_proxy.demo.provider.exchange import (
    OLLAMA_CHAT,
    Json,
    ProviderRequest,
    Refusal,
)
from deuz_proxy.demo.provider.fields import first_refusal, numbered, objects, word

_ROLES = ("system", "user", "assistant", "tool")


def check_ollama(
    request: ProviderRequest, *, alternate: bool = False
) -> Refusal | None:
    """Return the refusal of the first broken rule, or None."""
    payload = request.payload
    if not request.model:
        return Refusal("missing_model", "model is required")
    if request.wire != OLLAMA_CHAT:
        return _check_prompt(payload)
    refusal = first_refusal((_check_messages, _check_contents), payload.get("messages"))
    if refusal is None and alternate:
        refusal = _check_alternation(objects(payload["messages"]))
    return refusal


def _check_prompt(payload: Json) -> Refusal | None:
    if not isinstance(payload.get("prompt", ""), str):
        return _wrong_type("GenerateRequest.prompt")
    if not payload.get("prompt"):
        # The real one loads the model and says nothing; here it would hide a fault.
        return Refusal("empty_messages", "prompt is required")
    return None


def _check_messages(messages: Any) -> Refusal | None:
    if not messages:
        return Refusal("empty_messages", "messages are required")
    if not isinstance(messages, list) or len(objects(messages)) != len(messages):
        return _wrong_type("ChatRequest.messages")
    return None


def _check_contents(messages: Any) -> Refusal | None:
    for _, message in numbered(messages):
        if not isinstance(message.get("content") or "", str):
            return _wrong_type("Message.messages.content")
        if word(message.get("role")) not in _ROLES:
            return Refusal("unknown_role", f"invalid role: {message.get('role')}")
        images = message.get("images") or []
        if not isinstance(images, list):
            return _wrong_type("Message.messages.images")
        if not all(isinstance(image, str) for image in images):
            return Refusal("media", "illegal base64 data at input byte 0")
    return None


def _wrong_type(where: str) -> Refusal:
    message = f"json: cannot unmarshal value into Go struct field {where}"
    return Refusal("parameter_type", message)


def _check_alternation(messages: list[Json]) -> Refusal | None:
    sides = [word(m["role"]) for m in messages if m["role"] in ("user", "assistant")]
    for before, after in itertools.pairwise(sides):
        if before == after == "user":
            return Refusal(
                "alternation",
                "Conversation roles must alternate user/assistant/user/assistant/...",
                status=500,
            )
    return None
