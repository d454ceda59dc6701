"""Usage objects of many servers, brought into one disjoint convention."""

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from deuz_compiler.wires.usage import MAX_COUNT, Usage, merge_counts, read_usage


def usage_of(*reports: object) -> Usage | None:
    counts: dict[str, object] = {}
    for report in reports:
        counts = merge_counts(counts, report)
    return read_usage(counts)


def counts(
    uncached: int | None = None,
    read: int | None = None,
    write: int | None = None,
    output: int | None = None,
    reasoning: int | None = None,
) -> Usage:
    return Usage(
        input_uncached=uncached,
        cache_read=read,
        cache_write=write,
        output=output,
        reasoning=reasoning,
    )


SHAPES: dict[str, tuple[dict[str, Any], Usage]] = {
    "anthropic excludes the cache": (
        {
            "input_tokens": 5,
            "cache_read_input_tokens": 128_955,
            "cache_creation_input_tokens": 1_253,
            "output_tokens": 9,
            "output_tokens_details": {"thinking_tokens": 4},
        },
        counts(5, 128_955, 1_253, 9, 4),
    ),
    "anthropic without cache fields": (
        {"input_tokens": 7, "output_tokens": 3},
        counts(7, None, None, 3),
    ),
    "chat includes the cache": (
        {
            "prompt_tokens": 10_000,
            "completion_tokens": 20,
            "prompt_tokens_details": {"cached_tokens": 9_800},
            "completion_tokens_details": {"reasoning_tokens": 8},
        },
        counts(200, 9_800, None, 20, 8),
    ),
    "responses include reads and writes": (
        {
            "input_tokens": 10_000,
            "input_tokens_details": {
                "cached_tokens": 6_000,
                "cache_write_tokens": 1_000,
            },
            "output_tokens": 20,
            "output_tokens_details": {"reasoning_tokens": 5},
            "total_tokens": 10_020,
        },
        counts(3_000, 6_000, 1_000, 20, 5),
    ),
    "openrouter tells writes": (
        {
            "prompt_tokens": 100,
            "completion_tokens": 1,
            "prompt_tokens_details": {"cached_tokens": 60, "cache_write_tokens": 30},
            "cost": 0.01,
        },
        counts(10, 60, 30, 1),
    ),
    "dashscope calls writes creation": (
        {
            "prompt_tokens": 100,
            "completion_tokens": 1,
            "prompt_tokens_details": {
                "cached_tokens": 60,
                "cache_creation_input_tokens": 30,
            },
        },
        counts(10, 60, 30, 1),
    ),
    "litellm adds fields of anthropic beside": (
        {
            "prompt_tokens": 100,
            "completion_tokens": 1,
            "cache_read_input_tokens": 60,
            "cache_creation_input_tokens": 30,
        },
        counts(10, 60, 30, 1),
    ),
    "deepseek tells hits and misses": (
        {
            "prompt_tokens": 100,
            "completion_tokens": 1,
            "prompt_cache_hit_tokens": 64,
            "prompt_cache_miss_tokens": 36,
        },
        counts(36, 64, None, 1),
    ),
    "kimi has cached tokens on top": (
        {"prompt_tokens": 100, "completion_tokens": 1, "cached_tokens": 64},
        counts(36, 64, None, 1),
    ),
    "sglang has reasoning on top": (
        {"prompt_tokens": 100, "completion_tokens": 9, "reasoning_tokens": 4},
        counts(100, None, None, 9, 4),
    ),
    "xai leaves reasoning out of the output": (
        {
            "prompt_tokens": 100,
            "completion_tokens": 50,
            "total_tokens": 180,
            "completion_tokens_details": {"reasoning_tokens": 30},
        },
        counts(100, None, None, 80, 30),
    ),
    "more reasoning than output cannot be inside": (
        {
            "prompt_tokens": 100,
            "completion_tokens": 5,
            "completion_tokens_details": {"reasoning_tokens": 30},
        },
        counts(100, None, None, 35, 30),
    ),
    "llama.cpp timings alone": (
        {"timings": {"prompt_n": 40, "cache_n": 60, "predicted_n": 7}},
        counts(40, 60, None, 7),
    ),
    "llama.cpp timings beside an inclusive usage": (
        {
            "prompt_tokens": 100,
            "completion_tokens": 7,
            "timings": {"prompt_n": 40, "cache_n": 60, "predicted_n": 7},
        },
        counts(40, 60, None, 7),
    ),
    "gemini counts thoughts apart": (
        {
            "promptTokenCount": 100,
            "cachedContentTokenCount": 80,
            "candidatesTokenCount": 5,
            "thoughtsTokenCount": 20,
        },
        counts(20, 80, None, 25, 20),
    ),
    "bedrock converse excludes the cache": (
        {
            "inputTokens": 5,
            "cacheReadInputTokens": 90,
            "cacheWriteInputTokens": 10,
            "outputTokens": 2,
        },
        counts(5, 90, 10, 2),
    ),
    "ollama": ({"prompt_eval_count": 26, "eval_count": 5}, counts(26, None, None, 5)),
}


@pytest.mark.parametrize("name", SHAPES)
def test_usage_is_normalised_by_its_own_shape(name: str) -> None:
    report, expected = SHAPES[name]

    assert usage_of(report) == expected


def test_total_input_is_not_counted_twice() -> None:
    totals = [
        usage.input_total
        for name in ("anthropic excludes the cache", "chat includes the cache")
        if (usage := usage_of(SHAPES[name][0]))
    ]

    assert totals == [130_213, 10_000]


def test_cumulative_values_replace_and_never_add() -> None:
    usage = usage_of(
        {"input_tokens": 20, "output_tokens": 1},
        {"output_tokens": 5},
        {"output_tokens": 9},
        {"output_tokens": 15},
    )

    assert usage == counts(20, None, None, 15)


def test_later_report_corrects_input_and_null_does_not_reset_it() -> None:
    usage = usage_of(
        {"input_tokens": 20, "cache_read_input_tokens": 7, "output_tokens": 1},
        {"input_tokens": 480, "cache_read_input_tokens": 100, "output_tokens": 30},
        {"input_tokens": None, "cache_read_input_tokens": None},
    )

    assert usage == counts(480, 100, None, 30)


@pytest.mark.parametrize("report", [None, {}, {"usage": None}, [], "usage", 7])
def test_nothing_reported_stays_nothing(report: object) -> None:
    assert usage_of(report) is None


def test_reported_zero_is_a_zero() -> None:
    usage = usage_of({"prompt_tokens": 0, "completion_tokens": 0})

    assert usage == counts(0, None, None, 0)


@pytest.mark.parametrize(
    ("report", "total"),
    [
        ({"input_tokens": -50, "output_tokens": 4}, 0),
        ({"input_tokens": 10**30, "output_tokens": 4}, None),
        ({"input_tokens": MAX_COUNT + 1, "output_tokens": 4}, None),
        ({"input_tokens": "70", "output_tokens": 4}, 70),
        ({"input_tokens": 70.0, "output_tokens": 4}, 70),
        ({"input_tokens": True, "output_tokens": 4}, None),
        ({"input_tokens": "many", "output_tokens": 4}, None),
        ({"input_tokens": 1e300, "output_tokens": 4}, None),
        ({"input_tokens": 10**30}, None),
        ({"prompt_tokens": 10, "prompt_tokens_details": {"cached_tokens": 90}}, 10),
    ],
)
def test_odd_counts_are_clamped_or_left_out_and_marked(
    report: dict[str, object], total: int | None
) -> None:
    usage = usage_of(report)

    assert usage is not None
    assert usage.is_anomalous
    assert usage.input_total == total


JSON_VALUES: st.SearchStrategy[object] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=15),
    lambda inner: (
        st.dictionaries(st.text(max_size=8), inner, max_size=4)
        | st.lists(inner, max_size=3)
    ),
    max_leaves=6,
)
NAMES = st.sampled_from(
    [
        "prompt_tokens",
        "completion_tokens",
        "input_tokens",
        "output_tokens",
        "timings",
        "prompt_tokens_details",
        "cached_tokens",
        "cache_read_input_tokens",
    ]
)


@given(st.lists(st.dictionaries(NAMES, JSON_VALUES), max_size=4))
def test_whatever_is_reported_the_counts_are_disjoint_and_not_negative(
    reports: list[dict[str, object]],
) -> None:
    usage = usage_of(*reports)

    parts = [] if usage is None else msgspec.structs.astuple(usage)[:5]
    assert all(part is None or 0 <= part <= 2 * MAX_COUNT for part in parts)


def test_names_that_no_server_uses_are_not_kept() -> None:
    unknown = {f"field{number}": number for number in range(1000)}
    report = {**unknown, "prompt_tokens_details": {"cached_tokens": 3, **unknown}}

    merged = merge_counts({}, report)

    assert merged == {
        "prompt_tokens_details": True,
        "prompt_tokens_details.cached_tokens": 3,
    }


def test_object_in_place_of_a_count_inside_an_object_is_no_count() -> None:
    report = {"prompt_tokens": 9, "prompt_tokens_details": {"cached_tokens": {}}}

    usage = usage_of(report)

    assert usage is not None
    assert (usage.cache_read, usage.is_anomalous) == (None, True)
