import json
from typing import Any, get_args

import pytest
from pydantic import BaseModel, SecretStr, ValidationError

from deuz_proxy.config.model import (
    BUILT_IN_UPSTREAMS,
    Config,
    Limits,
    Route,
    redacted,
)

KEY = "sha256:" + "ab" * 32


def models_below(model: type[BaseModel], seen: list[type[BaseModel]]) -> None:
    if model in seen:
        return
    seen.append(model)
    pending: list[Any] = [field.annotation for field in model.model_fields.values()]
    while pending:
        here = pending.pop()
        if isinstance(here, type) and issubclass(here, BaseModel):
            models_below(here, seen)
        pending += get_args(here)


def test_the_defaults_only_watch() -> None:
    config = Config()

    assert (config.listen, config.admin.listen) == ("127.0.0.1:4141", "127.0.0.1:4142")
    assert config.admin.token is None
    assert config.routes == ()
    assert config.context.sources == ()
    assert config.on_error == "open"
    assert config.tenants == {}
    assert config.scope.headers == ("x-deuz-scope",)
    assert config.overflow.recover
    assert config.overflow.compact_at is None
    assert config.overflow.keep_recent_steps == 4
    assert config.ledger.url == "memory://"
    assert (config.ledger.max_entries, config.ledger.ttl_seconds) == (100_000, 86_400)
    assert config.telemetry.otlp.endpoint is None
    assert not config.telemetry.content
    assert not config.telemetry.propagate
    assert config.limits.max_body_bytes == 67_108_864


def test_every_field_of_every_section_says_what_it_does() -> None:
    sections: list[type[BaseModel]] = []
    models_below(Config, sections)

    silent = [
        f"{section.__name__}.{name}"
        for section in sections
        for name, field in section.model_fields.items()
        if not field.description or not field.description.endswith(".")
    ]

    assert len(sections) > 15
    assert silent == []


def test_every_section_refuses_unknown_keys_and_changes() -> None:
    sections: list[type[BaseModel]] = []
    models_below(Config, sections)

    assert {section.model_config.get("extra") for section in sections} == {"forbid"}
    assert {section.model_config.get("frozen") for section in sections} == {True}


def test_configured_upstreams_stand_beside_the_built_in_ones() -> None:
    config = Config.model_validate(
        {"upstreams": {"local": {"url": "http://127.0.0.1:8000", "wire": "openai"}}}
    )

    assert sorted(config.upstreams) == sorted([*BUILT_IN_UPSTREAMS, "local"])
    assert config.upstreams["anthropic"].url == "https://api.anthropic.com"


def test_a_configured_upstream_replaces_the_built_in_one_of_its_name() -> None:
    config = Config.model_validate({"upstreams": {"openai": {"url": "http://gate"}}})

    assert config.upstreams["openai"].url == "http://gate"
    assert config.upstreams["openai"].wire == "auto"


def test_a_route_is_labelled_by_name_or_else_by_path() -> None:
    assert Route(path="/v1/*").label == "/v1/*"
    assert Route(path="/v1/*", name="chat").label == "chat"


def test_an_empty_admin_token_is_no_token() -> None:
    assert Config.model_validate({"admin": {"token": ""}}).admin.token is None


def test_a_layer_named_twice_is_refused() -> None:
    with pytest.raises(ValidationError, match="twice"):
        Config.model_validate({"overflow": {"layers": ["summarize", "summarize"]}})


def test_anything_else_is_no_ledger() -> None:
    with pytest.raises(ValidationError, match="is not a ledger"):
        Config.model_validate({"ledger": {"url": "postgres://h"}})


def test_a_tenant_without_keys_is_refused() -> None:
    with pytest.raises(ValidationError, match="is empty"):
        Config.model_validate({"tenants": {"acme": {"keys": []}}})


def test_the_redacted_form_holds_no_secret_and_no_text() -> None:
    config = Config.model_validate(
        {
            "admin": {"token": "hunter2"},
            "tenants": {"acme": {"keys": [KEY]}},
            "telemetry": {
                "otlp": {"endpoint": "http://c", "headers": {"api-key": "hunter2"}}
            },
            "context": {
                "sources": [
                    {"type": "static", "records": [{"id": "r1", "text": "canary"}]}
                ]
            },
        }
    )

    shown = json.dumps(redacted(config))

    for secret in ("hunter2", KEY, "canary"):
        assert secret not in shown
    assert "sha256:abababab" in shown
    assert "(6 characters)" in shown


def test_the_redacted_form_is_json_with_numbers_as_numbers() -> None:
    shown = json.loads(json.dumps(redacted(Config())))

    assert shown["context"]["budget"]["ratio"] == 0.25
    assert shown["context"]["budget"]["shares"]["memory"] == 0.4
    assert shown["listen"] == "127.0.0.1:4141"


def test_secrets_do_not_show_when_a_config_is_printed() -> None:
    config = Config.model_validate({"admin": {"token": "hunter2"}})

    assert config.admin.token == SecretStr("hunter2")
    assert "hunter2" not in repr(config)


def test_silence_ends_no_call_that_a_thinking_model_could_still_answer() -> None:
    limits = Limits()

    assert limits.stream_idle_seconds >= 1800
    assert limits.keep_alive_seconds >= 1800
    assert limits.connect_seconds <= 30
