import pytest

from deuz_proxy.demo.provider.exchange import ANTHROPIC, CHAT, GEMINI, OTHER, RESPONSES
from deuz_proxy.demo.provider.routing import (
    Route,
    find_credential,
    find_route,
    missing_credential,
)


@pytest.mark.parametrize(
    ("path", "route"),
    [
        ("/v1/messages", Route(ANTHROPIC, "generate")),
        ("/messages", Route(ANTHROPIC, "generate")),
        ("/v1/messages/count_tokens", Route(ANTHROPIC, "count")),
        ("/v1/chat/completions", Route(CHAT, "generate")),
        ("/v1/responses", Route(RESPONSES, "generate")),
        ("/v1/responses/input_tokens", Route(RESPONSES, "count")),
        ("/v1beta/models/m:generateContent", Route(GEMINI, "generate", "m")),
        ("/v1/models/m:streamGenerateContent", Route(GEMINI, "generate", "m", True)),
        ("/v1alpha/models/m:countTokens", Route(GEMINI, "count", "m")),
        ("/v1beta/models/m:embedContent", Route(OTHER, "other")),
        ("/v1/embeddings", Route(OTHER, "other")),
        ("/", Route(OTHER, "other")),
    ],
)
def test_a_path_speaks_a_wire(path: str, route: Route) -> None:
    assert find_route("POST", path, {}) == route


@pytest.mark.parametrize(
    ("path", "headers", "wire"),
    [
        ("/v1/models", {"anthropic-version": "2026-10-21"}, ANTHROPIC),
        ("/v1/models/fake", {}, CHAT),
        ("/v1beta/models", {}, GEMINI),
        ("/v1/models", {"x-goog-api-key": "k"}, GEMINI),
    ],
)
def test_the_list_of_models_belongs_to_who_asks(
    path: str, headers: dict[str, str], wire: str
) -> None:
    assert find_route("GET", path, headers).wire == wire


def test_only_posts_generate() -> None:
    assert find_route("GET", "/v1/messages", {}).wire == OTHER


@pytest.mark.parametrize(
    ("headers", "query"),
    [
        ({"authorization": "Bearer k"}, {}),
        ({"x-api-key": "k"}, {}),
        ({"x-goog-api-key": "k"}, {}),
        ({}, {"key": "k"}),
    ],
)
def test_a_credential_is_found_wherever_sdks_put_it(
    headers: dict[str, str], query: dict[str, str]
) -> None:
    assert find_credential(headers, query) == "k"


def test_a_missing_credential_is_told_with_the_providers_status() -> None:
    statuses = [missing_credential(w).status for w in (ANTHROPIC, CHAT, GEMINI)]

    assert statuses == [401, 401, 403]
