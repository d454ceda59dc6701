"""Which wire a path speaks, and who is asking.

Rules:
- The version in front may be missing or any of the known ones: clients differ.
- `/v1/models` belongs to Anthropic if the request names an Anthropic version, to Gemini
  below its own versions or with Google's key header, else to OpenAI.
- A credential is taken from any of the headers or parameters that SDKs use.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass

from deuz_proxy.demo.provider.exchange import (
    ANTHROPIC,
    CHAT,
    GEMINI,
    OLLAMA_CHAT,
    OLLAMA_GENERATE,
    OTHER,
    RESPONSES,
    Refusal,
)

_VERSION = re.compile(r"^/(v1|v1beta|v1alpha)(?=/)")
_GEMINI_CALL = re.compile(r"^/models/([^/:]+):(\w+)$")
_PATHS = {
    "/messages": (ANTHROPIC, "generate"),
    "/messages/count_tokens": (ANTHROPIC, "count"),
    "/chat/completions": (CHAT, "generate"),
    "/responses": (RESPONSES, "generate"),
    "/responses/input_tokens": (RESPONSES, "count"),
    "/api/chat": (OLLAMA_CHAT, "generate"),
    "/api/generate": (OLLAMA_GENERATE, "generate"),
}
_GEMINI_PURPOSES = {
    "generateContent": "generate",
    "streamGenerateContent": "generate",
    "countTokens": "count",
}


@dataclass(frozen=True, slots=True)
class Route:
    """Where a request goes; `model` and `is_streamed` only where the path says so."""

    wire: str
    purpose: str
    model: str = ""
    is_streamed: bool = False


def find_route(method: str, path: str, headers: Mapping[str, str]) -> Route:
    """Return the wire and purpose of a request; anything unknown is `other`."""
    version = _VERSION.match(path)
    rest = path[version.end() :] if version else path
    if method == "POST" and rest in _PATHS:
        wire, purpose = _PATHS[rest]
        return Route(wire, purpose)
    call = _GEMINI_CALL.match(rest)
    if method == "POST" and call and call[2] in _GEMINI_PURPOSES:
        is_streamed = call[2].startswith("stream")
        return Route(GEMINI, _GEMINI_PURPOSES[call[2]], call[1], is_streamed)
    if method == "GET" and rest == "/api/tags":
        return Route(OLLAMA_CHAT, "models")
    if method == "GET" and rest.startswith("/models"):
        return Route(_model_wire(version, headers), "models", rest[len("/models/") :])
    return Route(OTHER, "other")


def find_credential(headers: Mapping[str, str], query: Mapping[str, str]) -> str:
    """Return the credential, or an empty string."""
    bearer = headers.get("authorization", "").removeprefix("Bearer ")
    return (
        bearer
        or headers.get("x-api-key")
        or headers.get("x-goog-api-key")
        or query.get("key", "")
    )


def missing_credential(wire: str) -> Refusal:
    """Return what the provider says to a request without a credential."""
    words = {
        ANTHROPIC: (401, "x-api-key header is required"),
        GEMINI: (
            403,
            "Method doesn't allow unregistered callers (callers without established "
            "identity). Please use API Key or other form of API consumer identity to "
            "call this API.",
        ),
    }
    status, message = words.get(
        wire,
        (
            401,
            "You didn't provide an API key. You need to provide your API key in an "
            "Authorization header using Bearer auth (i.e. Authorization: Bearer "
            "YOUR_KEY).",
        ),
    )
    return Refusal("missing_credential", message, status=status)


def _model_wire(version: re.Match[str] | None, headers: Mapping[str, str]) -> str:
    is_google = version is not None and version[1] != "v1"
    if is_google or "x-goog-api-key" in headers:
        return GEMINI
    return ANTHROPIC if "anthropic-version" in headers else CHAT
