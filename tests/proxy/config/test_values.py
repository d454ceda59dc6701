from decimal import Decimal
from typing import Any

import pytest
from pydantic import TypeAdapter, ValidationError

from deuz_proxy.config.values import (
    Address,
    HeaderName,
    KeyDigest,
    LastingText,
    Name,
    PathRule,
    Ratio,
    Url,
    nearest,
    split_address,
)


def accepts(kind: Any, text: str) -> bool:
    try:
        TypeAdapter(kind).validate_python(text)
    except ValidationError:
        return False
    return True


@pytest.mark.parametrize(
    ("text", "host", "port"),
    [
        ("127.0.0.1:4141", "127.0.0.1", 4141),
        ("localhost:0", "localhost", 0),
        ("[::1]:65535", "::1", 65535),
        ("0.0.0.0:80", "0.0.0.0", 80),
    ],
)
def test_an_address_is_parted_into_host_and_port(
    text: str, host: str, port: int
) -> None:
    assert split_address(text) == (host, port)
    assert accepts(Address, text)


@pytest.mark.parametrize(
    "text",
    ["", "4141", ":4141", "host", "host:", "host:x", "::1:80", "h:65536", "h:-1"],
)
def test_what_is_not_host_and_port_is_no_address(text: str) -> None:
    with pytest.raises(ValueError, match="allowed: "):
        split_address(text)
    assert not accepts(Address, text)


@pytest.mark.parametrize(
    ("text", "is_url"),
    [
        ("https://api.anthropic.com", True),
        ("http://127.0.0.1:8000/base/v1", True),
        ("http://[::1]:8000", True),
        ("ftp://host", False),
        ("https://", False),
        ("api.anthropic.com", False),
        ("http://host:99999", False),
        ("http://host:x", False),
        ("http://host:0", False),
        ("http://[::1", False),
        ("http://ho st", False),
        ("http://user:secret@host", False),
        ("http://host?x=1", False),
        ("http://host#there", False),
    ],
)
def test_a_url_is_http_with_a_host_and_nothing_behind_its_path(
    text: str, is_url: bool
) -> None:
    assert accepts(Url, text) == is_url


def test_a_slash_at_the_end_of_a_url_is_dropped() -> None:
    assert TypeAdapter(Url).validate_python("http://host/base/") == "http://host/base"


def test_a_refused_url_is_not_repeated_since_it_may_hold_a_secret() -> None:
    with pytest.raises(ValidationError) as caught:
        TypeAdapter(Url).validate_python("http://user:hunter2@host")

    assert "hunter2" not in caught.value.errors(include_input=False)[0]["msg"]


@pytest.mark.parametrize(
    ("text", "is_name"),
    [
        ("docs", True),
        ("gpt-4.1_mini", True),
        ("a" * 64, True),
        ("a" * 65, False),
        ("", False),
        ("-docs", False),
        ("a/b", False),
        ("a b", False),
        ("@docs", False),
    ],
)
def test_a_name_is_short_and_fits_into_a_path(text: str, is_name: bool) -> None:
    assert accepts(Name, text) == is_name


def test_header_names_are_folded_to_lower_case() -> None:
    assert TypeAdapter(HeaderName).validate_python("X-Deuz-Scope") == "x-deuz-scope"
    assert not accepts(HeaderName, "x deuz")


@pytest.mark.parametrize(
    ("text", "is_digest"),
    [
        ("sha256:" + "0f" * 32, True),
        ("sha256:" + "0F" * 32, False),
        ("sha256:0f", False),
        ("sk-live-secret", False),
    ],
)
def test_a_tenant_key_is_a_digest_never_a_key(text: str, is_digest: bool) -> None:
    assert accepts(KeyDigest, text) == is_digest


@pytest.mark.parametrize(
    ("text", "is_rule"),
    [
        ("/v1/messages", True),
        ("/v1/*", True),
        ("/*", True),
        ("v1", False),
        ("/v1/*/x", False),
        ("/v1?x", False),
        ("", False),
    ],
)
def test_a_path_rule_is_exact_or_ends_with_one_star(text: str, is_rule: bool) -> None:
    assert accepts(PathRule, text) == is_rule


@pytest.mark.parametrize(
    "text",
    [
        "It is {{now}}.",
        "It is {{ now }}.",
        "It is {now}.",
        "It is {datetime}.",
        "It is {now:%H:%M}.",
        "It is {{ current_date | upper }}.",
        "It is {% now 'Y' %}.",
        "It is ${timestamp}.",
        "It is $(date +%F).",
        "It is <<today>>.",
        "Run {{uuid4()}}.",
        "Seed {random_number}.",
        "Seed {{ randint(1, 6) }}.",
        "Today's date: {Today's Date}",
    ],
)
def test_a_placeholder_for_time_or_chance_is_refused_in_lasting_text(text: str) -> None:
    assert not accepts(LastingText, text)


@pytest.mark.parametrize(
    "text",
    [
        "The office opens now and the date is known.",
        'Send {"date": "2026-01-01"} as JSON.',
        "const now = { date: 1, time: 2 };",
        "Ask for {customer_name} and {{product}}.",
        "The timer {timer} and the updates {updates} are names.",
        "Call date() or random().",
    ],
)
def test_words_and_code_that_only_mention_time_are_kept(text: str) -> None:
    assert accepts(LastingText, text)


def test_lasting_text_is_neither_blank_nor_endless() -> None:
    assert not accepts(LastingText, " \n ")
    assert accepts(LastingText, "x" * 65_536)
    assert not accepts(LastingText, "x" * 65_537)


def test_a_ratio_is_exact() -> None:
    ratio = TypeAdapter(Ratio).validate_python("0.29")

    assert ratio == Decimal("0.29")
    assert ratio.as_integer_ratio() == (29, 100)


@pytest.mark.parametrize("text", ["-0.1", "1.01", "nan", "inf", "half"])
def test_a_ratio_lies_between_nothing_and_all(text: str) -> None:
    assert not accepts(Ratio, text)


def test_the_nearest_known_word_is_offered_only_when_it_is_near() -> None:
    assert nearest("shars", ("shares", "ratio")) == "; did you mean shares?"
    assert nearest("colour", ("shares", "ratio")) == ""
