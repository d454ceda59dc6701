from typing import Any

import pytest

from deuz_proxy.config.model import Config
from deuz_proxy.config.routing import (
    Target,
    lowered,
    resolve_target,
    route_labels,
)
from deuz_proxy.errors import UnknownUpstream

LOCAL = {"local": {"url": "http://h/base", "placement": "part"}}


def config(*routes: dict[str, Any], **fields: Any) -> Config:
    return Config.model_validate({"upstreams": LOCAL, "routes": routes, **fields})


@pytest.mark.parametrize(
    ("path", "upstream", "api"),
    [
        ("/v1/messages", "anthropic", "anthropic"),
        ("/v1/messages/count_tokens", "anthropic", ""),
        ("/v1/messages/batches", "anthropic", ""),
        ("/v1/chat/completions", "openai", "openai_chat"),
        ("/v1/chat/completions/cmpl_1", "openai", ""),
        ("/v1/responses", "openai", "openai_responses"),
        ("/v1/responses/resp_1/cancel", "openai", ""),
        ("/v1/responses/compact", "openai", "openai_responses"),
        ("/v1/models", "openai", ""),
        ("/v1/files/f%2F1/content", "openai", ""),
        ("/v1/messagesx", "openai", ""),
        ("/v1beta/models/gemini-2.5-pro:generateContent", "gemini", "gemini"),
        ("/v1beta/models/gemini-2.5-pro:countTokens", "gemini", ""),
        ("/v1/models/gemini-2.5-pro:generateContent", "gemini", "gemini"),
        ("/v1/models/gemini-2.5-pro:embedContent", "gemini", ""),
        ("/v1/models/ft:gpt-4o:org::id", "openai", ""),
        ("/v1alpha/x", "gemini", ""),
        ("/v1beta/openai/chat/completions", "gemini", "openai_chat"),
        ("/api/chat", "ollama", "ollama_chat"),
        ("/api/generate", "ollama", "ollama_generate"),
        ("/api/tags", "ollama", ""),
    ],
)
def test_built_in_paths_lead_to_their_provider_and_are_observed(
    path: str, upstream: str, api: str
) -> None:
    target = resolve_target(config(), path)

    assert (target.upstream, target.family, target.route) == (upstream,) * 3
    assert (target.api, target.path) == (api, path)
    assert (target.mode, target.on_error) == ("observe", "open")


def test_a_target_carries_all_that_its_upstream_says() -> None:
    assert resolve_target(config(), "/@local/v1/chat/completions?a=%2F&b") == Target(
        upstream="local",
        url="http://h/base",
        path="/v1/chat/completions?a=%2F&b",
        api="openai_chat",
        family="openai",
        placement="part",
        route="local",
        mode="observe",
        on_error="open",
    )


@pytest.mark.parametrize(
    ("path", "told"),
    [
        (
            "/openai/deployments/D/chat/completions?api-version=2024-10-21",
            ("openai_chat", "openai", "D", False),
        ),
        ("/openai/v1/chat/completions", ("openai_chat", "openai", "", False)),
        ("/openai/v1/responses", ("openai_responses", "openai", "", False)),
        ("/model/m/converse-stream", ("bedrock_converse", "bedrock", "m", True)),
        ("/model/m/invoke", ("bedrock_invoke", "bedrock", "m", False)),
        (
            "/v1/projects/p/locations/l/publishers/google/models/g:generateContent",
            ("gemini", "gemini", "g", False),
        ),
        (
            "/v1/projects/p/locations/l/publishers/anthropic/models/c:rawPredict",
            ("anthropic", "anthropic", "c", False),
        ),
        ("/inference/v1/chat/completions", ("openai_chat", "openai", "", False)),
    ],
)
def test_clouds_are_recognised_behind_a_prefix(
    path: str, told: tuple[str, str, str, bool]
) -> None:
    target = resolve_target(config(), f"/@local{path}")

    assert (target.api, target.family, target.model, target.is_streamed) == told
    assert target.path == path


@pytest.mark.parametrize(
    "path", ["//", "/v2/chat", "/favicon.ico", "/v1x", "", "?x", "http://h/v1/messages"]
)
def test_a_path_that_nobody_serves_leads_nowhere(path: str) -> None:
    with pytest.raises(UnknownUpstream):
        resolve_target(config(), path)


@pytest.mark.parametrize(
    ("path", "upstream"),
    [
        ("/", "anthropic"),
        ("/messages", "anthropic"),
        ("/chat/completions", "openai"),
        ("/responses", "openai"),
    ],
)
def test_clients_of_a_base_url_without_v1_are_served(path: str, upstream: str) -> None:
    assert resolve_target(config(), path).upstream == upstream


@pytest.mark.parametrize("path", ["/v1/models", "/v1/files?limit=1", "/v1/models/x"])
def test_a_path_of_two_providers_goes_where_the_header_says(path: str) -> None:
    headers = [(b"X-Api-Key", b"k"), (b"Anthropic-Version", b"2023-06-01")]

    assert resolve_target(config(), path, headers).upstream == "anthropic"
    assert resolve_target(config(), path, headers[:1]).upstream == "openai"


def test_a_header_does_not_overrule_a_named_upstream_or_a_rule() -> None:
    headers = [(b"anthropic-version", b"2023-06-01")]
    made = config({"path": "/v1/models", "upstream": "local"})

    assert resolve_target(config(), "/@local/v1/models", headers).upstream == "local"
    assert resolve_target(made, "/v1/models", headers).upstream == "local"
    assert resolve_target(made, "/v1beta/x", headers).upstream == "gemini"


@pytest.mark.parametrize(
    ("target", "path"),
    [
        ("/@local/v1/messages", "/v1/messages"),
        ("/@local//odd/../%41?q=/@x", "//odd/../%41?q=/@x"),
        ("/@local/", "/"),
        ("/@local", ""),
        ("/@local?q=1", "?q=1"),
        ("/@local/@openai/v1", "/@openai/v1"),
    ],
)
def test_a_named_upstream_gets_the_rest_byte_for_byte(target: str, path: str) -> None:
    found = resolve_target(config(), target)

    assert (found.upstream, found.path) == ("local", path)


@pytest.mark.parametrize(
    ("target", "api", "family"),
    [
        ("/@local/v1/messages", "anthropic", "anthropic"),
        ("/@local/v1/messages/count_tokens", "", "anthropic"),
        ("/@local/openai/deployments/d/chat/completions", "openai_chat", "openai"),
        ("/@local/v1/responses/r1", "", "openai"),
        ("/@local/v1/models", "", "openai"),
        ("/@local/v1beta/models", "", "gemini"),
        ("/@local/api/tags", "", "ollama"),
        ("/@local/else", "", "none"),
        ("/@anthropic/v1/models", "", "anthropic"),
        ("/@ollama/v1/chat/completions", "openai_chat", "ollama"),
        ("/@gemini/else", "", "gemini"),
    ],
)
def test_the_family_is_the_upstreams_or_else_told_by_path(
    target: str, api: str, family: str
) -> None:
    found = resolve_target(config(), target)

    assert (found.api, found.family) == (api, family)


def test_an_unknown_name_is_refused_and_shown_in_part() -> None:
    with pytest.raises(UnknownUpstream) as caught:
        resolve_target(config(), f"/@{'x' * 500}/v1")

    assert caught.value.upstream == "x" * 64


@pytest.mark.parametrize(
    ("path", "words"),
    [("/metrics", "admin address"), ("/healthz", "admin address"), ("/x", "/@NAME/…")],
)
def test_a_path_that_leads_nowhere_is_refused_with_what_is_known(
    path: str, words: str
) -> None:
    with pytest.raises(UnknownUpstream, match="no upstream for this path") as caught:
        resolve_target(config(), path)

    assert words in str(caught.value)
    assert caught.value.upstream is None


def test_the_first_rule_that_fits_wins() -> None:
    made = config(
        {"path": "/v1/messages", "mode": "compile", "on_error": "closed"},
        {"path": "/v1/*", "mode": "off"},
        {"path": "/v1/models", "mode": "compile"},
    )

    first = resolve_target(made, "/v1/messages?beta=true")
    second = resolve_target(made, "/v1/models")

    assert (first.mode, first.route) == ("compile", "/v1/messages")
    assert first.is_closed_on_error
    assert (second.mode, second.route) == ("off", "/v1/*")
    assert not second.is_closed_on_error


def test_an_exact_rule_does_not_cover_what_is_below_its_path() -> None:
    made = config({"path": "/v1/messages", "mode": "compile"})

    assert resolve_target(made, "/v1/messages/count_tokens").mode == "observe"


def test_a_rule_can_lead_elsewhere_than_the_path_says() -> None:
    made = config({"path": "/v1/chat/completions", "upstream": "local"})

    assert resolve_target(made, "/v1/chat/completions").url == "http://h/base"
    assert resolve_target(made, "/v1/models").upstream == "openai"


def test_a_rule_without_upstream_holds_for_named_ones_too() -> None:
    made = config({"path": "/v1/chat/completions", "mode": "compile", "name": "chat"})

    target = resolve_target(made, "/@local/v1/chat/completions")

    assert (target.upstream, target.mode, target.route) == ("local", "compile", "chat")


def test_a_rule_for_one_upstream_leaves_named_others_alone() -> None:
    made = config(
        {"path": "/v1/chat/completions", "upstream": "local", "mode": "compile"}
    )

    other = resolve_target(made, "/@openai/v1/chat/completions")
    same = resolve_target(made, "/@local/v1/chat/completions")

    assert (other.upstream, other.mode) == ("openai", "observe")
    assert (same.upstream, same.mode) == ("local", "compile")


def test_a_rule_for_an_odd_path_without_upstream_leads_nowhere() -> None:
    with pytest.raises(UnknownUpstream):
        resolve_target(config({"path": "/odd"}), "/odd")


def test_the_global_rule_on_errors_holds_where_a_route_has_none() -> None:
    made = config({"path": "/v1/messages"}, on_error="closed")

    assert resolve_target(made, "/v1/messages").is_closed_on_error
    assert resolve_target(made, "/v1/models").is_closed_on_error


@pytest.mark.parametrize(
    ("asked", "mode"),
    [
        (b"off", "off"),
        (b" Observe ", "observe"),
        (b"shadow", "compile"),
        (b"compile", "compile"),
        (b"nonsense", "compile"),
        (b"", "compile"),
        (None, "compile"),
    ],
)
def test_a_client_may_lower_the_mode_to_two_words(
    asked: bytes | None, mode: str
) -> None:
    target = resolve_target(config({"path": "/v1/*", "mode": "compile"}), "/v1/x")

    assert lowered(target, asked).mode == mode


def test_a_client_cannot_raise_the_mode() -> None:
    target = resolve_target(config({"path": "/v1/*", "mode": "off"}), "/v1/x")

    assert lowered(target, b"observe") == target
    assert lowered(target, b"off") == target


def test_every_label_a_target_can_have_is_listed_once() -> None:
    made = config({"path": "/v1/*"}, {"path": "/v1/messages", "name": "openai"})

    labels = route_labels(made)

    assert labels == ("/v1/*", "openai", "anthropic", "gemini", "ollama", "local")
    assert resolve_target(made, "/api/chat").route in labels
