from pathlib import Path

import pytest
from pydantic import ValidationError

from deuz_proxy.config.ledger import (
    LedgerConfig,
    file_of,
    is_server,
    shown_url,
    url_fault,
)


@pytest.mark.parametrize(
    ("url", "path"),
    [
        ("sqlite:///ledger.db", "ledger.db"),
        ("sqlite:///var/ledger.db", "var/ledger.db"),
        ("sqlite:////var/lib/ledger.db", "/var/lib/ledger.db"),
        ("sqlite:////a b/%20.db", "/a b/%20.db"),
    ],
)
def test_a_file_is_taken_as_it_is_written(url: str, path: str) -> None:
    assert url_fault(url) is None
    assert file_of(url) == Path(path)


def test_a_relative_file_starts_at_the_configs_folder() -> None:
    context = {"folder": "/etc/deuz"}

    def at(url: str) -> str:
        return LedgerConfig.model_validate({"url": url}, context=context).url

    assert at("sqlite:///ledger.db") == "sqlite:////etc/deuz/ledger.db"
    assert at("sqlite:////var/ledger.db") == "sqlite:////var/ledger.db"
    assert at("memory://") == "memory://"


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("", "is not a ledger"),
        ("postgres://canary@h", "is not a ledger"),
        ("memory://here", "is more than memory://"),
        ("sqlite://ledger.db", "names no file"),
        ("sqlite:ledger.db", "names no file"),
        ("sqlite:///", "names no file"),
        ("sqlite:////var/", "names no file"),
        ("sqlite:///:memory:", "a database without a file"),
        ("sqlite:///x.db?mode=ro", "has options"),
        ("redis:", "names no host"),
        ("redis://", "names no host"),
        ("redis:h", "names no host"),
        ("redis:///0", "names no host"),
        ("redis://h:canary", "no port that is a number"),
        ("redis://h:99999", "no port that is a number"),
        ("redis://h/canary", "names a database that is no number"),
        ("redis://h/-1", "names a database that is no number"),
        ("redis://me:canary@h/0?x=canary", "has options"),
        ("rediss://:canary@h/0#1", "has options"),
    ],
)
def test_a_mistake_is_told_with_what_is_allowed_and_without_the_value(
    url: str, words: str
) -> None:
    with pytest.raises(ValidationError) as caught:
        LedgerConfig(url=url)

    (fault,) = caught.value.errors()
    assert words in fault["msg"]
    assert "allowed: " in fault["msg"]
    assert "canary" not in fault["msg"]


@pytest.mark.parametrize(
    "url",
    [
        "redis://h",
        "redis://h:6379",
        "redis://h:6379/",
        "rediss://me:p%40ss@h.example:6380/15",
        "valkey://:pass@[::1]:6379/0",
        "valkeys://h",
    ],
)
def test_a_server_is_taken(url: str) -> None:
    assert LedgerConfig(url=url).url == url
    assert is_server(url)
    assert file_of(url) is None


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("memory://", "memory://"),
        ("sqlite:////a/b.db", "sqlite:////a/b.db"),
        ("redis://h:6379/0", "redis://h:6379/0"),
        ("redis://:canary@h:6379/0", "redis://:…@h:6379/0"),
        ("rediss://me:can%40ary@h/1", "rediss://me:…@h/1"),
        ("redis://me:can@ary@h", "redis://me:…@h"),
    ],
)
def test_a_password_is_never_shown(url: str, shown: str) -> None:
    assert shown_url(url) == shown
    assert "ary" not in repr(LedgerConfig.model_construct(url=url))
