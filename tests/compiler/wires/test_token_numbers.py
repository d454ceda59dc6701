"""What a number in an error text is, by its neighbours."""

import pytest

from deuz_compiler.wires.token_numbers import MAX_NUMBERS, TokenNumbers, read_numbers


def numbers(
    limit: int | None = None,
    requested: int | None = None,
    *,
    excess: int | None = None,
    parts: tuple[int | None, int | None] = (None, None),
) -> TokenNumbers:
    return TokenNumbers(
        limit=limit,
        requested=requested,
        excess=excess,
        input=parts[0],
        output=parts[1],
    )


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("prompt is too long: 210 tokens > 200 maximum", numbers(200, 210)),
        ("too long: 210, model maximum context length: 200", numbers(200, 210)),
        ("length is longer than the maximum (210 > 200)", numbers(200, 210)),
        ("n_keep (210) >= n_ctx (200)", numbers(200, 210)),
        ("current length is 210 while limit is 200", numbers(200, 210)),
        ("maximum is 200 but the request contains 210 tokens", numbers(200, 210)),
        ("for model with 200 maximum context length", numbers(200)),
        ("a 128k-token context window", numbers(128_000)),
        ("window of 1m tokens", numbers(1_000_000)),
        ("range should be [1, 9000]", numbers(9000)),
        (
            "prompt exceed context limit: 180 + 40 > 200",
            numbers(200, 220, parts=(180, 40)),
        ),
        (
            "maximum context length is 200 tokens. you requested 220 tokens"
            " (180 in the messages, 40 in the completion)",
            numbers(200, 220, parts=(180, 40)),
        ),
        (
            "maximum context length is 200 tokens. you requested about 220 tokens (150"
            " of text input, 30 of tool input, 40 in the output)",
            numbers(200, 220, parts=(180, 40)),
        ),
        (
            "max_tokens is too large: 40. this models maximum context length is 200"
            " tokens and your request has 180 input tokens (40 > 200 - 180)",
            numbers(200, 220, parts=(180, 40)),
        ),
        (
            "the number of input and maximum output tokens (220) exceeded this model"
            " context window limit (200)",
            numbers(200, 220),
        ),
        (
            "size limit exceeded by 20 tokens. the limit for this model is 200 tokens",
            numbers(200, 220, excess=20),
        ),
        ("exceeded max context length by 20 tokens", numbers(excess=20)),
        ("you sent 20 tokens too many", numbers(excess=20)),
        ("max_tokens: 40 is not valid", numbers(parts=(None, 40))),
    ],
)
def test_numbers_have_the_roles_their_neighbours_give(
    text: str, expected: TokenNumbers
) -> None:
    assert read_numbers(text) == expected


@pytest.mark.parametrize(
    "text",
    [
        "context window exceeds limit (2013)",
        "<400> range of input",
        "error code: 5021",
        "http 413",
        "prompt contains 31800 characters",
        "image exceeds 5242880 bytes",
        "a prompt for gpt-4.1 of 2026-08-21",
        "llama-3.1-8b has 0.5 of it",
        "wait 12 seconds",
    ],
)
def test_other_numbers_are_not_tokens(text: str) -> None:
    assert read_numbers(text) == TokenNumbers()


def test_small_bracketed_limit_counts_where_tokens_are_spoken_of() -> None:
    assert read_numbers("number of tokens allowed (4000)").limit == 4000


def test_only_the_first_numbers_are_looked_at() -> None:
    text = "total 1, " * MAX_NUMBERS + "limit is 200 tokens"

    assert read_numbers(text).limit is None
