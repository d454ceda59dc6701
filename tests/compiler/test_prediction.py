from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deuz_compiler import (
    Append,
    Prefix,
    Surface,
    Usage,
    lift,
    plain_prefix,
    predict_read,
    project,
    with_surface,
)
from deuz_testing.bodies import anthropic_body, assistant, user

LONG = "word " * 400
TURNS = [user(LONG), assistant(LONG), user(LONG), assistant(LONG), user("And?")]
BLOCK = Append(b"block " * 40, (), 60)


def tried(at: Sequence[int], turns: list[Any]) -> tuple[Prefix, Prefix, Surface]:
    """Return what is sent, what would be with blocks behind these turns, and these."""
    envelope = lift("anthropic", anthropic_body(turns, system="S " * 50))
    plain = plain_prefix(envelope)
    surface = project(envelope, dict.fromkeys(at, (BLOCK,)), lambda *_: (0, 0))
    return plain, with_surface(plain, envelope, surface), surface


def read(
    at: Sequence[int], usage: Usage | None, *, broken_at: int | None = None
) -> int | None:
    plain, with_blocks, surface = tried(at, TURNS)
    return predict_read(
        plain, with_blocks, ours=surface.ours(0), usage=usage, broken_at=broken_at
    )


def usage_of(turns: int, scale: float = 1.0) -> Usage:
    """Usage of a provider that read so many turns, by its own count of tokens."""
    plain, *_ = tried((), TURNS)
    found = plain.head_tokens + plain.tokens_between(0, turns)
    total = round(plain.total_tokens * scale)
    return Usage(
        input_uncached=total - round(found * scale), cache_read=round(found * scale)
    )


@pytest.mark.parametrize("usage", [None, Usage(input_uncached=9), Usage(output=1)])
def test_without_a_word_of_the_provider_nothing_is_claimed(usage: Usage | None) -> None:
    assert read([0], usage) is None


def test_where_nothing_was_read_nothing_would_be() -> None:
    assert read([0], Usage(input_uncached=2_000, cache_read=0)) == 0


@pytest.mark.parametrize(("turns", "blocks"), [(1, 0), (2, 1), (3, 1), (4, 2), (5, 2)])
def test_a_block_is_read_once_the_turn_behind_it_is(turns: int, blocks: int) -> None:
    usage = usage_of(turns)

    predicted = read([0, 2, 4], usage)

    assert usage.cache_read is not None
    assert predicted == usage.cache_read + blocks * BLOCK.tokens


def test_blocks_count_on_the_providers_scale() -> None:
    usage = usage_of(4, scale=1.5)

    predicted = read([0, 2], usage)

    assert usage.cache_read is not None
    assert predicted == usage.cache_read + round(2 * BLOCK.tokens * 1.5)


def test_nothing_is_read_behind_a_break_of_ours() -> None:
    plain, with_blocks, _ = tried([0, 2], TURNS)

    # Elements: turn 0, the block that changed, …
    predicted = read([0, 2], usage_of(4), broken_at=1)

    ahead = plain.head_tokens + plain.tokens_between(0, 1)
    assert with_blocks.total_tokens == plain.total_tokens + 2 * BLOCK.tokens
    assert predicted == ahead


@given(
    at=st.sets(st.integers(0, 4)),
    uncached=st.integers(0, 9_000),
    cached=st.integers(0, 9_000),
)
def test_predicted_is_what_was_read_and_at_most_all_blocks_more(
    at: set[int], uncached: int, cached: int
) -> None:
    usage = Usage(input_uncached=uncached, cache_read=cached)
    plain, *_ = tried((), TURNS)
    most = len(at) * BLOCK.tokens * (uncached + cached) / plain.total_tokens

    predicted = read(sorted(at), usage)

    assert predicted is not None
    assert cached <= predicted <= cached + most + 1
