"""A head like the last is read as if it were the first."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deuz_proxy.calls import Outgoing
from deuz_proxy.edge.http1_framing import Chunked, Length, NotHttp
from deuz_proxy.edge.http1_letterhead import HeadReader
from deuz_proxy.edge.http1_wire import HeadTooLong, RequestHead, read_request

POST = b"POST /v1/x HTTP/1.1\r\n"


def head(*lines: bytes, first: bytes = POST) -> bytes:
    return first + b"".join(line + b"\r\n" for line in (b"Host: a", *lines)) + b"\r\n"


def stated(length: bytes, *, key: bytes = b"k") -> bytes:
    return head(b"X-Key: %b" % key, b"Content-length:  %b \t" % length, b"A: 1")


def same_reading(left: RequestHead, right: RequestHead) -> bool:
    """Compare what two heads say; framings are no values."""
    lengths = [
        each.framing.stated_bytes if isinstance(each.framing, Length) else None
        for each in (left, right)
    ]
    told = [
        (
            each.method,
            each.target,
            each.is_old,
            each.lines,
            each.is_kept_alive,
            each.expects_continue,
            each.upgrade,
        )
        for each in (left, right)
    ]
    return lengths[0] == lengths[1] and told[0] == told[1]


@given(lengths=st.lists(st.integers(0, 10**18 - 1), min_size=2, max_size=5))
def test_heads_that_differ_in_their_length_are_read_as_they_are(
    lengths: list[int],
) -> None:
    reader = HeadReader(100)

    for length in lengths:
        text = stated(b"%d" % length)
        assert same_reading(reader.read(text), read_request(text))


def test_heads_alike_have_one_letterhead_and_each_its_framing() -> None:
    reader = HeadReader(100)

    first, second = reader.read(stated(b"5")), reader.read(stated(b"1234"))
    third = reader.read(stated(b"5"))

    assert first.letterhead is second.letterhead is third.letterhead
    assert first.framing is not third.framing
    assert (b"Content-length", b"1234") in second.lines
    assert (b"Content-length", b"5") in first.lines


@pytest.mark.parametrize(
    "other",
    [
        stated(b"5", key=b"l"),
        stated(b"0"),
        head(b"X-Key: k", b"A: 1"),
        head(b"X-Key: k", b"Content-length: 5", b"A: 1"),
        head(b"X-Key: k", b"Transfer-Encoding: chunked", b"A: 1"),
        stated(b"5").replace(b"/v1/x", b"/v1/y"),
        stated(b"5").replace(b"POST", b"PUT"),
        stated(b"5")[:-2] + b"B: 1\r\n\r\n",
    ],
)
def test_whatever_else_differs_is_another_letterhead(other: bytes) -> None:
    reader = HeadReader(100)
    first = reader.read(stated(b"5"))

    second = reader.read(other)

    assert second.letterhead is not first.letterhead
    assert same_reading(second, read_request(other))


@pytest.mark.parametrize(
    "bad",
    [b"+5", b"5x", b"", b"1_0", b"1 2", b"9" * 19, b"5\r\nContent-Length: 6", b"\xb2"],
)
def test_a_length_that_is_none_is_refused_behind_a_good_one_too(bad: bytes) -> None:
    reader = HeadReader(100)
    reader.read(stated(b"5"))

    with pytest.raises(NotHttp):
        reader.read(stated(bad))


def test_a_head_that_ends_inside_the_last_ones_parts_is_not_like_it() -> None:
    text = head(b"Content-Length: 55")
    reader = HeadReader(100)
    reader.read(text)

    with pytest.raises(NotHttp):
        reader.read(text.replace(b"55", b""))


NAMES = (
    b"X-Key",
    b"traceparent",
    b"X-Key",
    b"Expect",
    b"Connection",
    b"Content-Length",
)
VALUES = (
    b"1",
    b"22",
    b"0",
    b" 5\t",
    b"",
    b"a: b",
    b"close",
    b"100-continue",
    b"\xe9",
    b"\n",
)


@given(
    st.lists(st.lists(st.sampled_from(VALUES), min_size=6, max_size=6), max_size=4),
    st.sampled_from([6, 5, 3]),
)
def test_heads_that_differ_in_any_values_are_read_as_they_are(
    heads: list[list[bytes]], count: int
) -> None:
    reader = HeadReader(100)

    for values in heads:
        text = head(*map(b":".join, zip(NAMES[:count], values, strict=False)))
        try:
            expected = read_request(text)
        except NotHttp:
            with pytest.raises(NotHttp):
                reader.read(text)
        else:
            assert same_reading(reader.read(text), expected)


def test_a_value_that_changed_is_told_with_what_was_made_of_the_last_head() -> None:
    reader, outgoing = HeadReader(100), Outgoing("base", "/", b"before", b"behind")
    first = reader.read(stated(b"5"))
    first.letterhead.outgoing = outgoing

    second = reader.read(stated(b"66", key=b"l"))
    third = reader.read(stated(b"7", key=b"l"))

    assert second.letterhead.changes == [((b"X-Key", b"k"), (b"X-Key", b"l"))]
    assert second.letterhead.earlier == (None, outgoing)
    assert third.letterhead is second.letterhead


@pytest.mark.parametrize(
    "other",
    [
        head(b"X-key: k", b"Content-length:  5 \t", b"A: 1"),
        head(b"A: 1", b"X-Key: k", b"Content-length:  5 \t"),
        stated(b"0"),
        stated(b"5").replace(b"Host: a", b"Host: b"),
        stated(b"5").replace(b"/v1/x", b"/v1/y"),
        head(b"X-Key: k", b"Content-length:  5 \t"),
    ],
)
def test_of_a_head_that_differs_in_more_than_values_nothing_is_taken_over(
    other: bytes,
) -> None:
    reader = HeadReader(100)
    reader.read(stated(b"5")).letterhead.outgoing = Outgoing("base", "/", b"", b"")

    assert reader.read(other).letterhead.earlier == (None, None)


def test_heads_without_a_length_have_a_framing_each() -> None:
    reader, text = HeadReader(100), head(b"Transfer-Encoding: chunked")

    first, second = reader.read(text), reader.read(text)

    assert isinstance(second.framing, Chunked)
    assert first.framing is not second.framing
    assert first.letterhead is not second.letterhead


def test_a_connection_keeps_to_its_limit_of_lines() -> None:
    with pytest.raises(HeadTooLong):
        HeadReader(2).read(stated(b"5"))


def test_bytes_that_begin_with_a_head_alike_are_known_with_what_follows_it() -> None:
    reader = HeadReader(100)
    assert reader.read_alike(memoryview(stated(b"55"))) is None
    first = reader.read(stated(b"55"))

    found = reader.read_alike(memoryview(stated(b"7") + b"body"))

    assert found is not None
    assert found[1] == b"body"
    assert found[0].letterhead is first.letterhead
    assert same_reading(found[0], read_request(stated(b"7")))


def test_bytes_are_known_again_once_a_head_with_a_longer_length_was_read() -> None:
    reader = HeadReader(100)
    reader.read(stated(b"999"))
    longer = stated(b"1000") + b"the body"
    unknown = reader.read_alike(memoryview(longer))
    reader.read(stated(b"1000"))

    assert (unknown, reader.read_alike(memoryview(longer)) is not None) == (None, True)
    assert reader.read_alike(memoryview(stated(b"7"))) is not None


def test_what_was_read_from_a_view_outlasts_it() -> None:
    reader = HeadReader(100)
    reader.read(stated(b"55"))
    desk = bytearray(stated(b"4") + b"body")

    found = reader.read_alike(memoryview(desk))
    desk[:] = bytes(len(desk))

    assert found is not None
    assert found[1] == b"body"
    assert same_reading(found[0], read_request(stated(b"4")))


@pytest.mark.parametrize(
    "other",
    [stated(b"555"), stated(b"5")[:-1], stated(b"0"), stated(b"+5"), b"\r\n", b""],
)
def test_a_head_that_is_longer_or_not_whole_is_not_known(other: bytes) -> None:
    reader = HeadReader(100)
    reader.read(stated(b"55"))

    assert reader.read_alike(memoryview(other)) is None
