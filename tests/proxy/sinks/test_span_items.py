import math
import sys
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from opentelemetry.proto.trace.v1.trace_pb2 import ScopeSpans, Span

from deuz_proxy.sinks.otlp_bytes import write_message, write_number, write_text
from deuz_proxy.sinks.span_items import (
    Events,
    Ids,
    Own,
    Times,
    Values,
    WriteItem,
    keys_of,
    load_writer,
    write_in_python,
)
from deuz_testing.otlp import read_attributes

BUILT = load_writer()
BOTH = pytest.mark.parametrize("write", [BUILT, write_in_python])

IDS: Ids = bytes(range(16)), 7, 0, b""
TIMES: Times = 1_700_000_000.25, 0.5
LOCAL = b"\x85\x01\x00\x01\x00\x00"

texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=300)
counts = st.integers(-(1 << 63), (1 << 63) - 1) | st.integers(0, 1 << 22)
values = st.none() | texts | st.booleans() | counts | st.floats()
owned = st.dictionaries(texts.filter(bool), values, max_size=32)
span_ids = st.integers(1, (1 << 64) - 1)
ids = st.tuples(
    st.binary(min_size=16, max_size=16),
    span_ids,
    st.just(0) | span_ids,
    st.sampled_from([b"", LOCAL]),
)
times = st.tuples(st.floats(0, 9e9), st.floats(0, 9e8))


def happened(name: str) -> Events:
    """Return an event with a name, in two pieces around its time."""
    named = write_text(2, name)
    # Its length is that of the time, too: a head and eight bytes.
    return write_message(11, b"@" * 9 + named)[: -9 - len(named)], named


events = st.lists(texts.filter(bool), max_size=64)


def own_of(said: dict[str, Any]) -> Own:
    return keys_of(*said), tuple(said.values())


def kind_of(value: object) -> object:
    # Not a number is equal to nothing, not to itself either.
    is_nan = isinstance(value, float) and math.isnan(value)
    return type(value), "nan" if is_nan else str(value)


def as_read(item: bytes) -> Span:
    scope: ScopeSpans = ScopeSpans.FromString(item)
    assert len(scope.spans) == 1
    span: Span = scope.spans[0]
    return span


def test_writer_was_built_with_the_package() -> None:
    assert BUILT is not write_in_python


@given(ids, times, texts, owned, events)
def test_built_writer_writes_what_python_writes(
    ids: Ids, times: Times, alike: str, said: dict[str, Any], names: list[str]
) -> None:
    told = sum([happened(name) for name in names], ())
    asked = ids, times, write_text(5, alike), own_of(said), told

    assert BUILT(*asked) == write_in_python(*asked)


@BOTH
@given(ids, times, owned, events)
def test_span_is_read_as_it_was_written(
    write: WriteItem, ids: Ids, times: Times, said: dict[str, Any], names: list[str]
) -> None:
    told = sum([happened(name) for name in names], ())

    span = as_read(write(ids, times, write_number(6, 2), own_of(said), told))

    known = {name: value for name, value in said.items() if value is not None}
    read = read_attributes(span.attributes)
    assert list(read) == list(known)
    assert [*map(kind_of, read.values())] == [*map(kind_of, known.values())]
    trace_id, span_id, above, _ = ids
    assert (span.trace_id, int.from_bytes(span.span_id, "big")) == (trace_id, span_id)
    assert span.parent_span_id == (above.to_bytes(8, "big") if above else b"")
    assert span.start_time_unix_nano == int(times[0] * 1e9)
    assert span.end_time_unix_nano == int((times[0] + times[1]) * 1e9)
    assert [event.name for event in span.events] == names
    assert {event.time_unix_nano for event in span.events} <= {span.end_time_unix_nano}
    assert span.kind == 2


@pytest.mark.parametrize("number", [127, 128, 16_383, 16_384, 2**63, -1, 2**64 + 5])
@pytest.mark.parametrize("length", [0, 115, 116, 127, 128, 16_200, 16_400])
def test_lengths_and_counts_of_any_size_are_written_alike(
    number: int, length: int
) -> None:
    own = own_of({"größe": number, "b": "ö" * length, "c": "\U0001f600\0"})

    assert BUILT(IDS, TIMES, b"", own, ()) == write_in_python(IDS, TIMES, b"", own, ())


@BOTH
def test_text_that_cannot_be_written_is_an_error(write: WriteItem) -> None:
    with pytest.raises(UnicodeEncodeError):
        write(IDS, TIMES, b"", own_of({"a": "\udc00"}), ())


@BOTH
@pytest.mark.parametrize(
    ("own", "told"), [((keys_of("a", "b"), ("x",)), ()), (((), ()), (b"head",))]
)
def test_each_key_has_a_value_and_each_event_two_pieces(
    write: WriteItem, own: Own, told: Events
) -> None:
    with pytest.raises(ValueError, match=r"for each|shorter|longer"):
        write(IDS, TIMES, b"", own, told)


@BOTH
@pytest.mark.parametrize("at", [-1.0, math.nan, math.inf, 2e10])
def test_time_that_cannot_be_is_an_error(write: WriteItem, at: float) -> None:
    with pytest.raises(
        Exception, match=r"time|NaN|infinity|required|requires|large|range"
    ):
        write(IDS, (at, 0.0), b"", ((), ()), ())


NONE_OWN: Own = (), ()


@pytest.mark.parametrize(
    "asked",
    [
        (),
        (IDS, TIMES, b"", NONE_OWN),
        ((), TIMES, b"", NONE_OWN, ()),
        (list(IDS), TIMES, b"", NONE_OWN, ()),
        ((b"short", 1, 0, b""), TIMES, b"", NONE_OWN, ()),
        ((bytes(16), "1", 0, b""), TIMES, b"", NONE_OWN, ()),
        ((bytes(16), 1, None, b""), TIMES, b"", NONE_OWN, ()),
        ((bytes(16), 1, 0), TIMES, b"", NONE_OWN, ()),
        ((bytes(16), 1, 0, ""), TIMES, b"", NONE_OWN, ()),
        (IDS, (), b"", NONE_OWN, ()),
        (IDS, (1.0,), b"", NONE_OWN, ()),
        (IDS, ("1", 1.0), b"", NONE_OWN, ()),
        (IDS, TIMES, "", NONE_OWN, ()),
        (IDS, TIMES, b"", (), ()),
        (IDS, TIMES, b"", ((),), ()),
        (IDS, TIMES, b"", ([], ()), ()),
        (IDS, TIMES, b"", (("text",), (1,)), ()),
        (IDS, TIMES, b"", ((b"",), (b"",)), ()),
        (IDS, TIMES, b"", ((b"",) * 33, (None,) * 33), ()),
        (IDS, TIMES, b"", NONE_OWN, [b"", b""]),
        (IDS, TIMES, b"", NONE_OWN, ("", b"")),
        (IDS, TIMES, b"", NONE_OWN, (b"",) * 130),
    ],
)
def test_built_writer_refuses_what_is_none_of_its_kinds(asked: tuple[Any, ...]) -> None:
    with pytest.raises((TypeError, ValueError, IndexError, SystemError)):
        BUILT(*asked)


def test_built_writer_holds_on_to_nothing() -> None:
    values: Values = ("v" * 99, 10**9, 0.25)
    own: Own = keys_of("k", "l", "m"), values
    told = happened("event")
    parts: tuple[object, ...] = (IDS, TIMES, own, told, *IDS, *values, *own[0], *told)
    before = [sys.getrefcount(part) for part in parts]

    for _ in range(100):
        BUILT(IDS, TIMES, told[1], own, told)
        with pytest.raises(ValueError, match="value"):
            BUILT(IDS, TIMES, told[1], (own[0], ()), told)

    after = [sys.getrefcount(part) for part in parts]
    # Others may hold a number of these meanwhile, but not a hundred times.
    assert max(now - was for now, was in zip(after, before, strict=True)) < 100


def test_where_it_was_not_built_python_writes() -> None:
    assert load_writer("deuz_proxy.sinks.no_such") is write_in_python
    # A module without the function: it was built from another source.
    assert load_writer("deuz_proxy.sinks.spans") is write_in_python
