from hypothesis import given
from hypothesis import strategies as st

from deuz_proxy.demo.provider.tokens import (
    MEDIA_TOKENS,
    Block,
    clip_text,
    count_text,
    render_media,
    render_text,
)


def test_four_bytes_are_one_token_and_a_rest_counts_whole() -> None:
    assert [count_text(text) for text in ("", "a", "abcd", "abcde", "éé€")] == [
        0,
        1,
        1,
        2,
        2,
    ]


def test_a_lone_surrogate_is_counted_not_refused() -> None:
    assert count_text("\ud800") == 1


def test_media_cost_the_same_whatever_their_size_but_differ_by_content() -> None:
    small, large = render_media("a"), render_media("a" * 100_000)

    assert Block(small).tokens == Block(large).tokens == MEDIA_TOKENS
    assert small != large


@given(st.text())
def test_a_block_is_always_whole_tokens(text: str) -> None:
    assert len(render_text(text)) == 4 * count_text(text)


@given(st.text(), st.integers(-2, 10))
def test_a_clipped_text_is_a_beginning_that_fits(text: str, tokens: int) -> None:
    clipped = clip_text(text, tokens)

    assert text.startswith(clipped)
    assert count_text(clipped) <= max(tokens, 0)
