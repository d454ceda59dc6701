from dataclasses import replace

import pytest

from deuz_proxy.demo.provider.cache import (
    LONG_TTL_SECONDS,
    SHORT_TTL_SECONDS,
    BreakpointCache,
    CacheUse,
    PrefixCache,
)
from deuz_proxy.demo.provider.tokens import Block, render_text


def block(name: str, ttl_seconds: int | None = None, tokens: int = 10) -> Block:
    return Block(render_text(name.ljust(tokens * 4, ".")), ttl_seconds)


def marked(name: str, ttl_seconds: int = SHORT_TTL_SECONDS) -> Block:
    return block(name, ttl_seconds)


def use_breakpoints(
    cache: BreakpointCache, *blocks: Block, now: float = 0.0, scope: bytes = b"me"
) -> CacheUse:
    use = cache.look_up(scope, blocks, now)
    use.commit()
    return use


def read_write(use: CacheUse) -> tuple[int, int]:
    return use.read, use.write_short + use.write_long


@pytest.fixture
def breakpoints() -> BreakpointCache:
    return BreakpointCache(minimum_tokens=20)


def test_a_write_happens_only_at_a_marker(breakpoints: BreakpointCache) -> None:
    unmarked = use_breakpoints(breakpoints, block("a"), block("b"), block("c"))
    again = use_breakpoints(breakpoints, block("a"), block("b"), marked("c"))

    assert read_write(unmarked) == (0, 0)
    assert read_write(again) == (0, 30)


def test_a_moved_marker_reads_the_earlier_write(breakpoints: BreakpointCache) -> None:
    use_breakpoints(breakpoints, block("a"), marked("b"))

    use = use_breakpoints(breakpoints, block("a"), block("b"), marked("c"))

    assert read_write(use) == (20, 10)


def test_a_changed_block_spoils_everything_behind_it(
    breakpoints: BreakpointCache,
) -> None:
    use_breakpoints(breakpoints, block("a"), marked("b"), marked("c"))

    use = use_breakpoints(breakpoints, block("a"), marked("b"), marked("x"))

    assert read_write(use) == (20, 10)


@pytest.mark.parametrize(("appended", "read"), [(19, 20), (20, 0)])
def test_a_marker_looks_back_twenty_places_counting_its_own(
    breakpoints: BreakpointCache, appended: int, read: int
) -> None:
    use_breakpoints(breakpoints, block("a"), marked("b"))
    tail = [block(f"t{n}") for n in range(appended)]
    tail[-1] = replace(tail[-1], ttl_seconds=SHORT_TTL_SECONDS)

    use = use_breakpoints(breakpoints, block("a"), block("b"), *tail)

    assert use.read == read


def test_a_prefix_below_the_minimum_is_not_cached(
    breakpoints: BreakpointCache,
) -> None:
    first = use_breakpoints(breakpoints, marked("a"))
    second = use_breakpoints(breakpoints, marked("a"))

    assert read_write(first) == read_write(second) == (0, 0)


def test_lifetimes_are_billed_apart(breakpoints: BreakpointCache) -> None:
    use = use_breakpoints(
        breakpoints, block("a"), marked("b", LONG_TTL_SECONDS), marked("c")
    )

    assert (use.write_long, use.write_short) == (20, 10)


def test_an_entry_lives_from_the_start_of_its_last_use(
    breakpoints: BreakpointCache,
) -> None:
    prompt = (block("a"), marked("b"))
    use_breakpoints(breakpoints, *prompt, now=0.0)

    kept = use_breakpoints(breakpoints, *prompt, now=SHORT_TTL_SECONDS - 1.0)
    refreshed = use_breakpoints(breakpoints, *prompt, now=2 * SHORT_TTL_SECONDS - 2.0)
    lost = use_breakpoints(breakpoints, *prompt, now=3 * SHORT_TTL_SECONDS)

    assert [use.read for use in (kept, refreshed, lost)] == [20, 20, 0]


def test_nothing_is_shared_between_scopes(breakpoints: BreakpointCache) -> None:
    use_breakpoints(breakpoints, block("a"), marked("b"), scope=b"me")

    use = use_breakpoints(breakpoints, block("a"), marked("b"), scope=b"you")

    assert use.read == 0


def test_an_entry_is_readable_only_after_the_answer_began(
    breakpoints: BreakpointCache,
) -> None:
    prompt = (block("a"), marked("b"))
    breakpoints.look_up(b"me", prompt, 0.0)

    parallel = breakpoints.look_up(b"me", prompt, 0.0)

    assert parallel.read == 0


def test_a_salt_spoils_the_cache_without_being_counted(
    breakpoints: BreakpointCache,
) -> None:
    use_breakpoints(breakpoints, block("a"), marked("b"))

    salted = replace(marked("b"), salt=b"tool_choice")
    use = use_breakpoints(breakpoints, block("a"), salted)

    assert read_write(use) == (0, 20)


def prefix_read(cache: PrefixCache, text: str, now: float = 0.0) -> int:
    use = cache.look_up(b"me", (Block(render_text(text)),), now)
    use.commit()
    return use.read


def test_automatic_caching_reads_the_common_prefix_in_whole_steps() -> None:
    cache = PrefixCache(minimum_tokens=16, step_tokens=8)
    common = "x" * 4 * 30
    prefix_read(cache, common + "a" * 40)

    assert prefix_read(cache, common + "b" * 40) == 24


def test_a_common_prefix_below_the_minimum_is_not_read() -> None:
    cache = PrefixCache(minimum_tokens=16, step_tokens=8)
    prefix_read(cache, "x" * 32 + "a" * 64)

    assert prefix_read(cache, "x" * 32 + "b" * 64) == 0


def test_the_same_prompt_leaves_at_least_one_token_to_compute() -> None:
    cache = PrefixCache(minimum_tokens=8, step_tokens=8)
    prefix_read(cache, "x" * 4 * 16)

    assert prefix_read(cache, "x" * 4 * 16) == 8


def test_block_borders_do_not_matter_to_an_automatic_cache() -> None:
    cache = PrefixCache(minimum_tokens=8, step_tokens=8)
    prefix_read(cache, "x" * 4 * 17)
    parts = (Block(render_text("x" * 8)), Block(render_text("x" * 60)))

    assert cache.look_up(b"me", parts, 0.0).read == 16


def test_an_idle_prefix_is_forgotten() -> None:
    cache = PrefixCache(minimum_tokens=8, step_tokens=8)
    prefix_read(cache, "x" * 100, now=0.0)

    assert prefix_read(cache, "x" * 100, now=601.0) == 0
