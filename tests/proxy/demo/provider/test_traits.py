import pytest

from deuz_proxy.demo.provider.traits import (
    behaviours,
    refuses_prefill,
    reserves_output,
    takes_system_turns,
)


@pytest.mark.parametrize(
    ("model", "prefill_refused", "system_turns", "output_reserved"),
    [
        ("claude-3-5-haiku-20241022", False, False, True),
        ("claude-sonnet-4-20250514", False, False, True),
        ("claude-opus-4-1", False, False, True),
        ("claude-haiku-4-5", False, False, False),
        ("claude-sonnet-4-6", True, False, False),
        ("claude-opus-4-6", True, False, False),
        ("claude-opus-4-8", True, True, False),
        ("claude-sonnet-5", True, False, False),
        ("claude-opus-5-5", True, True, False),
        ("claude-fable-5", True, True, False),
        ("fake-tools", True, True, False),
    ],
)
def test_a_name_tells_what_the_model_takes(
    model: str, prefill_refused: bool, system_turns: bool, output_reserved: bool
) -> None:
    assert refuses_prefill(model) is prefill_refused
    assert takes_system_turns(model) is system_turns
    assert reserves_output(model) is output_reserved


def test_words_of_a_fake_model_carry_their_numbers() -> None:
    assert behaviours("fake-thinking-tools-3") == {"thinking": 0, "tools": 3}
    assert behaviours("fake-error-529") == {"error": 529}


def test_a_real_name_has_no_behaviours() -> None:
    assert behaviours("gpt-tools") == {}
