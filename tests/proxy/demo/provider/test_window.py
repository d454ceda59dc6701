import pytest

from deuz_proxy.demo.provider.exchange import (
    ANTHROPIC,
    CHAT,
    GEMINI,
    RESPONSES,
    ProviderRequest,
)
from deuz_proxy.demo.provider.window import OVERFLOW, check_window


def asked(wire: str, model: str = "fake") -> ProviderRequest:
    return ProviderRequest(wire, model, False, {}, b"")


@pytest.mark.parametrize(
    ("wire", "message", "code"),
    [
        (ANTHROPIC, "prompt is too long: 101 tokens > 100 maximum", None),
        (
            CHAT,
            "This model's maximum context length is 100 tokens. However, your messages "
            "resulted in 101 tokens. Please reduce the length of the messages.",
            "context_length_exceeded",
        ),
        (
            RESPONSES,
            "Your input exceeds the context window of this model. Please adjust your "
            "input and try again.",
            "context_length_exceeded",
        ),
        (
            GEMINI,
            "The input token count (101) exceeds the maximum number of tokens allowed "
            "(100).",
            None,
        ),
    ],
)
def test_a_prompt_one_token_too_long_is_refused_in_the_wires_words(
    wire: str, message: str, code: str | None
) -> None:
    refusal = check_window(asked(wire), tokens=101, output=None, limit=100)

    assert refusal is not None
    assert (refusal.rule, refusal.message, refusal.code) == (OVERFLOW, message, code)
    assert check_window(asked(wire), tokens=100, output=None, limit=100) is None


def test_an_older_model_reserves_the_requested_output() -> None:
    old = asked(ANTHROPIC, "claude-3-5-haiku-20241022")

    refusal = check_window(old, tokens=90, output=20, limit=100)

    assert refusal is not None
    assert refusal.message == (
        "input length and `max_tokens` exceed context limit: 90 + 20 > 100, decrease "
        "input length or `max_tokens` and try again"
    )


def test_a_newer_model_takes_more_output_than_fits() -> None:
    new = asked(ANTHROPIC, "claude-sonnet-4-5")

    assert check_window(new, tokens=90, output=20, limit=100) is None


def test_chat_counts_the_completion_that_was_asked_for() -> None:
    refusal = check_window(asked(CHAT), tokens=90, output=20, limit=100)

    assert refusal is not None
    assert "requested 110 tokens (90 in the messages, 20 in the" in refusal.message
    assert check_window(asked(RESPONSES), tokens=90, output=20, limit=100) is None
