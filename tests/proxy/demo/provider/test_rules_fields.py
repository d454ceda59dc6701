import pytest

from deuz_proxy.demo.provider.rules_fields import (
    CHAT_MEMBERS,
    check_anthropic_members,
    check_openai_members,
)


def test_unknown_members_are_tolerated() -> None:
    payload = {"zz_future": {"deep": [1]}, "metadata": None}

    assert check_anthropic_members(payload) is None
    assert check_openai_members(payload, CHAT_MEMBERS) is None


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("temperature", "hot", "expected a decimal, but got a string instead."),
        ("stream", 1, "expected a boolean, but got an integer instead."),
        ("messages", {}, "expected an array of objects, but got an object instead."),
        ("max_tokens", True, "expected an integer, but got a boolean instead."),
    ],
)
def test_openai_says_what_it_expected_and_what_it_got(
    name: str, value: object, message: str
) -> None:
    refusal = check_openai_members({name: value}, CHAT_MEMBERS)

    assert refusal is not None
    assert refusal.message == f"Invalid type for '{name}': {message}"
    assert (refusal.code, refusal.param) == ("invalid_type", name)


def test_a_whole_number_is_a_number() -> None:
    assert check_openai_members({"temperature": 1}, CHAT_MEMBERS) is None
    assert check_anthropic_members({"temperature": 1}) is None


def test_anthropic_names_the_member() -> None:
    refusal = check_anthropic_members({"system": 3})

    assert refusal is not None
    assert refusal.message == "system: Input should be a valid string"
