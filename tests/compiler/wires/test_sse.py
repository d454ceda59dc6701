"""Cutting events out of chunks: every split, every line ending, and a bound."""

from itertools import pairwise

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from deuz_compiler.wires.sse import (
    EventCutter,
    ServerEvent,
    cut_events,
    read_event,
)

STREAM = """\
: comment

event: message_start
data: {"a":1}

data: first
data: second

data:tight
id: 7
retry: 10

event: ping

data: 漢字 😀

data: [DONE]

""".encode()
EVENTS = (
    ServerEvent(b"message_start", b'{"a":1}'),
    ServerEvent(b"", b"first\nsecond"),
    ServerEvent(b"", b"tight"),
    ServerEvent(b"", "漢字 😀".encode()),
    ServerEvent(b"", b"[DONE]"),
)

PIECES = (b"data: x", b"data:y", b"event: e", b": c", b"z", b"\n", b"\r\n", b"\r")
STREAM_BYTES = st.lists(
    st.sampled_from((*PIECES, b"\n\n", b"\r\n\r\n")), max_size=30
).map(b"".join)


def cut_split(
    body: bytes, cuts: list[int], *, limit_bytes: int = 1000
) -> tuple[list[ServerEvent], int]:
    cutter = EventCutter(limit_bytes=limit_bytes)
    edges = [0, *sorted(cut % (len(body) + 1) for cut in cuts), len(body)]
    blocks: list[bytes] = []
    for start, end in pairwise(edges):
        blocks += cutter.feed(body[start:end])
    blocks += cutter.close()
    events = [event for block in blocks if (event := read_event(block)) is not None]
    return events, cutter.skipped_events


@pytest.mark.parametrize("ending", [b"\n", b"\r\n", b"\r"])
@pytest.mark.parametrize("chunk_bytes", [1, 2, 3, 7, 64, 10_000])
def test_every_line_ending_and_chunk_size_gives_the_same_events(
    ending: bytes, chunk_bytes: int
) -> None:
    body = STREAM.replace(b"\n", ending)
    cuts = list(range(chunk_bytes, len(body), chunk_bytes))

    events, _ = cut_split(body, cuts)

    assert tuple(events) == EVENTS


@given(body=STREAM_BYTES, cuts=st.lists(st.integers(0, 400), max_size=12))
@example(body=b"data: x\r\n\r\n", cuts=[8])
@example(body=b"data: x\r\n\r\ndata: y\r\n\r\n", cuts=[9, 10, 11])
@example(body=b"data: x\n\n\n\ndata: y", cuts=[8, 9, 10])
def test_every_split_gives_the_same_events(body: bytes, cuts: list[int]) -> None:
    whole, _ = cut_split(body, [])

    assert cut_split(body, cuts)[0] == whole


@given(
    body=STREAM_BYTES,
    cuts=st.lists(st.integers(0, 400), max_size=12),
    limit_bytes=st.integers(1, 40),
)
def test_what_is_skipped_does_not_depend_on_the_split(
    body: bytes, cuts: list[int], limit_bytes: int
) -> None:
    whole = cut_split(body, [], limit_bytes=limit_bytes)

    assert cut_split(body, cuts, limit_bytes=limit_bytes) == whole


@pytest.mark.parametrize("cuts", [[], [1], [1, 2], [2, 3]])
def test_byte_order_mark_is_no_part_of_the_first_field(cuts: list[int]) -> None:
    events, _ = cut_split(b"\xef\xbb\xbfdata: x\n\ndata: y\n\n", cuts)

    assert [event.data for event in events] == [b"x", b"y"]


@pytest.mark.parametrize("rest", [b"data: last", b"data: last\n", b"data: last\r"])
def test_last_event_counts_without_the_empty_line(rest: bytes) -> None:
    assert cut_events(b"data: x\n\n" + rest)[-1].data == b"last"


def test_event_over_the_limit_is_skipped_and_the_next_one_is_read() -> None:
    body = b"data: a\n\ndata: " + b"x" * 5000 + b"\n\ndata: b\n\n"

    for chunk_bytes in (1, 100, 6000):
        cuts = list(range(chunk_bytes, len(body), chunk_bytes))
        events, skipped = cut_split(body, cuts)
        assert [event.data for event in events] == [b"a", b"b"]
        assert skipped == 1


def test_endless_line_does_not_grow_what_is_held() -> None:
    cutter = EventCutter(limit_bytes=1000)

    for _ in range(10_000):
        cutter.feed(b"x" * 1024)

    assert len(cutter._rest) <= 1000 + 1024
    assert cutter.skipped_events == 1
    assert cutter.close() == []


def test_name_belongs_to_its_event_only() -> None:
    events = cut_events(b"event: a\ndata: 1\n\ndata: 2\n\n")

    assert [event.name for event in events] == [b"a", b""]


def test_block_of_comments_is_no_event() -> None:
    assert read_event(b": OPENROUTER PROCESSING") is None
    assert read_event(b"event: ping") is None


def test_only_one_space_behind_the_colon_is_dropped() -> None:
    assert read_event(b"data:  two") == ServerEvent(b"", b" two")


def test_idle_means_that_the_next_chunk_begins_an_event() -> None:
    cutter = EventCutter()

    states = [cutter.is_idle]
    for chunk in (b"data: 1\n\n", b"data", b": 2\r\n\r", b"\n", b"data: 3\n\n"):
        cutter.feed(chunk)
        states.append(cutter.is_idle)

    assert states == [False, True, False, False, True, True]
