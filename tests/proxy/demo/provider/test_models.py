from typing import Any

import pytest

from deuz_proxy.demo.provider.exchange import ANTHROPIC, CHAT, GEMINI, Refusal
from deuz_proxy.demo.provider.models import NAMES, spell_models
from deuz_proxy.demo.provider.routing import Route


def told(wire: str, model: str = "") -> dict[str, Any]:
    answer = spell_models(Route(wire, "models", model), 4_000)
    assert not isinstance(answer, Refusal)
    return answer


@pytest.mark.parametrize(
    ("wire", "member"), [(ANTHROPIC, "data"), (CHAT, "data"), (GEMINI, "models")]
)
def test_every_wire_lists_all_models(wire: str, member: str) -> None:
    assert len(told(wire)[member]) == len(NAMES)


def test_openai_tells_no_window_and_the_others_do() -> None:
    assert told(ANTHROPIC, "fake")["max_input_tokens"] == 4_000
    assert told(GEMINI, "fake")["inputTokenLimit"] == 4_000
    assert 4_000 not in told(CHAT, "fake").values()


def test_a_name_that_is_not_listed_is_not_found() -> None:
    answer = spell_models(Route(CHAT, "models", "gpt-0"), 4_000)

    assert isinstance(answer, Refusal)
    assert answer.status == 404
