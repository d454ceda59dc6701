"""The list of models that the fake provider offers, in each wire's shape.

Rules:
- Any model name is answered; the list holds a few that show the behaviours.
- OpenAI tells no window, Anthropic and Gemini do.
"""

from deuz_proxy.demo.provider.exchange import (
    ANTHROPIC,
    GEMINI,
    OLLAMA_CHAT,
    Json,
    Refusal,
)
from deuz_proxy.demo.provider.routing import Route

NAMES = (
    "fake",
    "fake-tools",
    "fake-thinking",
    "fake-slow",
    "fake-cut",
    "fake-error-500",
)
MAX_OUTPUT_TOKENS = 64_000
_BORN = "2026-01-01T00:00:00Z"
_BORN_SECONDS = 1_767_225_600


def spell_models(route: Route, window_tokens: int) -> Json | Refusal:
    """Return the list, or one model, or a refusal for a name that is not listed."""
    if not route.model:
        return _spell_list(route.wire, window_tokens)
    if route.model not in NAMES:
        return Refusal("unknown_model", f"model: {route.model}", status=404)
    return _spell_model(route.wire, route.model, window_tokens)


def _spell_list(wire: str, window_tokens: int) -> Json:
    models = [_spell_model(wire, name, window_tokens) for name in NAMES]
    if wire in {GEMINI, OLLAMA_CHAT}:
        return {"models": models}
    if wire == ANTHROPIC:
        ends = {"first_id": NAMES[0], "last_id": NAMES[-1]}
        return {"data": models, "has_more": False, **ends}
    return {"object": "list", "data": models}


def _spell_model(wire: str, name: str, window_tokens: int) -> Json:
    if wire == GEMINI:
        return {
            "name": f"models/{name}",
            "version": "001",
            "displayName": name,
            "inputTokenLimit": window_tokens,
            "outputTokenLimit": MAX_OUTPUT_TOKENS,
            "supportedGenerationMethods": ["generateContent", "countTokens"],
        }
    if wire == OLLAMA_CHAT:
        return {"name": name, "model": name, "modified_at": _BORN, "size": 1}
    if wire == ANTHROPIC:
        return {
            "type": "model",
            "id": name,
            "display_name": name,
            "created_at": _BORN,
            "lifecycle": "active",
            "max_input_tokens": window_tokens,
            "max_tokens": MAX_OUTPUT_TOKENS,
        }
    return {
        "id": name,
        "object": "model",
        "created": _BORN_SECONDS,
        "owned_by": "fake-provider",
    }
