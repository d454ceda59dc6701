import json

import pytest

from deuz_compiler import lift
from deuz_compiler.wires.lifetimes import cache_seconds, seconds_ahead


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


def test_in_turns_without_a_marker_none_is_looked_for() -> None:
    envelope = lift("anthropic", body_of("s", "a", marked("1h"), "c"))

    assert cache_seconds(envelope, unmarked=1) == 3600.0
    assert cache_seconds(envelope, unmarked=2) == 300.0
    assert cache_seconds(envelope, unmarked=3) == 300.0


def test_what_is_asked_ahead_of_the_history_may_be_known_before() -> None:
    envelope = lift("anthropic", body_of(marked("1h"), "a"))

    ahead_seconds = seconds_ahead(envelope)

    assert ahead_seconds == 3600.0
    assert cache_seconds(envelope, unmarked=1, ahead_seconds=ahead_seconds) == 3600.0
    assert seconds_ahead(lift("anthropic", body_of("s", marked("1h")))) == 0.0
