"""What was read waits in order and bounded; what waits for an end is told of it."""

import asyncio
import socket
import tracemalloc

import pytest

from deuz_proxy.edge.http1_flow import (
    Inbox,
    Outlet,
    Waiter,
    has_hung_up,
)


class Tap(asyncio.Transport):
    """A transport of which only the reading is looked at."""

    is_reading_now = True
    is_ended = False

    def pause_reading(self) -> None:
        self.is_reading_now = False

    def resume_reading(self) -> None:
        self.is_reading_now = True

    def is_closing(self) -> bool:
        return self.is_ended


def make_inbox() -> tuple[Inbox, Tap]:
    tap = Tap()
    return Inbox(tap, Waiter(asyncio.get_running_loop())), tap


async def test_pieces_come_in_order_and_before_the_fault_behind_them() -> None:
    inbox, _ = make_inbox()
    inbox.put(b"one")
    inbox.put(b"two")
    inbox.end(BrokenPipeError())
    inbox.end()

    pieces = inbox.pieces()

    assert [await anext(pieces), await anext(pieces)] == [b"one", b"two"]
    with pytest.raises(BrokenPipeError):
        await anext(pieces)


async def test_a_task_that_waits_is_woken_by_what_comes() -> None:
    async def take() -> None:
        got.extend([piece async for piece in inbox.pieces()])

    waiter = Waiter(asyncio.get_running_loop())
    inbox = Inbox(Tap(), waiter)
    got: list[bytes] = []
    taking = asyncio.ensure_future(take())
    for piece in (b"one", b"two"):
        await asyncio.sleep(0)
        inbox.put(piece)
        waiter.wake()
    await asyncio.sleep(0)
    inbox.end()
    waiter.wake()
    await taking

    assert got == [b"one", b"two"]


async def test_a_full_inbox_stops_the_reading_until_it_is_taken() -> None:
    inbox, tap = make_inbox()
    inbox.put(b"x" * 600_000)
    inbox.put(b"y")
    assert not tap.is_reading_now

    pieces = inbox.pieces()
    await anext(pieces)
    assert not tap.is_reading_now
    await anext(pieces)
    assert tap.is_reading_now


def read_into(inbox: Inbox, data: bytes) -> None:
    assert inbox.room is not None
    inbox.room[: len(data)] = data
    inbox.fill(len(data))


async def test_a_gathered_body_is_read_to_its_place_and_is_one_piece() -> None:
    inbox, _ = make_inbox()
    inbox.put(b"one ")
    inbox.put(b"two ")
    inbox.gather(16)
    waiting = asyncio.ensure_future(inbox.wait())
    await asyncio.sleep(0)
    read_into(inbox, b"three")
    assert not waiting.done()
    read_into(inbox, b"...")

    inbox.end()
    inbox._waiter.wake()
    await waiting

    assert inbox.room is None
    assert inbox.take_all() == [b"one two three..."]


async def test_a_gathered_body_is_not_copied_when_it_is_taken() -> None:
    inbox, _ = make_inbox()
    inbox.put(b"x" * 400_000)
    tracemalloc.start()
    inbox.gather(6_000_000)
    read_into(inbox, b"y" * 5_600_000)
    inbox.end()
    tracemalloc.reset_peak()
    (body,) = inbox.take_all()
    peak_bytes = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()

    assert len(body) == 6_000_000
    assert peak_bytes < 7_000_000


async def test_no_room_is_made_for_what_is_only_promised_or_very_large() -> None:
    inbox, _ = make_inbox()
    inbox.put(b"x" * 999)

    inbox.gather(16_000)
    assert inbox.room is None

    inbox.put(b"x" * 600_000)
    inbox.gather(9_000_000)
    assert inbox.room is None


async def test_a_full_inbox_reads_on_where_there_is_room_for_the_whole() -> None:
    inbox, tap = make_inbox()
    inbox.put(b"x" * 600_000)

    inbox.gather(700_000)

    assert tap.is_reading_now
    assert inbox.room is not None
    assert len(inbox.room) == 100_000


async def test_a_body_that_is_taken_in_pieces_is_not_gathered_any_further() -> None:
    inbox, _ = make_inbox()
    inbox.put(b"one")
    inbox.gather(9)
    read_into(inbox, b"two")

    pieces = inbox.pieces()
    assert await anext(pieces) == b"onetwo"
    inbox.put(b"sev")
    inbox.gather(9)
    assert inbox.room is None
    inbox.end()

    assert [piece async for piece in pieces] == [b"sev"]


@pytest.mark.parametrize("is_dropped", [False, True])
async def test_nothing_is_read_to_the_place_of_a_body_that_broke_off(
    is_dropped: bool,
) -> None:
    inbox, _ = make_inbox()
    inbox.put(b"one")
    inbox.gather(9)

    if is_dropped:
        inbox.drop()
    inbox.end(BrokenPipeError())

    assert inbox.room is None
    with pytest.raises(BrokenPipeError):
        inbox.take_all()


async def test_pieces_are_offered_first_and_refused_ones_hold_up_the_next() -> None:
    def take(piece: bytes) -> bool:
        offered.append(piece)
        return piece != b"two"

    inbox, _ = make_inbox()
    offered: list[bytes] = []
    inbox.take = take
    assert inbox.put(b"one")
    assert not inbox.put(b"two")
    assert not inbox.put(b"three")

    pieces = inbox.pieces()
    assert [await anext(pieces), await anext(pieces)] == [b"two", b"three"]
    assert inbox.put(b"four")
    inbox.end()

    assert [piece async for piece in pieces] == []
    assert offered == [b"one", b"two", b"four"]


async def test_what_taking_a_piece_raises_is_raised_to_the_task() -> None:
    def take(_: bytes) -> bool:
        raise BrokenPipeError

    inbox, _ = make_inbox()
    inbox.take = take

    assert not inbox.put(b"one")
    assert inbox.is_over
    assert inbox.fault is not None
    with pytest.raises(BrokenPipeError):
        await anext(inbox.pieces())


@pytest.mark.parametrize("is_ended", [False, True])
async def test_a_dropped_inbox_reads_on_while_there_is_something_to_read(
    is_ended: bool,
) -> None:
    inbox, tap = make_inbox()
    inbox.put(b"x" * 600_000)
    tap.is_ended = is_ended

    inbox.drop()

    assert tap.is_reading_now is not is_ended


async def test_a_paused_outlet_lets_go_on_when_it_is_resumed() -> None:
    outlet = Outlet(asyncio.get_running_loop())
    outlet.pause()
    draining = asyncio.ensure_future(outlet.drain())
    await asyncio.sleep(0)
    assert not draining.done()

    outlet.resume()

    await draining
    await outlet.drain()


async def test_a_lost_outlet_tells_who_waits_and_who_comes_later() -> None:
    outlet = Outlet(asyncio.get_running_loop())
    outlet.pause()
    draining = asyncio.ensure_future(outlet.drain())
    await asyncio.sleep(0)

    outlet.lose()

    for each in (draining, outlet.drain()):
        with pytest.raises(ConnectionResetError):
            await each


async def test_waking_one_that_was_cancelled_or_never_waited_does_nothing() -> None:
    waiter = Waiter(asyncio.get_running_loop())
    waiter.wake()
    future = waiter.wait()
    future.cancel()

    waiter.wake()
    waiter.wake()

    assert future.cancelled()


async def test_a_whole_body_is_taken_once_without_waiting() -> None:
    inbox, _ = make_inbox()
    inbox.put(b"body")
    inbox.end()

    assert inbox.take_whole() == b"body"
    assert inbox.take_whole() is None
    assert [piece async for piece in inbox.pieces()] == []


@pytest.mark.parametrize(
    ("pieces", "fault"),
    [([], None), ([b"a", b"b"], None), ([b"a"], ConnectionResetError())],
)
async def test_a_body_that_is_cut_or_in_pieces_is_not_taken_whole(
    pieces: list[bytes], fault: Exception | None
) -> None:
    inbox, _ = make_inbox()
    for piece in pieces:
        inbox.put(piece)
    assert inbox.take_whole() is None
    inbox.end(fault)

    assert inbox.take_whole() is None


def test_the_other_side_has_hung_up_once_it_has_ended() -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        theirs.send(b"unread")
        assert not has_hung_up(ours.fileno())

        theirs.shutdown(socket.SHUT_WR)

        assert has_hung_up(ours.fileno())
