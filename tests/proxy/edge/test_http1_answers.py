"""An answer's head like the last is read as if it were the first."""

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deuz_proxy.edge.http1_answers import AnswerReader, Exchange
from deuz_proxy.edge.http1_flow import Inbox, Waiter
from deuz_proxy.edge.http1_framing import Length, NotHttp
from deuz_proxy.edge.http1_wire import AnswerHead, read_answer

OK = b"HTTP/1.1 200 OK\r\n"


def exchange(method: bytes = b"GET") -> Exchange:
    loop = asyncio.new_event_loop()
    loop.close()
    inbox = Inbox(asyncio.Transport(), Waiter(loop))
    return Exchange(inbox, method, is_switch=False, inform=None)


def stated(length: bytes, *, first: bytes = OK) -> bytes:
    return (
        first + b"A: 1\r\nContent-Length: %b\r\nKeep-Alive: timeout=5\r\n\r\n" % length
    )


def told(answer: AnswerHead) -> tuple[object, ...]:
    """Return what a head says; framings are no values."""
    framing = answer.framing
    length = framing.stated_bytes if isinstance(framing, Length) else type(framing)
    rest = (answer.is_kept_alive, answer.keep_seconds, answer.kind, answer.codings)
    return answer.status, answer.reason, answer.lines, length, *rest


@given(lengths=st.lists(st.integers(0, 10**18 - 1), min_size=2, max_size=5))
def test_heads_that_differ_in_their_length_are_read_as_they_are(
    lengths: list[int],
) -> None:
    reader, asked = AnswerReader(), exchange()

    for length in lengths:
        text = stated(b"%d" % length)
        alike = reader.read_alike(text + b"body", asked)
        answer = alike[0] if alike else reader.read(text, asked)
        assert told(answer) == told(read_answer(text, method=b"GET"))
        assert alike is None or alike[1] == b"body"


def test_a_head_like_the_last_is_known_with_lines_and_a_framing_of_its_own() -> None:
    reader, asked = AnswerReader(), exchange()
    first = reader.read(stated(b"123"), asked)

    alike = reader.read_alike(stated(b"7") + b"rest", asked)

    assert alike is not None
    assert alike[1] == b"rest"
    assert told(alike[0]) == told(read_answer(stated(b"7"), method=b"GET"))
    assert (b"Content-Length", b"123") in first.lines
    assert alike[0].framing is not first.framing


@pytest.mark.parametrize(
    "other",
    [
        stated(b"7", first=b"HTTP/1.1 201 OK\r\n"),
        stated(b"7", first=b"HTTP/1.0 200 OK\r\n"),
        stated(b"1234"),
        stated(b"+7"),
        stated(b""),
        stated(b"7\r\nContent-Length: 8"),
        stated(b"7")[:-2],
        stated(b"7")[:-2] + b"B: 1\r\n\r\n",
        stated(b"7").replace(b"A: 1", b"A: 2"),
        OK + b"A: 1\r\nTransfer-Encoding: chunked\r\n\r\n",
    ],
)
def test_whatever_else_differs_or_is_longer_is_read(other: bytes) -> None:
    reader, asked = AnswerReader(), exchange()
    reader.read(stated(b"123"), asked)

    assert reader.read_alike(other, asked) is None


@pytest.mark.parametrize("bad", [b"+7", b"7x", b"", b"1_0", b"\xb2"])
def test_a_length_that_is_none_is_refused_behind_a_good_one_too(bad: bytes) -> None:
    reader, asked = AnswerReader(), exchange()
    reader.read(stated(b"123"), asked)

    with pytest.raises(NotHttp):
        reader.read(stated(bad), asked)


def test_the_answer_to_a_head_request_has_no_body_whatever_was_answered_before() -> (
    None
):
    reader = AnswerReader()
    reader.read(stated(b"123"), exchange())

    assert reader.read_alike(stated(b"123"), exchange(b"HEAD")) is None
    assert reader.read(stated(b"123"), exchange(b"HEAD")).framing is None


@pytest.mark.parametrize(
    "untidy",
    [
        b"HTTP/1.1 204 No\r\nContent-Length: 5\r\n\r\n",
        OK + b"Content-Length: 5\r\ncontent-length: 5\r\n\r\n",
        OK + b"Content-Length : 5\r\n\r\n",
        OK + b"Content-Length:5\r\n\r\n",
        OK + b"Content-Length: 5\n\n",
        OK + b"A: %b\r\nContent-Length: 5\r\n\r\n" % (b"x" * 5000),
    ],
)
def test_a_head_that_is_long_or_states_its_length_untidily_is_not_kept(
    untidy: bytes,
) -> None:
    reader, asked = AnswerReader(), exchange()

    reader.read(untidy, asked)

    assert reader.read_alike(untidy, asked) is None
