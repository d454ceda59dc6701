import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deuz_proxy.observe.trace import (
    Parent,
    format_traceparent,
    make_trace,
    nonzero_id,
    parse_traceparent,
    sampler_named,
)

TRACE_ID = "0af7651916cd43dd8448eb211c80319c"
SPAN_ID = "b7ad6b7169203331"
HEADER = f"00-{TRACE_ID}-{SPAN_ID}-01"
FOLLOW = sampler_named("parentbased_always_on")
new_id = random.Random(7).getrandbits


def test_valid_header_names_the_caller_s_span() -> None:
    assert parse_traceparent(HEADER) == Parent(
        int(TRACE_ID, 16), int(SPAN_ID, 16), True
    )


def test_later_version_may_bring_more_fields() -> None:
    assert parse_traceparent(f"01-{TRACE_ID}-{SPAN_ID}-00-new") is not None


@pytest.mark.parametrize(
    "value",
    [
        "",
        "garbage",
        HEADER + "-more",
        HEADER.upper(),
        HEADER[:-1],
        f"ff-{TRACE_ID}-{SPAN_ID}-01",
        f"00-{'0' * 32}-{SPAN_ID}-01",
        f"00-{TRACE_ID}-{'0' * 16}-01",
        f"00-{TRACE_ID}-{SPAN_ID}-0g",
        f"00-{TRACE_ID}-{SPAN_ID}-01\n",
        f"{HEADER},{HEADER}",
    ],
)
def test_malformed_header_is_ignored(value: str) -> None:
    assert parse_traceparent(value) is None


@given(value=st.text())
def test_no_header_makes_the_parser_raise(value: str) -> None:
    parse_traceparent(value)


def test_trace_continues_the_caller_s() -> None:
    trace = make_trace(HEADER, new_id, FOLLOW)

    assert f"{trace.trace_id:032x}" == TRACE_ID
    assert f"{trace.parent_span_id:016x}" == SPAN_ID
    assert trace.server_span_id != trace.client_span_id


def test_malformed_header_starts_a_trace_of_its_own() -> None:
    trace = make_trace("garbage", new_id, FOLLOW)

    assert trace.parent_span_id == 0
    assert trace.trace_id


def test_unsampled_caller_is_followed() -> None:
    assert not make_trace(f"00-{TRACE_ID}-{SPAN_ID}-00", new_id, FOLLOW).is_sampled


def test_upstream_is_told_the_same_trace_with_our_client_span_as_parent() -> None:
    trace = make_trace(HEADER, new_id, FOLLOW)

    told = parse_traceparent(format_traceparent(trace))

    assert told == Parent(trace.trace_id, trace.client_span_id, True)


def test_unsampled_trace_is_told_as_unsampled() -> None:
    trace = make_trace(f"00-{TRACE_ID}-{SPAN_ID}-00", new_id, FOLLOW)

    assert format_traceparent(trace).endswith("-00")


def test_zero_is_never_an_id() -> None:
    made = iter([0, 0, 5])

    assert nonzero_id(lambda _bits: next(made), 64) == 5


@pytest.mark.parametrize(
    ("name", "argument", "of_root", "of_unsampled_child"),
    [
        ("always_on", "", True, True),
        ("always_off", "", False, False),
        ("traceidratio", "0", False, False),
        ("traceidratio", "1", True, True),
        ("traceidratio", "nonsense", True, True),
        ("parentbased_always_on", "", True, False),
        ("parentbased_always_off", "", False, False),
        ("parentbased_traceidratio", "1.0", True, False),
        ("no_such_sampler", "", True, False),
    ],
)
def test_sampler_is_what_its_name_says(
    name: str, argument: str, of_root: bool, of_unsampled_child: bool
) -> None:
    sampler = sampler_named(name, argument)

    assert sampler(None, 12345) is of_root
    assert sampler(Parent(12345, 1, False), 12345) is of_unsampled_child


def test_ratio_keeps_about_its_share() -> None:
    sampler = sampler_named("traceidratio", "0.25")
    ids = [random.Random(seed).getrandbits(128) for seed in range(2000)]

    assert 400 < sum(sampler(None, trace_id) for trace_id in ids) < 600
