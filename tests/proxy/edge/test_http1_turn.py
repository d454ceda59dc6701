"""What is sent in one turn goes out together, in order, and is not left behind."""

import asyncio
import struct
from typing import cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deuz_proxy.edge.http1_turn import JOINED_BYTES, MOST_WAITING, Sender, Turn

ON_BOTH_LOOPS = True


class Wire:
    """A transport that keeps each write."""

    def __init__(self) -> None:
        self.writes: list[bytes] = []
        self.is_ended = False
        self.waiting_bytes = 0
        # Whether the kernel was told to reset, each time that it was told.
        self.resets: list[bool] = []

    def is_closing(self) -> bool:
        return self.is_ended

    def write(self, data: bytes) -> None:
        assert not self.is_ended
        self.writes.append(data)

    def writelines(self, parts: tuple[bytes, ...]) -> None:
        self.write(b"".join(parts))

    def close(self) -> None:
        self.is_ended = True

    abort = close

    def get_write_buffer_size(self) -> int:
        return self.waiting_bytes

    def get_extra_info(self, _: str) -> "Wire":
        return self

    def setsockopt(self, _level: int, _name: int, how: bytes) -> None:
        self.resets.append(struct.unpack("ii", how) == (1, 0))


def sender(turn: Turn) -> tuple[Sender, Wire]:
    wire = Wire()
    return Sender(cast(asyncio.Transport, wire), turn), wire


async def busy() -> Turn:
    """Return the turns of this loop, in one that has much to do."""
    turn = Turn(asyncio.get_running_loop())
    turn.arrive()
    turn.arrive()
    await asyncio.sleep(0)
    return turn


@pytest.mark.parametrize(("arrivals", "is_busy"), [(1, False), (2, True), (9, True)])
async def test_a_turn_is_busy_for_which_more_than_one_thing_came(
    arrivals: int, *, is_busy: bool
) -> None:
    turn = Turn(asyncio.get_running_loop())
    for _ in range(arrivals):
        turn.arrive()
    await asyncio.sleep(0)
    assert turn.is_busy == is_busy

    turn.arrive()
    await asyncio.sleep(0)
    assert not turn.is_busy


async def test_one_thing_is_sent_at_once() -> None:
    way, wire = sender(Turn(asyncio.get_running_loop()))

    way.send(b"a")
    way.send(b"b", ahead=b"head")

    assert wire.writes == [b"a", b"headb"]


async def test_what_many_send_in_a_busy_turn_leaves_behind_it_in_one_write_each() -> (
    None
):
    turn = await busy()
    ways = [sender(turn) for _ in range(3)]
    for way, _ in ways:
        way.send(b"body", ahead=b"head")
        way.send(b"end")
    assert not any(wire.writes for _, wire in ways)

    await asyncio.sleep(0)

    assert [wire.writes for _, wire in ways] == [[b"headbodyend"]] * 3


async def test_no_more_than_a_few_wait_for_the_end_of_a_busy_turn() -> None:
    turn = await busy()
    ways = [sender(turn) for _ in range(MOST_WAITING + 1)]
    for way, _ in ways:
        way.send(b"event")
    *first, last = [wire for _, wire in ways]
    assert [wire.writes for wire in first] == [[b"event"]] * MOST_WAITING
    assert last.writes == []
    ways[0][0].send(b"next")

    await asyncio.sleep(0)

    assert first[0].writes == [b"event", b"next"]
    assert last.writes == [b"event"]


async def test_what_is_held_leaves_at_the_end_of_the_turn_or_with_what_follows() -> (
    None
):
    turn = Turn(asyncio.get_running_loop())
    alone, wire = sender(turn)
    alone.hold(b"head")
    assert wire.writes == []
    await asyncio.sleep(0)
    assert wire.writes == [b"head"]

    alone.hold(b"head")
    alone.send(b"body")
    await asyncio.sleep(0)
    assert wire.writes == [b"head", b"headbody"]


async def test_what_is_held_leaves_before_the_connection_is_closed() -> None:
    way, wire = sender(await busy())
    way.send(b"answer")
    way.close()

    await asyncio.sleep(0)

    assert wire.writes == [b"answer"]
    assert wire.is_ended


@pytest.mark.parametrize(
    ("waiting_bytes", "is_closed", "resets"),
    [(0, False, []), (1, False, [True]), (1, True, [True])],
)
async def test_a_connection_that_is_cut_ahead_of_what_waits_is_reset(
    waiting_bytes: int, is_closed: bool, resets: list[bool]
) -> None:
    sending, wire = sender(Turn(asyncio.get_running_loop()))
    wire.waiting_bytes, wire.is_ended = waiting_bytes, is_closed

    sending.abort()

    assert wire.is_ended
    assert wire.resets == resets


async def test_how_a_connection_ends_is_said_only_while_it_has_not() -> None:
    sending, wire = sender(Turn(asyncio.get_running_loop()))

    sending.break_at_end()
    sending.end_well()
    sending.close()
    sending.break_at_end()

    assert wire.resets == [True, False]


async def test_behind_its_end_nothing_is_sent() -> None:
    way, wire = sender(await busy())
    way.send(b"never")
    wire.is_ended = True
    way.send(b"never")
    way.flush()

    await asyncio.sleep(0)

    assert wire.writes == []


async def test_one_that_fails_holds_up_nobody(
    caplog: pytest.LogCaptureFixture,
) -> None:
    turn, content = await busy(), "canary"

    def fail() -> None:
        raise RuntimeError(content)

    way, wire = sender(turn)
    turn.add(fail)
    way.send(b"answer")

    await asyncio.sleep(0)

    assert wire.writes == [b"answer"]
    assert "RuntimeError" in caplog.text
    assert content not in caplog.text


SENT = st.lists(
    st.tuples(
        st.integers(0, MOST_WAITING),
        st.sampled_from(["send", "hold", "flush", "turn"]),
        st.sampled_from([b"", b"a", b"head", b"x" * (JOINED_BYTES - 2), b"y" * 40_000]),
        st.sampled_from([b"", b"status\r\n"]),
        st.integers(0, 3),
    ),
    max_size=24,
)


@given(SENT)
def test_bytes_go_out_in_the_order_they_were_given(
    sent: list[tuple[int, str, bytes, bytes, int]],
) -> None:
    async def run() -> None:
        turn = Turn(asyncio.get_running_loop())
        ways = [sender(turn) for _ in range(MOST_WAITING + 1)]
        given = [b""] * len(ways)
        for at, what, data, ahead, arrivals in sent:
            way, _ = ways[at]
            if what == "send":
                way.send(data, ahead=ahead)
                given[at] += ahead + data
            elif what == "hold":
                way.hold(data)
                given[at] += data
            elif what == "flush":
                way.flush()
            else:
                for _ in range(arrivals):
                    turn.arrive()
                await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert [b"".join(wire.writes) for _, wire in ways] == given

    asyncio.run(run())
