"""Events come out of a line as they went in, and what is no event is an error."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import fields

from deuz_compiler import SegmentShare, Verdict
from deuz_proxy.observe.encoding import LineUnreadable, decode_event, encode_event
from deuz_proxy.observe.events import (
    Event,
    EventsLost,
    FaultCaught,
    Placement,
    RequestFinished,
    WorkerStarted,
)
from deuz_testing.events import (
    PREDICTION,
    TRACE,
    compiled,
    finished,
    ledger_used,
    overflown,
)
from deuz_testing.events import started as start

FULL = overflown(
    compile=compiled(),
    verdict=Verdict("broken", segment="turn", index=3, offset=9, lost_tokens=7),
    segments=(SegmentShare("system", 10, 0, 0), SegmentShare("turn", 9, 3, 4)),
    placements=(Placement(1, ("a", "b"), 3, is_new=True),),
    error="upstream_broken",
    passthrough="observe",
    group="held_out",
    prediction=PREDICTION,
)
EVENTS: list[Event] = [
    start(),
    FULL,
    finished(trace=None, usage=None, verdict=None, model=None, server_port=None),
    ledger_used(),
    FaultCaught("chat", "recall", "store_failed"),
    EventsLost(7, (("chat", -2), ("other", 3))),
]


def carried(event: Event) -> Event:
    line = encode_event(event)
    assert line.index(b"\n") == len(line) - 1
    return decode_event(line[:-1])


@pytest.mark.parametrize("event", EVENTS, ids=lambda event: type(event).__name__)
def test_an_event_comes_out_as_it_went_in(event: Event) -> None:
    assert carried(event) == event


def test_all_that_a_finished_request_can_tell_was_among_them() -> None:
    plain = finished(trace=None)
    unset = [
        each.name
        for each in fields(RequestFinished)
        if getattr(FULL, each.name) == each.default
    ]

    assert unset == ["sidecar_mutations"]
    assert plain != FULL
    assert TRACE.trace_id > 2**64


@given(
    path=st.text(alphabet=st.characters(exclude_categories=())),
    seconds=st.floats(0, 1e9),
    offset=st.integers(0, 2**63),
)
def test_any_path_and_number_is_carried(path: str, seconds: float, offset: int) -> None:
    event = finished(path=path, duration_seconds=seconds, response_bytes=offset)

    got = carried(event)

    assert isinstance(got, RequestFinished)
    assert got.path == path.encode("utf-8", "replace").decode()
    assert (got.duration_seconds, got.response_bytes) == (seconds, offset)


@pytest.mark.parametrize(
    "line",
    [b"", b"x{}", b"s", b"s{", b's{"route": 1}', encode_event(start())[:-9]],
)
def test_what_is_no_event_is_an_error_that_repeats_nothing(line: bytes) -> None:
    with pytest.raises(LineUnreadable) as caught:
        decode_event(line)

    assert "route" not in str(caught.value)


def test_what_only_a_keeper_tells_has_no_line() -> None:
    with pytest.raises(KeyError):
        encode_event(WorkerStarted(0))
