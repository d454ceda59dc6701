"""Requests out of one connection's bytes: cut anywhere, the same requests."""

import asyncio
import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from deuz_proxy.edge.http1_bounds import Bounds
from deuz_proxy.edge.http1_connection import Connection
from deuz_proxy.edge.http1_turn import Turn
from deuz_proxy.errors import RequestTooSlow, SidecarError

TEXTS = (
    b"\r\nPOST /a HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhello",
    b"GET /b HTTP/1.1\r\nHost: a\r\n\r\n",
    b"PUT /c HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n"
    b"3;x\r\nabc\r\n2\r\nde\r\n0\r\nT: 1\r\n\r\n",
    b"GET /d HTTP/1.0\r\n\r\n",
)
TEXT = b"".join(TEXTS)
ENDS = list(itertools.accumulate(map(len, TEXTS)))
REQUESTS = [(b"/a", b"hello"), (b"/b", b""), (b"/c", b"abcde"), (b"/d", b"")]


class Pipe(asyncio.Transport):
    """A transport without a socket."""

    is_ended = False
    is_reading_now = True

    def get_extra_info(self, name: str, default: object = None) -> object:
        return self

    def setsockopt(self, *_: int) -> None:
        """There is no socket."""

    def set_write_buffer_limits(
        self, high: int | None = None, low: int | None = None
    ) -> None:
        """There is no buffer."""

    def is_closing(self) -> bool:
        return self.is_ended

    def get_write_buffer_size(self) -> int:
        return 0

    def pause_reading(self) -> None:
        self.is_reading_now = False

    def resume_reading(self) -> None:
        self.is_reading_now = True

    def close(self) -> None:
        self.is_ended = True

    abort = close


def make_connection(loop: asyncio.AbstractEventLoop) -> Connection:
    known: list[Connection] = []
    return Connection(
        Turn(loop),
        bounds=Bounds(),
        desk=memoryview(bytearray(100)),
        enter=known.append,
        leave=known.append,
    )


def read(connection: Connection, data: bytes) -> None:
    """Do as the event loop does with what a socket has."""
    while data:
        place = connection.get_buffer(-1)
        length = min(len(place), len(data))
        place[:length] = data[:length]
        connection.buffer_updated(length)
        data = data[length:]


async def play(pieces: list[bytes], *, is_whole: bool) -> list[tuple[bytes, bytes]]:
    """Return the requests that a connection makes of these pieces, with bodies."""

    async def serve() -> None:
        try:
            while request := await connection.next_request():
                inbox = connection.inbox
                if is_whole:
                    await inbox.wait()
                    body = b"".join(inbox.take_all())
                else:
                    body = b"".join([piece async for piece in inbox.pieces()])
                got.append((request.target, body))
                connection.is_answered = True
        except SidecarError as fault:
            got.append((fault.code.encode(), b""))

    loop = asyncio.get_running_loop()
    got: list[tuple[bytes, bytes]] = []
    connection = make_connection(loop)
    connection.connection_made(Pipe())
    connection.task = asyncio.ensure_future(serve())
    for piece in pieces:
        read(connection, piece)
        if len(piece) % 3:
            await asyncio.sleep(0)
    for _ in range(30):
        await asyncio.sleep(0)
    connection.connection_lost(None)
    await asyncio.wait((connection.task,))
    return got


@given(cuts=st.sets(st.integers(1, len(TEXT) - 1)), is_whole=st.booleans())
@settings(deadline=None)
def test_requests_are_the_same_wherever_they_are_cut(
    cuts: set[int], is_whole: bool
) -> None:
    ends = [0, *sorted(cuts), len(TEXT)]
    pieces = [TEXT[start:end] for start, end in itertools.pairwise(ends)]

    assert asyncio.run(play(pieces, is_whole=is_whole)) == REQUESTS


@given(
    data=st.binary(max_size=100),
    at=st.integers(0, len(TEXT)),
    is_whole=st.booleans(),
)
@settings(deadline=None)
def test_garbage_ends_the_requests_and_nothing_before_it(
    data: bytes, at: int, is_whole: bool
) -> None:
    got = asyncio.run(play([TEXT[:at] + data], is_whole=is_whole))

    whole = [each for each, end in zip(REQUESTS, ENDS, strict=True) if end <= at]
    assert got[: len(whole)] == whole


async def test_a_client_that_leaves_before_its_request_is_taken_is_not_served() -> None:
    async def serve() -> None:
        await connection.next_request()

    loop = asyncio.get_running_loop()
    connection = make_connection(loop)
    connection.connection_made(Pipe())
    connection.task = asyncio.ensure_future(serve())
    await asyncio.sleep(0)

    read(connection, b"GET / HTTP/1.1\r\nHost: a\r\n\r\n")
    connection.eof_received()
    connection.connection_lost(None)
    await asyncio.wait((connection.task,))

    assert connection.task.cancelled()


async def test_a_body_of_known_length_is_read_to_its_place_until_it_is_given_up() -> (
    None
):
    connection = make_connection(asyncio.get_running_loop())
    connection.connection_made(Pipe())
    read(
        connection,
        b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 90\r\n\r\nten bytes.",
    )
    assert await connection.next_request()
    assert len(connection.get_buffer(-1)) == 80

    connection.look_for_silence(0.0)
    connection.look_for_silence(Bounds().body_seconds + 1)
    assert len(connection.get_buffer(-1)) == 100
    read(connection, b"late")

    with pytest.raises(RequestTooSlow):
        connection.inbox.take_all()


async def test_a_large_body_that_nobody_took_does_not_stop_the_next_request() -> None:
    loop = asyncio.get_running_loop()
    pipe = Pipe()
    connection = make_connection(loop)
    connection.connection_made(pipe)
    head = b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n"
    read(connection, head + b"%x\r\n%b\r\n0\r\n\r\n" % (600_000, b"x" * 600_000))
    assert await connection.next_request()
    assert connection.is_whole
    assert not pipe.is_reading_now

    connection.is_answered = True
    waiting = asyncio.ensure_future(connection.next_request())
    await asyncio.sleep(0)

    assert pipe.is_reading_now
    read(connection, head)
    assert await waiting
