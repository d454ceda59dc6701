import json

import pytest

from deuz_compiler import cache_seconds, lift


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


def marked(ttl: str) -> list[dict[str, object]]:
    marker = {"type": "ephemeral", "ttl": ttl}
    return [{"type": "text", "text": "a", "cache_control": marker}]


def body_of(system: object, *contents: object) -> bytes:
    messages = [{"role": "user", "content": content} for content in contents]
    body = {"model": "m", "system": system, "messages": messages}
    return json.dumps(body).encode()


def test_the_longest_of_several_counts() -> None:
    body = body_of(marked("1h"), marked("5m"))

    assert cache_seconds(lift("anthropic", body)) == 3600.0


def test_in_old_turns_none_is_looked_for() -> None:
    body = body_of("s", marked("1h"), "b", "c", "d", "e")

    assert cache_seconds(lift("anthropic", body)) == 300.0
