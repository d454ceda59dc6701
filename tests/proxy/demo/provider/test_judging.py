import json

import pytest

from deuz_proxy.demo.provider import count_body, judge_body
from deuz_proxy.demo.provider.exchange import ANTHROPIC, CHAT, GEMINI, RESPONSES

TURNS = [{"role": "user", "content": "hi"}, {"role": "user", "content": "there"}]
BODIES = [
    (ANTHROPIC, {"model": "fake", "max_tokens": 9, "messages": TURNS}),
    (CHAT, {"model": "fake", "messages": TURNS}),
    (RESPONSES, {"model": "fake", "input": TURNS}),
    (GEMINI, {"contents": [{"parts": [{"text": "hi"}]}] * 2}),
]


@pytest.mark.parametrize(("wire", "payload"), BODIES)
def test_a_good_body_is_accepted_without_a_server(wire: str, payload: object) -> None:
    assert judge_body(wire, json.dumps(payload).encode()) is None


@pytest.mark.parametrize("wire", [ANTHROPIC, CHAT, RESPONSES, GEMINI])
def test_a_body_without_a_conversation_is_refused(wire: str) -> None:
    body = b'{"model": "fake", "max_tokens": 9, "messages": []}'

    refusal = judge_body(wire, body)

    assert refusal is not None
    assert refusal.rule == "empty_messages"


def test_alternation_can_be_demanded() -> None:
    refusal = judge_body(CHAT, json.dumps(BODIES[1][1]).encode(), alternate=True)

    assert refusal is not None
    assert refusal.rule == "alternation"


@pytest.mark.parametrize(("wire", "payload"), BODIES)
def test_tokens_grow_with_content(wire: str, payload: object) -> None:
    body = json.dumps(payload).encode()
    longer = body.replace(b"hi", b"h" + b"i" * 400, 1)

    assert count_body(wire, longer) == count_body(wire, body) + 100
