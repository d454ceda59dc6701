"""Heads as bytes: what is taken, what is refused, wherever it is cut."""

import itertools
from collections.abc import Iterator

import pytest
from aiohttp.http_exceptions import HttpProcessingError
from hypothesis import example, given
from hypothesis import strategies as st

from deuz_proxy.edge.http1_framing import Chunked, Endless, Length, NotHttp
from deuz_proxy.edge.http1_wire import (
    MAX_HEAD_BYTES,
    MAX_LINES,
    Head,
    HeadTooLong,
    read_answer,
    read_request,
)

GET = b"GET /v1/x HTTP/1.1\r\n"
HOST = b"Host: a"
POST = b"POST /v1/x HTTP/1.1\r\n"


def request(*lines: bytes, first: bytes = GET) -> bytes:
    """Return a request's head; its first line after the given one names the host."""
    return first + b"".join(line + b"\r\n" for line in (HOST, *lines)) + b"\r\n"


def answer(*lines: bytes, first: bytes = b"HTTP/1.1 200 OK") -> bytes:
    return b"\r\n".join([first, *lines]) + b"\r\n\r\n"


# Requests.


def test_a_request_is_read_as_the_bytes_it_is_made_of() -> None:
    head = read_request(
        request(
            b"X-One:  1 \t",
            b"x-one:",
            b"X-Two: caf\xc3\xa9 \xff",
            first=b"MADE-UP /a%2Fb//..?x=%zz&y HTTP/1.1\r\n",
        )
    )

    assert (head.method, head.target) == (b"MADE-UP", b"/a%2Fb//..?x=%zz&y")
    assert head.lines == [
        (b"Host", b"a"),
        (b"X-One", b"1"),
        (b"x-one", b""),
        (b"X-Two", b"caf\xc3\xa9 \xff"),
    ]
    assert head.framing is None
    assert head.is_kept_alive
    assert not head.is_old


@pytest.mark.parametrize(
    "bad",
    [
        b"GET /x\r\n\r\n",
        b"GET  /x HTTP/1.1\r\n\r\n",
        b"GET /x y HTTP/1.1\r\n\r\n",
        b"GET /x HTTP/2.0\r\n\r\n",
        b"GET /x HTTP/1.10\r\n\r\n",
        b"GET /x http/1.1\r\n\r\n",
        b"GET x HTTP/1.1\r\n\r\n",
        b"GET /\x80 HTTP/1.1\r\n\r\n",
        b"GET *x HTTP/1.1\r\n\r\n",
        b"GET\t/x HTTP/1.1\r\n\r\n",
        b"G\xc3\x89T /x HTTP/1.1\r\n\r\n",
        b"CONNECT a:443 HTTP/1.1\r\n\r\n",
        b"GET /x HTTP/1.1\n\n",
        b"GET /x HTTP/1.1\r\nA: 1\nB: 2\r\n\r\n",
        b"GET /x HTTP/1.1\r\nA: 1\rB: 2\r\n\r\n",
        b"GET /x HTTP/1.1\r\nA: 1\r\n\r\n",
        request(b"host: b"),
        request(b"A: 1\x002"),
        request(b"A: 1\x7f"),
        request(b"A"),
        request(b": 1"),
        request(b":A: 1"),
        request(b"A : 1"),
        request(b"A B: 1"),
        request(b"\xc3\x89: 1"),
        request(b"A: 1", b" folded"),
        request(b" folded"),
        request(b"Content-Length: 1", b"Transfer-Encoding: chunked"),
        request(b"Content-Length: 1", b"Content-Length: 2"),
        request(b"Content-Length: 1", b"content-length: 1"),
        request(b"Transfer-Encoding: chunked", b"transfer-encoding: chunked"),
        request(b"Content-Length: 1, 1"),
        request(b"Content-Length: +1"),
        request(b"Content-Length: 1_0"),
        request(b"Content-Length: 0x1"),
        request(b"Content-Length:"),
        request(b"Content-Length: 9999999999999999999"),
        request(b"Transfer-Encoding: gzip, chunked"),
        request(b"Transfer-Encoding: identity"),
        request(b"Transfer-Encoding: chunked\x0b"),
        request(b"Transfer-Encoding: chunked", first=b"POST /x HTTP/1.0\r\n"),
    ],
)
def test_what_could_be_read_in_two_ways_is_not_read(bad: bytes) -> None:
    with pytest.raises(NotHttp) as caught:
        read_request(bad)

    assert not any(part in str(caught.value) for part in ("/x", "folded", "GET"))


def test_more_lines_than_the_limit_are_too_long() -> None:
    read_request(request(*[b"A: 1"] * (MAX_LINES - 1)))

    with pytest.raises(HeadTooLong):
        read_request(request(*[b"A: 1"] * MAX_LINES))


@pytest.mark.parametrize("target", [b"/", b"*", b"http://a:1/b?c", b"/x|y{z}#f"])
def test_every_form_of_a_target_is_taken(target: bytes) -> None:
    head = read_request(request(first=b"GET %b HTTP/1.1\r\n" % target))

    assert head.target == target


def test_a_stated_length_of_nothing_is_no_body() -> None:
    assert read_request(request(b"Content-Length: 000")).framing is None


@pytest.mark.parametrize(
    ("first", "line", "is_kept"),
    [
        (b"GET / HTTP/1.1\r\n", b"Connection: keep-alive", True),
        (b"GET / HTTP/1.1\r\n", b"Connection: X, Close", False),
        (b"GET / HTTP/1.0\r\n", b"X: 1", False),
        (b"GET / HTTP/1.0\r\n", b"connection: Keep-Alive", True),
    ],
)
def test_whether_a_connection_is_kept_is_the_clients_word(
    first: bytes, line: bytes, is_kept: bool
) -> None:
    assert read_request(request(line, first=first)).is_kept_alive is is_kept


def test_an_upgrade_counts_only_where_the_connection_names_it() -> None:
    asked = read_request(request(b"Connection: a, Upgrade", b"Upgrade: websocket"))
    unasked = read_request(request(b"Upgrade: websocket"))

    assert asked.upgrade == b"websocket"
    assert unasked.upgrade is None


def test_old_clients_are_not_told_to_go_on() -> None:
    line = b"Expect: 100-Continue"

    assert read_request(request(line)).expects_continue
    assert not read_request(request(line, first=b"GET / HTTP/1.0\r\n")).expects_continue


names = st.from_regex(rb"\A[A-Za-z0-9!#$%&'*+.^_`|~-]{1,12}\Z")
values = st.from_regex(rb"\A([\x21-\x7e\x80-\xff]([\t \x21-\x7e\x80-\xff]*[!-~])?)?\Z")
free_lines = st.lists(
    st.tuples(names, values).filter(
        lambda line: (
            line[0].lower()
            not in {b"content-length", b"transfer-encoding", b"host", b"upgrade"}
        )
    ),
    max_size=8,
)


@given(lines=free_lines)
def test_any_lines_come_out_as_they_went_in(lines: list[tuple[bytes, bytes]]) -> None:
    head = read_request(request(*[b"%b: %b" % line for line in lines]))

    assert head.lines == [(b"Host", b"a"), *lines]


def sabotaged(text: bytes, at: int, byte: int) -> bytes:
    at %= len(text)
    return text[:at] + bytes([byte]) + text[at:]


@given(at=st.integers(0, 200), byte=st.integers(0, 255))
@example(at=21, byte=32)
@example(at=91, byte=94)
@example(at=132, byte=9)
async def test_what_is_taken_is_taken_alike_by_another_reader(
    at: int, byte: int
) -> None:
    text = sabotaged(
        request(b"Content-Length: 3", b"Connection: close", first=POST),
        at,
        byte,
    )
    found = Head().feed(text)
    if found is None:
        return
    try:
        ours = read_request(found[0])
    except NotHttp:
        return
    if ours.method not in {b"POST", b"GET", b"PUT"}:
        return  # The other one knows no made-up methods.

    theirs, body = other_reading(found[0])

    assert ours.target.decode("latin-1") == theirs.path.encode(
        "utf-8", "surrogateescape"
    ).decode("latin-1")
    assert [(n, v.strip()) for n, v in theirs.raw_headers] == ours.lines
    assert ours.is_kept_alive is not theirs.should_close
    stated = ours.framing.stated_bytes if isinstance(ours.framing, Length) else 0
    assert stated == body


def other_reading(head: bytes):  # type: ignore[no-untyped-def]
    """Return what aiohttp's parser makes of the head, and the body's length."""
    import asyncio

    from aiohttp.base_protocol import BaseProtocol
    from aiohttp.http_parser import HttpRequestParser

    loop = asyncio.get_running_loop()
    parser = HttpRequestParser(BaseProtocol(loop), loop, limit=2**16)
    try:
        messages, _, _ = parser.feed_data(head)
    except HttpProcessingError as fault:
        pytest.fail(f"taken by us only: {head!r} {fault}")
    message = messages[0][0]
    return message, int(message.headers.get("Content-Length", "0"))


# Heads.


@given(cuts=st.sets(st.integers(1, 200)))
@example(cuts={58, 59, 60, 61})
def test_a_head_is_the_same_wherever_it_is_cut(cuts: set[int]) -> None:
    text = request(b"Content-Length: 5", first=POST) + b"hello"
    head = Head()
    out = None
    rest = b""

    for piece in pieces_of(text, cuts):
        if out is not None:
            rest += piece
            continue
        # A view on what the next piece is read to.
        desk = bytearray(piece)
        out = head.feed(memoryview(desk))
        desk[:] = bytes(len(desk))

    assert out is not None
    assert out[0] == text[:-5]
    assert out[1] + rest == b"hello"
    assert head.is_empty


def pieces_of(text: bytes, cuts: set[int]) -> Iterator[bytes]:
    ends = [0, *sorted(cut for cut in cuts if cut < len(text)), len(text)]
    for start, end in itertools.pairwise(ends):
        yield text[start:end]


def test_empty_lines_before_a_head_are_let_go() -> None:
    head = Head()

    assert head.feed(b"\r\n") is None
    assert head.is_empty
    assert head.feed(memoryview(b"\r\n" + request())) == (request(), b"")


def test_a_head_over_the_limit_is_too_long_whole_or_not() -> None:
    with pytest.raises(HeadTooLong):
        Head().feed(b"x" * (MAX_HEAD_BYTES + 1))
    with pytest.raises(HeadTooLong):
        Head().feed(b"x" * MAX_HEAD_BYTES + b"\r\n\r\n")
    head = Head()
    head.feed(b"x" * MAX_HEAD_BYTES)
    with pytest.raises(HeadTooLong):
        head.feed(b"x")


@given(data=st.binary(max_size=200))
def test_garbage_is_refused_or_read_and_nothing_else_happens(data: bytes) -> None:
    for read in (read_request, lambda text: read_answer(text, method=b"GET")):
        try:
            found = Head().feed(b"x" + data + b"\r\n\r\n")
            assert found is not None
            read(found[0])
        except NotHttp:
            pass


# Answers.


def test_an_answer_keeps_its_reason_and_its_lines() -> None:
    text = answer(b"ETag: 1", b"etag: 2", first=b"HTTP/1.1 299 Odd  \xe9 One")

    head = read_answer(text, method=b"GET")

    assert (head.status, head.reason) == (299, b"Odd  \xe9 One")
    assert head.lines == [(b"ETag", b"1"), (b"etag", b"2")]


@pytest.mark.parametrize("first", [b"HTTP/1.1 200", b"HTTP/1.1 200 "])
def test_a_reason_may_be_empty(first: bytes) -> None:
    assert read_answer(answer(first=first), method=b"GET").reason == b""


def test_an_answers_head_may_be_untidy() -> None:
    text = b"HTTP/1.1 200 OK\nA : 1\nB b: 2\r\nC: 3\n\tgoes on\n\n"

    head = read_answer(text, method=b"GET")

    assert head.lines == [(b"A", b"1"), (b"B b", b"2"), (b"C", b"3 goes on")]


@pytest.mark.parametrize(
    "bad",
    [
        b"HTTP/2 200 OK\r\n\r\n",
        b"HTTP/1.1 20 OK\r\n\r\n",
        b"HTTP/1.1 099 OK\r\n\r\n",
        b"ICY 200 OK\r\n\r\n",
        answer(b"A: 1\x00"),
        answer(b"A: 1\r2"),
        answer(b"A"),
        answer(b"Content-Length: 1", b"Content-Length: 2"),
        answer(b"Content-Length: x"),
        answer(b"Content-Length: -1"),
        answer(b"Content-Length: 1", b"Transfer-Encoding: chunked"),
        answer(b"Transfer-Encoding: gzip, chunked"),
        answer(b"Transfer-Encoding: chunked", b"Transfer-Encoding: chunked"),
        answer(b"Transfer-Encoding : chunked", b"Content-Length: 5"),
    ],
)
def test_an_answer_whose_length_is_in_doubt_is_not_read(bad: bytes) -> None:
    with pytest.raises(NotHttp):
        read_answer(bad, method=b"GET")


@pytest.mark.parametrize(
    ("lines", "kind"),
    [
        ([b"Content-Length: 3"], Length),
        ([b"Content-Length: 3", b"content-length: 3"], Length),
        ([b"Transfer-Encoding: Chunked"], Chunked),
        ([b"Transfer-Encoding: identity"], Endless),
        ([], Endless),
    ],
)
def test_an_answers_length_is_stated_or_its_connections(
    lines: list[bytes], kind: type
) -> None:
    head = read_answer(answer(*lines), method=b"GET")

    assert isinstance(head.framing, kind)
    assert head.is_kept_alive is (kind is not Endless)


@pytest.mark.parametrize(
    ("method", "status"),
    [(b"HEAD", 200), (b"GET", 204), (b"GET", 304), (b"GET", 101)],
)
def test_some_answers_have_no_body_whatever_they_state(
    method: bytes, status: int
) -> None:
    text = answer(b"Content-Length: 9", first=b"HTTP/1.1 %d x" % status)

    assert read_answer(text, method=method).framing is None
