"""Answers as they come over a connection: cut anywhere, early, interim or broken."""

import asyncio
import contextlib
import itertools
import socket
import struct
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from deuz_proxy.edge.http1_client import Connection
from deuz_proxy.edge.http1_reply import Http1Reply, reply_of
from deuz_proxy.edge.http1_turn import Turn
from deuz_proxy.edge.http1_upstreams import Http1Upstreams
from deuz_proxy.errors import UpstreamBroken
from deuz_testing.upstreams import Answer, Got, RawUpstream, answer_with, raw_upstream
from deuz_testing.waiting import WAIT_SECONDS, until

ON_BOTH_LOOPS = True
RESET = struct.pack("ii", 1, 0)


@asynccontextmanager
async def between(answer: Answer) -> AsyncIterator[tuple[RawUpstream, Http1Upstreams]]:
    async with raw_upstream(answer) as upstream:
        upstreams = await Http1Upstreams(connect_seconds=30, idle_seconds=30).open()
        try:
            yield upstream, upstreams
        finally:
            await upstreams.close()


async def ask(
    upstreams: Http1Upstreams,
    upstream: RawUpstream,
    method: str = "GET",
    body: bytes | AsyncIterator[bytes] | None = None,
    upgrade: bytes | None = None,
) -> Http1Reply:
    return await upstreams.send(
        method=method,
        base=upstream.url,
        path="/",
        headers=(),
        body=body,
        upgrade=upgrade,
    )


async def read(reply: Http1Reply) -> bytes:
    return b"".join([chunk async for chunk in reply.chunks()])


# Every split.


class Pipe(asyncio.Transport):
    """A transport that keeps what is written, for bytes that come without a socket."""

    def __init__(self) -> None:
        super().__init__()
        self.is_ended = False

    def get_extra_info(self, name: str, default: object = None) -> object:
        return self

    def fileno(self) -> int:
        return 0

    def is_closing(self) -> bool:
        return self.is_ended

    def set_write_buffer_limits(
        self, high: int | None = None, low: int | None = None
    ) -> None:
        """There is no buffer."""

    def get_write_buffer_size(self) -> int:
        return 0

    def abort(self) -> None:
        self.is_ended = True


ANSWERS = {
    "length": b"HTTP/1.1 200 OK\r\nA: 1\r\nContent-Length: 11\r\n\r\nhello world",
    "chunked": b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
    b"5;x=1\r\nhello\r\n6\r\n world\r\n0\r\nX-T: 1\r\n\r\n",
    "endless": b"HTTP/1.1 200 OK\r\nA: 1\r\n\r\nhello world",
    "interim": b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early\r\nLink: x\r\n\r\n"
    b"HTTP/1.1 200 OK\r\nContent-Length: 11\r\n\r\nhello world",
    "untidy": b"HTTP/1.0 200\nA : 1\nContent-Length: 11\n\nhello world",
}


async def play(
    pieces: list[bytes], seen: list[bytes] | None = None
) -> tuple[int, list[tuple[bytes, bytes]], bytes]:
    """Return what comes out of a connection that gets these pieces and then ends.

    What came of the body is in `seen`, also where it breaks.
    """
    loop = asyncio.get_running_loop()
    gone: list[Connection] = []
    connection = Connection("u", Turn(loop), enter=gone.append, leave=gone.append)
    connection.connection_made(Pipe())
    exchange = connection.prepare(b"GET")
    connection.begin(exchange)
    for piece in pieces:
        connection.data_received(piece)
    connection.eof_received()
    connection.connection_lost(None)
    answer = await connection.answer_head(exchange)
    reply = reply_of(connection, exchange, answer, gone.append)
    seen = [] if seen is None else seen
    async for chunk in reply.chunks():
        seen.append(chunk)
    return reply.status, list(reply.headers), b"".join(seen)


@pytest.mark.parametrize("kind", ANSWERS)
async def test_every_split_in_two_gives_the_same_answer(kind: str) -> None:
    text = ANSWERS[kind]
    whole = await play([text])

    for at in range(1, len(text)):
        assert await play([text[:at], text[at:]]) == whole
    assert whole[2] == b"hello world"


@pytest.mark.parametrize("kind", ANSWERS)
def test_any_split_gives_the_same_answer(kind: str) -> None:
    text = ANSWERS[kind]

    @given(cuts=st.sets(st.integers(1, len(text) - 1)))
    @settings(deadline=None)
    def holds(cuts: set[int]) -> None:
        ends = [0, *sorted(cuts), len(text)]
        pieces = [text[start:end] for start, end in itertools.pairwise(ends)]
        assert asyncio.run(play(pieces))[2] == b"hello world"

    holds()


@pytest.mark.parametrize("kind", ["length", "chunked", "interim", "untidy"])
async def test_every_beginning_of_an_answer_is_a_broken_one(kind: str) -> None:
    text = ANSWERS[kind]

    for end in range(len(text)):
        with pytest.raises(UpstreamBroken):
            await play([text[:end]])


async def test_what_stands_ahead_of_a_break_comes_out_in_every_split() -> None:
    text = ANSWERS["chunked"].replace(b"\r\n6\r\n", b"\r\nsix\r\n")

    for at in range(len(text)):
        seen: list[bytes] = []
        with pytest.raises(UpstreamBroken):
            await play([text[:at], text[at:]], seen)

        assert b"".join(seen) == b"hello"


@given(data=st.binary(max_size=120))
@settings(deadline=None)
def test_garbage_breaks_the_answer_and_nothing_else(data: bytes) -> None:
    for text in (data, ANSWERS["chunked"][:47] + data):
        with contextlib.suppress(UpstreamBroken):
            asyncio.run(play([text]))


# Over sockets.


async def test_every_event_comes_alone_and_at_once() -> None:
    events = [b"data: %d\n\n" % number for number in range(5)]

    async def stream(got: Got) -> None:
        await got.say(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
        for event in events:
            await got.say(b"%x\r\n%b\r\n" % (len(event), event))
            await asyncio.wait_for(seen.acquire(), WAIT_SECONDS)
        await got.say(b"0\r\n\r\n")

    seen = asyncio.Semaphore(0)
    got = []
    async with between(stream) as (upstream, upstreams):
        reply = await ask(upstreams, upstream)
        async for chunk in reply.chunks():
            got.append(chunk)
            seen.release()

    assert got == events


async def test_interim_answers_are_handed_on_to_who_wants_them() -> None:
    said = b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Hints\r\nLink: x\r\n\r\n"
    said += b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
    got: list[object] = []
    async with between(answer_with(said)) as (upstream, upstreams):
        reply = await upstreams.send(
            method="POST",
            base=upstream.url,
            path="/",
            headers=(),
            body=b"x",
            inform=lambda *told: got.append(told),
        )
        unheard = await ask(upstreams, upstream, "POST", b"x")

        assert (reply.status, unheard.status) == (200, 200)
        assert await read(reply) == await read(unheard) == b"ok"
    assert got == [(100, b"Continue", []), (103, b"Hints", [(b"Link", b"x")])]


async def test_a_switch_that_was_not_asked_for_is_broken() -> None:
    said = b"HTTP/1.1 101 Go\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n"
    async with between(answer_with(said)) as (upstream, upstreams):
        with pytest.raises(UpstreamBroken):
            await ask(upstreams, upstream)


async def test_a_head_over_the_limit_is_broken() -> None:
    said = b"HTTP/1.1 200 OK\r\n" + b"A: %b\r\n" % (b"x" * 5000) * 60 + b"\r\n"
    async with between(answer_with(said)) as (upstream, upstreams):
        with pytest.raises(UpstreamBroken):
            await ask(upstreams, upstream)


async def endless(piece: bytes, seen: list[int]) -> AsyncIterator[bytes]:
    while True:
        seen.append(len(piece))
        yield piece
        await asyncio.sleep(0)


@pytest.mark.parametrize("closes", [False, True])
async def test_an_answer_before_the_end_of_the_request_is_handed_on(
    closes: bool,
) -> None:
    async def refuse(got: Got) -> None:
        await got.reader.readexactly(10)
        await got.say(b"HTTP/1.1 413 Too Much\r\nContent-Length: 2\r\n\r\nno")
        if closes:
            got.writer.close()
        else:
            await got.until_gone()

    seen: list[int] = []
    async with between(refuse) as (upstream, upstreams):
        reply = await ask(upstreams, upstream, "POST", endless(b"x" * 1000, seen))

        assert (reply.status, reply.reason) == (413, "Too Much")
        assert await read(reply) == b"no"
        # The upload ends with the answer, and the connection with it.
        await until(lambda: not upstreams._connections)
        count = len(seen)
        for _ in range(10):
            await asyncio.sleep(0)
        assert len(seen) == count


async def test_what_was_said_before_a_reset_outlives_the_write_that_meets_it() -> None:
    async def pieces() -> AsyncIterator[bytes]:
        yield b"some"
        accepted, _ = listener.accept()
        accepted.recv(10)
        accepted.sendall(b"HTTP/1.1 413 Too Much\r\nContent-Length: 2\r\n\r\nno")
        accepted.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
        accepted.close()
        # All of it is here now, but nobody has read it.
        yield b"more"

    upstreams = await Http1Upstreams(connect_seconds=30, idle_seconds=30).open()
    with socket.create_server(("127.0.0.1", 0)) as listener:
        reply = await upstreams.send(
            method="POST",
            base=f"http://127.0.0.1:{listener.getsockname()[1]}",
            path="/",
            headers=(),
            body=pieces(),
        )

        assert (reply.status, await read(reply)) == (413, b"no")
    await upstreams.close()


async def test_both_directions_flow_at_once() -> None:
    async def echo(got: Got) -> None:
        await got.say(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
        while size := int(await got.reader.readline(), 16):
            piece = await got.reader.readexactly(size)
            await got.reader.readexactly(2)
            await got.say(b"%x\r\n%b\r\n" % (size, piece))
        await got.say(b"0\r\n\r\n")

    async def pieces() -> AsyncIterator[bytes]:
        for number in range(5):
            yield b"%d" % number
            await asyncio.wait_for(seen.acquire(), WAIT_SECONDS)

    seen = asyncio.Semaphore(0)
    got = b""
    async with between(echo) as (upstream, upstreams):
        reply = await ask(upstreams, upstream, "POST", pieces())
        async for chunk in reply.chunks():
            got += chunk
            seen.release()

    assert got == b"01234"


async def test_what_is_not_taken_is_not_read_any_further() -> None:
    sent = 0

    async def pour(got: Got) -> None:
        nonlocal sent
        await got.say(b"HTTP/1.1 200 OK\r\n\r\n")
        for _ in range(300):
            await got.say(b"x" * 65_536)
            sent += 65_536
        got.writer.close()

    async with between(pour) as (upstream, upstreams):
        reply = await ask(upstreams, upstream)
        before = -1
        while before < sent:
            before = sent
            await asyncio.sleep(0.05)
        stuck_at = sent
        length = 0
        async for chunk in reply.chunks():
            length += len(chunk)

    assert stuck_at < 15_000_000
    assert length == 19_660_800


async def test_an_answer_longer_than_it_said_is_not_taken_for_a_good_one() -> None:
    said = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nokmore"
    async with between(answer_with(said)) as (upstream, upstreams):
        with pytest.raises(UpstreamBroken):
            await ask(upstreams, upstream)


async def test_an_answer_in_two_is_longer_than_it_said_only_once_it_was_taken() -> None:
    async def answer(got: Got) -> None:
        await got.say(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
        await asyncio.wait_for(taken.wait(), WAIT_SECONDS)
        await got.say(b"more")
        await got.until_gone()

    taken = asyncio.Event()
    async with between(answer) as (upstream, upstreams):
        reply = await ask(upstreams, upstream)
        assert await read(reply) == b"ok"
        taken.set()

        await asyncio.wait_for(upstream.last.gone.wait(), WAIT_SECONDS)


Step = Callable[[Http1Upstreams, RawUpstream], Awaitable[object]]


@pytest.mark.parametrize("turns", range(12))
async def test_a_request_cancelled_at_any_turn_leaves_no_connection_in_use(
    turns: int,
) -> None:
    async def answer(got: Got) -> None:
        await got.read_body()
        await got.say(
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n"
        )
        await got.say(b"0\r\n\r\n")

    async def whole() -> bytes:
        reply = await ask(upstreams, upstream, "POST", b"x")
        try:
            return await read(reply)
        finally:
            reply.close()

    async with between(answer) as (upstream, upstreams):
        asking = asyncio.ensure_future(whole())
        for _ in range(turns):
            await asyncio.sleep(0)
        asking.cancel()
        await asyncio.wait((asking,))

        await until(lambda: all(each.is_idle for each in upstreams._connections))
        assert await whole() == b"ok"
