from typing import Any

import pytest

from deuz_proxy.demo.provider.exchange import (
    OLLAMA_CHAT,
    OLLAMA_GENERATE,
    ProviderRequest,
    Refusal,
)
from deuz_proxy.demo.provider.rules_ollama import check_ollama

ASKED = {"role": "user", "content": "hi"}
ANSWERED = {"role": "assistant", "content": "hello"}


def judge(
    wire: str = OLLAMA_CHAT,
    *,
    model: str = "m",
    alternate: bool = False,
    **members: Any,
) -> Refusal | None:
    request = ProviderRequest(wire, model, True, members, b"")
    return check_ollama(request, alternate=alternate)


@pytest.mark.parametrize(
    "messages",
    [
        [ASKED],
        [{"role": "system", "content": "s"}, ASKED, ANSWERED, ASKED],
        [ASKED, ASKED],
        [ASKED, {"role": "tool", "tool_name": "f", "content": "r"}],
        [{"role": "user", "content": "see", "images": ["aGk="]}],
        [{"role": "assistant", "tool_calls": []}],
    ],
)
def test_it_is_not_strict(messages: list[Any]) -> None:
    assert judge(messages=messages) is None


@pytest.mark.parametrize(
    ("members", "rule"),
    [
        ({"messages": []}, "empty_messages"),
        ({}, "empty_messages"),
        ({"messages": "hi"}, "parameter_type"),
        ({"messages": [1]}, "parameter_type"),
        (
            {"messages": [{"role": "user", "content": [{"text": "a"}]}]},
            "parameter_type",
        ),
        ({"messages": [{"role": "boss", "content": "a"}]}, "unknown_role"),
        ({"messages": [{**ASKED, "images": "aGk="}]}, "parameter_type"),
        ({"messages": [{**ASKED, "images": [1]}]}, "media"),
        ({"messages": [ASKED], "model": ""}, "missing_model"),
    ],
)
def test_what_does_not_fit_its_types_is_refused(
    members: dict[str, Any], rule: str
) -> None:
    refusal = judge(model=members.pop("model", "m"), **members)

    assert refusal is not None
    assert refusal.rule == rule


def test_a_template_may_demand_alternation() -> None:
    assert judge(alternate=True, messages=[ASKED, ANSWERED, ASKED]) is None
    refusal = judge(alternate=True, messages=[ASKED, ASKED])

    assert refusal is not None
    assert (refusal.rule, refusal.status) == ("alternation", 500)


@pytest.mark.parametrize(
    ("prompt", "rule"),
    [("hi", None), ("", "empty_messages"), (["hi"], "parameter_type")],
)
def test_a_prompt_is_one_text(prompt: Any, rule: str | None) -> None:
    refusal = judge(OLLAMA_GENERATE, prompt=prompt)

    assert (refusal.rule if refusal else None) == rule
