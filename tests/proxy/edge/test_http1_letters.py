"""An answer that is like the last one of its client has the head it would have."""

from asyncio import Transport
from types import SimpleNamespace
from typing import cast

from hypothesis import given
from hypothesis import strategies as st

from deuz_proxy.edge.http1_call import Http1Client
from deuz_proxy.edge.http1_connection import Connection
from deuz_proxy.edge.http1_letters import Letters
from deuz_proxy.edge.http1_turn import Sender, Turn
from deuz_proxy.edge.http1_wire import RequestHead, read_request

Lines = list[tuple[bytes, bytes]]

NAMES = st.sampled_from(
    [b"Content-Length", b"content-length", b"X", b"Connection", b"Keep-Alive", b"Date"]
)
LENGTHS = st.integers(0, 20_000).map(b"%d".__mod__)
LINES = st.lists(
    NAMES.flatmap(
        lambda name: st.tuples(
            st.just(name),
            LENGTHS
            if name.lower() == b"content-length"
            else st.sampled_from([b"1", b"close", b"keep-alive", b"content-length"]),
        )
    ),
    max_size=4,
)
REQUESTS = st.sampled_from(
    [
        read_request(b"%b / HTTP/1.%d\r\nHost: a\r\nConnection: %b\r\n\r\n" % parts)
        for parts in [
            (b"GET", 1, b"keep-alive"),
            (b"GET", 1, b"close"),
            (b"GET", 0, b"keep-alive"),
            (b"GET", 0, b"close"),
            (b"HEAD", 1, b"keep-alive"),
        ]
    ]
)
ANSWERS = st.tuples(
    REQUESTS,
    st.sampled_from([200, 204, 404]),
    st.sampled_from(["OK", "Caf\xe9"]),
    LINES,
    LENGTHS,
    st.sampled_from([b"", b"body", b"x" * 20_000]),
)


class Wire:
    """A transport that keeps what is written."""

    def __init__(self) -> None:
        self.sent = b""

    def is_closing(self) -> bool:
        return False

    def get_extra_info(self, _: str) -> SimpleNamespace:
        return SimpleNamespace(setsockopt=lambda *_: None)

    def write(self, data: bytes) -> None:
        self.sent += data

    def writelines(self, parts: tuple[bytes, ...]) -> None:
        self.sent += b"".join(parts)


class Line:
    """As much of a connection as an answer touches."""

    def __init__(self) -> None:
        self.transport = Wire()
        turn = SimpleNamespace(is_busy=False, add=lambda leave: None)
        self.sender = Sender(cast(Transport, self.transport), cast(Turn, turn))
        self.letters = Letters()
        self.outlet = SimpleNamespace(is_paused=False)
        self.is_last = self.has_begun = self.is_answered = False
        self.is_whole = True

    def told(
        self, request: RequestHead, answer: tuple[int, str, Lines, bytes]
    ) -> tuple[object, ...]:
        """Return what one answer sends, and what is known behind it."""
        self.transport.sent, self.has_begun = b"", False
        client = Http1Client(cast(Connection, self), request)
        client.start_with(*answer)
        left = client._left_bytes, client._has_body, client._is_chunked
        self.sender.flush()
        begun = client.has_started, self.has_begun, client.is_kept
        return self.transport.sent, left, begun


def with_length(lines: Lines, digits: bytes) -> Lines:
    """Return the lines with other lengths."""
    return [
        (name, digits if name.lower() == b"content-length" else value)
        for name, value in lines
    ]


@given(st.lists(ANSWERS, min_size=1, max_size=4), st.integers(0, 3))
def test_what_is_sent_behind_others_is_what_is_sent_first(
    answers: list[tuple[RequestHead, int, str, Lines, bytes, bytes]], again: int
) -> None:
    line = Line()
    for request, status, reason, lines, digits, body in answers:
        for at in range(again + 1):
            other = with_length(lines, digits) if at else lines
            answer = status, reason, other, body

            assert line.told(request, answer) == Line().told(request, answer)


def test_answers_that_differ_in_their_length_share_a_head() -> None:
    letters = Letters()
    asked = 200, "OK", False, True
    head = b"HTTP/1.1 200 OK\r\nA: 1\r\nContent-Length: 12\r\n\r\n"
    letters.keep(asked, [(b"A", b"1"), (b"Content-Length", b"12")], head)

    alike = letters.head_alike(asked, [(b"A", b"1"), (b"Content-Length", b"7")])

    assert alike == (b"HTTP/1.1 200 OK\r\nA: 1\r\nContent-Length: 7\r\n\r\n", 7)


def test_nothing_else_may_differ() -> None:
    letters = Letters()
    lines = [(b"A", b"1"), (b"Content-Length", b"12")]
    asked = 200, "OK", False, True
    head = b"HTTP/1.1 200 OK\r\nA: 1\r\nContent-Length: 12\r\n\r\n"
    letters.keep(asked, lines, head)

    assert letters.head_alike((201, *asked[1:]), lines) is None
    assert letters.head_alike((*asked[:3], False), lines) is None
    assert letters.head_alike(asked, [(b"A", b"2"), lines[1]]) is None
    assert letters.head_alike(asked, [lines[0], (b"content-length", b"12")]) is None
    assert letters.head_alike(asked, [*lines, (b"B", b"1")]) is None
    assert letters.head_alike(asked, lines) == (head, 12)


def test_a_length_that_is_told_twice_or_not_as_it_came_is_written_anew() -> None:
    asked = 200, "OK", False, True
    twice = [(b"Content-Length", b"1"), (b"content-length", b"1")]
    once = [(b"Content-Length", b"1")]
    for lines, head in ((twice, b"\r\nContent-Length: 1\r\n"), (once, b"\r\n\r\n")):
        letters = Letters()
        letters.keep(asked, lines, head)

        assert letters.head_alike(asked, lines) is None
        assert letters.head_alike(asked, lines) is None
