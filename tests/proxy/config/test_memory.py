from pathlib import Path

import pytest
from pydantic import SecretStr, ValidationError

from deuz_proxy.config.load import parse_config
from deuz_proxy.config.memory import MemoryConfig, memory_url
from deuz_proxy.config.model import redacted
from deuz_proxy.errors import ConfigInvalid


def url_of(url: str, folder: str = "/etc/deuz") -> str:
    made = MemoryConfig.model_validate({"url": url}, context={"folder": Path(folder)})
    return memory_url(made, "memory://")


@pytest.mark.parametrize(
    ("url", "taken"),
    [
        ("memory://", "memory://"),
        ("", "memory://"),
        ("sqlite:///memory.db", "sqlite:////etc/deuz/memory.db"),
        ("sqlite:////var/lib/m.db", "sqlite:////var/lib/m.db"),
        ("postgres://u:p@db:5432/deuz", "postgres://u:p@db:5432/deuz"),
        (
            "postgresql://db/deuz?sslmode=require",
            "postgresql://db/deuz?sslmode=require",
        ),
    ],
)
def test_three_kinds_of_stores_are_known(url: str, taken: str) -> None:
    assert url_of(url) == taken


@pytest.mark.parametrize(
    "url",
    [
        "memory",
        "sqlite://",
        "sqlite:///",
        "sqlite://m.db",
        "redis://h/0",
        "postgres://",
        "postgres://db",
        "postgres:///x",
        "postgres://[bad/x",
        "postgres://u:word@h:port/x",
        "postgres://h:65536/x",
        "mysql://h/x",
    ],
)
def test_any_other_is_refused_with_what_is_allowed(url: str) -> None:
    with pytest.raises(ValidationError, match="is not a memory store"):
        url_of(url)


@pytest.mark.parametrize(
    ("ledger", "taken"),
    [
        ("memory://", "memory://"),
        ("sqlite:////var/lib/ledger.db", "sqlite:////var/lib/memory.db"),
        ("redis://h/0", "memory://"),
    ],
)
def test_without_a_url_it_is_beside_the_ledgers_file_or_in_process(
    ledger: str, taken: str
) -> None:
    assert memory_url(MemoryConfig(), ledger) == taken


def test_what_is_said_wins_over_the_ledgers_place() -> None:
    config = MemoryConfig(url=SecretStr("memory://"))

    assert memory_url(config, "sqlite:////var/lib/ledger.db") == "memory://"


def test_a_password_is_neither_shown_nor_told() -> None:
    text = "memory: {url: 'postgres://u:hush@db/x'}"
    config = parse_config(text, name="c", folder=Path(), environ={})
    bad = text.replace("postgres", "mysql")

    with pytest.raises(ConfigInvalid) as caught:
        parse_config(bad, name="c", folder=Path(), environ={})

    assert "hush" not in str(redacted(config))
    assert "c:1: memory.url: is not a memory store" in str(caught.value)
    assert "hush" not in str(caught.value)


KEY = "sha256:" + "ab" * 32


def test_a_grant_is_a_key_and_a_scope_and_its_key_is_not_shown() -> None:
    text = f"memory: {{grants: {{ada: {{key: '{KEY}', scope: acme/ada}}}}}}"
    config = parse_config(text, name="c", folder=Path(), environ={})

    assert config.memory.grants["ada"].scope == "acme/ada"
    assert KEY not in str(redacted(config))


@pytest.mark.parametrize("scope", ["", "a b", "a/b/c"])
def test_a_grant_of_no_scope_is_a_mistake(scope: str) -> None:
    text = f"memory: {{grants: {{ada: {{key: '{KEY}', scope: '{scope}'}}}}}}"

    with pytest.raises(ConfigInvalid, match="is not a scope"):
        parse_config(text, name="c", folder=Path(), environ={})
