"""Bodies as bytes: the same wherever they are cut, and refused if not as announced."""

import itertools
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deuz_proxy.edge.http1_framing import (
    MAX_CHUNK_LINE_BYTES,
    MAX_TRAILER_BYTES,
    Chunked,
    Endless,
    Framing,
    Length,
    NotHttp,
)


def pieces_of(text: bytes, cuts: set[int]) -> Iterator[bytes]:
    ends = [0, *sorted(cut for cut in cuts if cut < len(text)), len(text)]
    for start, end in itertools.pairwise(ends):
        yield text[start:end]


chunk_lists = st.lists(st.binary(min_size=1, max_size=20), max_size=6)
extensions = st.sampled_from([b"", b";a=1", b" ; b", b';q="x"'])
trailers = st.sampled_from([b"", b"X-T: 1\r\n", b"A: 1\r\nB: 2\r\n"])


def fed(framing: Framing, pieces: Iterator[bytes]) -> tuple[bytes, bytes]:
    body = rest = b""
    for piece in pieces:
        if framing.is_complete:
            rest += piece
            continue
        got, behind = framing.feed(piece)
        body += got
        rest += behind
    return body, rest


@given(
    chunks=chunk_lists,
    extension=extensions,
    trailer=trailers,
    cuts=st.sets(st.integers(1, 200)),
)
def test_a_chunked_body_is_the_same_wherever_it_is_cut(
    chunks: list[bytes], extension: bytes, trailer: bytes, cuts: set[int]
) -> None:
    text = b"".join(b"%X%b\r\n%b\r\n" % (len(c), extension, c) for c in chunks)
    text += b"0%b\r\n%b\r\n" % (extension, trailer)
    framing = Chunked()

    body, rest = fed(framing, pieces_of(text + b"next", cuts))

    assert body == b"".join(chunks)
    assert rest == b"next"
    assert framing.is_complete


@given(body=st.binary(max_size=50), cuts=st.sets(st.integers(1, 60)))
def test_a_body_of_stated_length_ends_there(body: bytes, cuts: set[int]) -> None:
    framing = Length(len(body))

    assert fed(framing, pieces_of(body + b"next", cuts)) == (body, b"next")
    assert framing.is_complete


def test_what_was_read_past_the_framing_counts() -> None:
    framing = Length(5)
    framing.feed(b"he")

    framing.skip(1)
    assert not framing.is_complete
    assert framing.feed(b"lonext") == (b"lo", b"next")
    framing = Length(5)
    framing.skip(5)

    assert framing.is_complete


def test_a_body_read_at_once_is_not_copied() -> None:
    data = b"x" * 1000

    for framing in (Length(1000), Length(2000), Endless()):
        assert framing.feed(data)[0] is data
    chunked = Chunked()
    chunked.feed(b"fff\r\n")
    assert chunked.feed(data)[0] is data


def test_chunks_of_one_read_are_one_piece() -> None:
    assert Chunked().feed(b"1\r\na\r\n2\r\nbc\r\n")[0] == b"abc"


@pytest.mark.parametrize(
    "bad",
    [
        b"zz\r\n",
        b"\r\n",
        b"-1\r\n",
        b"+1\r\n",
        b"0x1\r\n",
        b"1_0\r\n",
        b" 1\r\n",
        b"1 1\r\n",
        b"1;a\x00\r\n",
        b"1\n\r\n",
        b"1111111111111111\r\n",
        b"1\r\nab\r\n",
        b"1\r\naX\n",
        b"1\r\na\rX",
        b"2\r\nabX\r\n",
    ],
)
def test_broken_chunks_are_refused_wherever_they_are_cut(bad: bytes) -> None:
    places = range(1, len(bad))
    some = itertools.combinations_with_replacement(places, 2)
    for cuts in (set[int](), *map(set, some), set(places)):
        with pytest.raises(NotHttp):
            fed(Chunked(), pieces_of(bad, cuts))


def test_what_is_kept_of_an_endless_line_is_bounded() -> None:
    with pytest.raises(NotHttp):
        Chunked().feed(b"1;" + b"x" * MAX_CHUNK_LINE_BYTES)
    chunked = Chunked()
    chunked.feed(b"0\r\n")
    with pytest.raises(NotHttp):
        chunked.feed(b"x" * (MAX_TRAILER_BYTES + 1))
    chunked = Chunked()
    chunked.feed(b"0\r\n")
    with pytest.raises(NotHttp):
        chunked.feed(b"A: 1\r\n" * MAX_TRAILER_BYTES)


frames = st.sampled_from(
    [
        b"1\r\na\r\n",
        b"5\r\na\r\nbc\r\n",
        b"A\r\n1\r\n2\r\n3\r\n\n\r\n",
        b"4\r\n\r\n\r\n\r\n",
        b"1A\r\n" + b"x" * 26 + b"\r\n",
        b"1a\r\n" + b"x" * 26 + b"\r\n",
        b"1\r\na\rb",
        b"01\r\na\r\n",
        b"1;x\r\na\r\n",
        b"2\r\na\r\n",
        b"1\r\nab\r\n",
        b"1\r\na\r",
        b"f",
        b"0\r\n\r\n",
        b"0\r\nA: 1\r\n\r\n",
    ]
)


@given(read=st.lists(frames, max_size=8), held=st.sets(st.integers(0, 40), max_size=2))
def test_what_comes_in_one_read_is_taken_like_byte_after_byte(
    read: list[bytes], held: set[int]
) -> None:
    data = b"".join(read)

    assert outcome(pieces_of(data, held)) == outcome(iter([bytes([b]) for b in data]))


def outcome(pieces: Iterator[bytes]) -> object:
    framing = Chunked()
    try:
        return fed(framing, pieces), framing.is_complete
    except NotHttp:
        return "refused"


@given(data=st.binary(max_size=100), cuts=st.sets(st.integers(1, 100)))
def test_garbage_chunks_are_refused_or_read_alike_however_cut(
    data: bytes, cuts: set[int]
) -> None:
    assert outcome(iter([data])) == outcome(pieces_of(data, cuts))
