"""The short way through a chat completion's usage tells what the general one tells."""

import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from deuz_compiler.wires.chat_usage import (
    ChatReport,
    Reports,
    decode_report,
    merge_reports,
    read_reports,
)
from deuz_compiler.wires.usage import MAX_COUNT, Usage, merge_counts, read_usage

COUNTS = st.integers(0, 300)
NUMBERS: list[object] = [-1, 1.5, 2.0, 1e300, MAX_COUNT, MAX_COUNT + 1, 10**30]
OTHERS: list[object] = [
    None,
    True,
    "7",
    "-7",
    "many",
    "",
    [3],
    {},
    {"cached_tokens": 3},
]
ODD: st.SearchStrategy[object] = st.sampled_from([*NUMBERS, *OTHERS])
VALUES = st.one_of(COUNTS, COUNTS, COUNTS, COUNTS, COUNTS, ODD)
INSIDE = st.dictionaries(
    st.sampled_from(
        [
            "cached_tokens",
            "cache_write_tokens",
            "cache_creation_input_tokens",
            "cache_creation_tokens",
            "reasoning_tokens",
            "audio_tokens",
            "cache_n",
            "prompt_n",
        ]
    ),
    VALUES,
    max_size=4,
)
REPORTS: st.SearchStrategy[object] = st.fixed_dictionaries(
    {},
    optional={
        "prompt_tokens": VALUES,
        "completion_tokens": VALUES,
        "total_tokens": VALUES,
        "prompt_tokens_details": st.one_of(INSIDE, INSIDE, INSIDE, ODD),
        "completion_tokens_details": st.one_of(INSIDE, INSIDE, INSIDE, ODD),
        "prompt_cache_hit_tokens": VALUES,
        "cached_tokens": VALUES,
        "cache_read_input_tokens": VALUES,
        "cache_creation_input_tokens": VALUES,
        "reasoning_tokens": VALUES,
        "input_tokens": VALUES,
        "promptTokenCount": VALUES,
        "timings": st.one_of(INSIDE, ODD),
        "prompt_tokens_details.cached_tokens": VALUES,
        "cost": ODD,
    },
)


def short_way(reports: list[object]) -> Usage | None:
    merged: Reports = {}
    for report in reports:
        raw = msgspec.Raw(msgspec.json.encode(report))
        merged = merge_reports(merged, decode_report(raw))
    return read_reports(merged)


def general_way(reports: list[object]) -> Usage | None:
    merged: dict[str, object] = {}
    for report in reports:
        merged = merge_counts(merged, report)
    return read_usage(merged)


@given(st.lists(REPORTS | ODD, max_size=3))
@example([{"prompt_tokens": 4, "prompt_tokens_details": {"cached_tokens": 9}}])
@example([{"completion_tokens": 4, "reasoning_tokens": 9}])
@example([{"prompt_tokens": 9}, {"completion_tokens": 4}])
@example([{"timings": {"cache_n": 2}}, {"prompt_tokens": 9}])
def test_both_ways_tell_the_same(reports: list[object]) -> None:
    assert short_way(reports) == general_way(reports)


@given(REPORTS, st.data())
def test_name_that_comes_twice_counts_as_it_does_in_a_dict(
    report: dict[str, object], data: st.DataObject
) -> None:
    other = data.draw(REPORTS)
    both = msgspec.json.encode(report)[:-1] + b"," + msgspec.json.encode(other)[1:]
    raw = both.replace(b"{,", b"{", 1).replace(b",}", b"}")

    merged = merge_reports({}, decode_report(msgspec.Raw(raw)))

    assert read_reports(merged) == general_way([msgspec.json.decode(raw)])


@pytest.mark.parametrize(
    ("report", "is_short"),
    [
        ({"prompt_tokens": 3}, True),
        ({"completion_tokens": 0, "prompt_tokens": None, "cost": 0.1}, True),
        ({"prompt_tokens": 3, "prompt_tokens_details": None}, True),
        ({"prompt_tokens": MAX_COUNT}, True),
        ({"prompt_tokens": MAX_COUNT + 1}, False),
        ({"prompt_tokens": -1}, False),
        ({"prompt_tokens": 3.0}, False),
        ({"prompt_tokens": 3, "timings": {"cache_n": 1}}, False),
        ({"input_tokens": 3, "output_tokens": 1}, False),
        ([3], False),
    ],
)
def test_only_usual_reports_go_the_short_way(report: object, is_short: bool) -> None:
    found = decode_report(msgspec.Raw(msgspec.json.encode(report)))

    assert isinstance(found, ChatReport) is is_short
    assert is_short or found == report


def test_what_is_no_json_is_said() -> None:
    with pytest.raises(msgspec.DecodeError):
        decode_report(msgspec.Raw(b'{"prompt_tokens":"\xff"}'))
