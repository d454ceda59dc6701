"""Requests of one turn leave together, and what ended or spoke meanwhile takes none."""

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial

import pytest

from deuz_compiler import Spliced
from deuz_proxy.edge.http1_client import Connection
from deuz_proxy.edge.http1_departures import Body, Departures, NothingSent, write_first
from deuz_proxy.edge.http1_turn import Turn
from deuz_proxy.edge.http1_upstreams import Http1Upstreams
from deuz_proxy.errors import UpstreamUnreachable
from deuz_testing.upstreams import RawUpstream, raw_upstream
from deuz_testing.waiting import WAIT_SECONDS, until

ON_BOTH_LOOPS = True
HEAD = b"GET / HTTP/1.1\r\n\r\n"


def _same(connection: Connection) -> Connection:
    return connection


@asynccontextmanager
async def connections(
    count: int,
) -> AsyncIterator[list[tuple[Connection, socket.socket]]]:
    """Make connections that were used before, each with the socket at its other end."""
    loop = asyncio.get_running_loop()
    made: list[tuple[Connection, socket.socket]] = []
    for _ in range(count):
        ours, theirs = socket.socketpair()
        theirs.setblocking(False)
        entered: list[Connection] = []
        connection = Connection(
            "u", Turn(loop), enter=entered.append, leave=entered.append
        )
        await loop.create_connection(partial(_same, connection), sock=ours)
        connection.is_old = True
        made.append((connection, theirs))
    try:
        yield made
    finally:
        for connection, theirs in made:
            connection.abort()
            theirs.close()
        await asyncio.sleep(0)


def write(
    connection: Connection, head: bytes, body: Body, length: bytes | None
) -> None:
    assert not isinstance(body, AsyncIterator)
    write_first(connection, head, body)


class BusyTurn(Turn):
    """Turns that always have much to do."""

    __slots__ = ()

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__(loop)
        self.is_busy = True

    def _begin(self) -> None:
        self._arrived = 0


def received(sock: socket.socket) -> bytes:
    try:
        return sock.recv(65_536)
    except BlockingIOError:
        return b""


async def outcome(connection: Connection, departures: Departures) -> str:
    """Let one request leave; return what becomes of it."""
    exchange = connection.prepare(b"GET")
    departures.add(connection, exchange, HEAD, None, None)
    try:
        async with asyncio.timeout(WAIT_SECONDS):
            answer = await connection.answer_head(exchange)
    except Exception as fault:  # noqa: BLE001  # Its kind is what is asked for.
        return type(fault).__name__
    return str(answer.status)


async def test_what_is_added_in_one_turn_leaves_behind_it() -> None:
    departures = Departures(BusyTurn(asyncio.get_running_loop()), write)
    async with connections(3) as made:
        for connection, theirs in made:
            exchange = connection.prepare(b"GET")
            departures.add(connection, exchange, HEAD, b"body", b"4")
            assert connection.is_idle
            assert received(theirs) == b""

        await asyncio.sleep(0)

        assert [received(theirs) for _, theirs in made] == [HEAD + b"body"] * 3
        assert not any(connection.is_idle for connection, _ in made)


async def test_where_a_turn_has_one_thing_to_do_it_leaves_at_once() -> None:
    turn = Turn(asyncio.get_running_loop())
    departures = Departures(turn, write)
    async with connections(1) as [(connection, theirs)]:
        departures.add(connection, connection.prepare(b"GET"), HEAD, b"body", b"4")

        assert received(theirs) == HEAD + b"body"


LONG = b"x" * 2**22


@pytest.mark.parametrize("body", [None, b"", b"short", b"y" * 20_000, LONG, "spliced"])
async def test_a_body_goes_out_whole_and_in_order(body: bytes | str | None) -> None:
    loop = asyncio.get_running_loop()
    spliced = Spliced((memoryview(LONG), b"block", LONG), 2 * len(LONG) + 5)
    given = spliced if isinstance(body, str) else body
    async with connections(1) as [(connection, theirs)]:
        write_first(connection, HEAD, given)
        wanted = HEAD + bytes(given or b"")
        got = bytearray()
        async with asyncio.timeout(WAIT_SECONDS):
            while len(got) < len(wanted):
                got += await loop.sock_recv(theirs, 2**20)

        assert got == wanted


@pytest.mark.parametrize("body", [b"short", LONG])
@pytest.mark.parametrize("way", ["ended here", "ended there"])
async def test_a_connection_that_takes_no_byte_says_so(body: bytes, way: str) -> None:
    async with connections(1) as [(connection, theirs)]:
        if way == "ended here":
            connection.abort()
        else:
            theirs.close()

        with pytest.raises(NothingSent):
            write_first(connection, HEAD, body)


async def test_each_turn_has_its_own_departures() -> None:
    departures = Departures(BusyTurn(asyncio.get_running_loop()), write)
    async with connections(2) as made:
        for connection, theirs in made:
            exchange = connection.prepare(b"GET")
            departures.add(connection, exchange, HEAD, None, None)
            await asyncio.sleep(0)
            assert received(theirs) == HEAD


@pytest.mark.parametrize("way", ["ends", "speaks", "is given up"])
async def test_what_a_connection_suffers_before_it_leaves_is_its_own(way: str) -> None:
    departures = Departures(BusyTurn(asyncio.get_running_loop()), write)
    async with connections(3) as made, asyncio.TaskGroup() as group:
        (_, first), (struck, second), (_, third) = made
        tasks = [
            group.create_task(outcome(connection, departures)) for connection, _ in made
        ]
        # It comes to the kernel; the loop has had no turn to read it.
        if way == "ends":
            second.shutdown(socket.SHUT_WR)
        elif way == "speaks":
            second.send(b"HTTP/1.1 408 Late\r\nContent-Length: 0\r\n\r\n")
        else:
            struck.abort()
        for sock in (first, third):
            asyncio.get_running_loop().call_later(
                0.01, sock.send, b"HTTP/1.1 204 None\r\n\r\n"
            )

        assert await asyncio.gather(*tasks) == ["204", "NothingSent", "204"]
        assert received(first) == received(third) == HEAD
        with contextlib.suppress(ConnectionError):
            assert received(second) == b""
        assert struck.transport.is_closing()


@pytest.mark.parametrize("way", ["ends", "speaks"])
async def test_what_comes_while_another_leaves_is_seen(way: str) -> None:
    """A request wakes the upstream, which may then end what it left idle."""

    def write_and_wake(
        connection: Connection, head: bytes, body: Body, length: bytes | None
    ) -> None:
        write(connection, head, body, length)
        if connection is made[0][0] and way == "ends":
            second.shutdown(socket.SHUT_WR)
        elif connection is made[0][0]:
            second.send(b"HTTP/1.1 408 Late\r\nContent-Length: 0\r\n\r\n")

    departures = Departures(BusyTurn(asyncio.get_running_loop()), write_and_wake)
    async with connections(2) as made, asyncio.TaskGroup() as group:
        (_, first), (_, second) = made
        tasks = [
            group.create_task(outcome(connection, departures)) for connection, _ in made
        ]
        await until(lambda: not made[0][0].is_idle)
        first.send(b"HTTP/1.1 204 None\r\n\r\n")

        assert await asyncio.gather(*tasks) == ["204", "NothingSent"]
        assert received(first) == HEAD
        with contextlib.suppress(ConnectionError):
            assert received(second) == b""


async def test_a_new_connection_may_have_been_spoken_to() -> None:
    """As TLS does behind its handshake."""
    departures = Departures(BusyTurn(asyncio.get_running_loop()), write)
    async with connections(1) as [(connection, theirs)]:
        connection.is_old = False
        exchange = connection.prepare(b"GET")
        departures.add(connection, exchange, HEAD, None, None)
        # The loop does not read it before: it is what the kernel has of an answer.
        connection.transport.pause_reading()
        theirs.send(b"HTTP/1.1 204 Early\r\n\r\n")
        await asyncio.sleep(0)

        assert received(theirs) == HEAD
        connection.transport.resume_reading()
        assert (await connection.answer_head(exchange)).status == 204


async def test_a_fault_in_writing_is_told_to_who_waits_and_to_nobody_else() -> None:
    def fail(
        connection: Connection, head: bytes, body: Body, length: bytes | None
    ) -> None:
        if connection is made[0][0]:
            raise MemoryError
        write(connection, head, body, length)

    departures = Departures(BusyTurn(asyncio.get_running_loop()), fail)
    async with connections(2) as made, asyncio.TaskGroup() as group:
        made[1][1].setblocking(True)
        tasks = [
            group.create_task(outcome(connection, departures)) for connection, _ in made
        ]
        await until(lambda: not made[1][0].is_idle)
        made[1][1].send(b"HTTP/1.1 204 None\r\n\r\n")

        assert await asyncio.gather(*tasks) == ["MemoryError", "204"]


async def test_what_has_not_left_when_all_is_closed_never_does() -> None:
    upstreams = await Http1Upstreams(
        connect_seconds=30, idle_seconds=30, turn=BusyTurn(asyncio.get_running_loop())
    ).open()

    async def ask(upstream: RawUpstream) -> bytes:
        reply = await upstreams.send(
            method="POST", base=upstream.url, path="/", headers=(), body=b"x"
        )
        return b"".join([chunk async for chunk in reply.chunks()])

    async def ask_late(upstream: RawUpstream) -> None:
        with pytest.raises(UpstreamUnreachable):
            await ask(upstream)

    async with raw_upstream() as upstream, asyncio.TaskGroup() as group:
        assert await ask(upstream) == b"ok"
        group.create_task(ask_late(upstream))
        # A turn for it to be added, and none to leave in.
        await asyncio.sleep(0)
        await upstreams.close()

    assert len(upstream.requests) == 1
