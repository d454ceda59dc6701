import pytest

from deuz_compiler import cache_seconds, lift
from deuz_testing.bodies import anthropic_body, user

MARK = {"type": "ephemeral"}


@pytest.mark.parametrize(
    ("wire", "body", "seconds"),
    [
        ("anthropic", b'{"model":"m","messages":[]}', 300.0),
        ("openai_chat", b'{"model":"m","messages":[]}', 600.0),
        ("ollama_chat", b'{"model":"m","messages":[]}', 300.0),
        ("openai_responses", b'{"model":"m","input":[]}', 600.0),
        ("ollama_chat", b'{"model":"m","messages":[],"keep_alive":"20m"}', 1200.0),
        (
            "openai_chat",
            b'{"prompt_cache_retention": "24h","model":"m","messages":[]}',
            86_400.0,
        ),
        (
            "anthropic",
            b'{"system":"\\"ttl\\":\\"9h\\"","model":"m","messages":[]}',
            300.0,
        ),
    ],
)
def test_the_lifetime_is_what_is_asked_for_or_the_providers(
    wire: str, body: bytes, seconds: float
) -> None:
    assert cache_seconds(lift(wire, body)) == seconds


def test_the_longest_of_several_counts() -> None:
    body = anthropic_body(
        [user([{"type": "text", "text": "a", "cache_control": {**MARK, "ttl": "5m"}}])],
        system=[{"type": "text", "text": "s", "cache_control": {**MARK, "ttl": "1h"}}],
    )

    assert cache_seconds(lift("anthropic", body)) == 3600.0


def test_in_old_turns_none_is_looked_for() -> None:
    marked = {"type": "text", "text": "a", "cache_control": {**MARK, "ttl": "1h"}}
    body = anthropic_body([user([marked]), *[user(str(n)) for n in range(4)]])

    assert cache_seconds(lift("anthropic", body)) == 300.0
