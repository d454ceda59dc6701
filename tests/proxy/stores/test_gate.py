import asyncio
import traceback

import pytest

from deuz_proxy.errors import StoreFailed
from deuz_proxy.stores.breaker import FIRST_PAUSE_SECONDS, PATIENCE
from deuz_proxy.stores.gate import Gate
from deuz_testing.ledger_suite import ManualClock, Told
from deuz_testing.waiting import WAIT_SECONDS


class Unreachable(Exception):
    """What a driver raises."""


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def told() -> Told:
    return Told()


@pytest.fixture
def gate(clock: ManualClock, told: Told) -> Gate:
    return Gate(
        "sqlite",
        "read",
        faults=(Unreachable,),
        deadline_seconds=0.02,
        clock=clock,
        tell=told,
    )


async def answer() -> str:
    return "yes"


async def fail() -> str:
    raise Unreachable("redis://:canary@host")


async def hang() -> str:
    await asyncio.sleep(600)
    return "late"


async def test_an_answer_is_handed_through_and_not_told(gate: Gate, told: Told) -> None:
    assert await gate.ask(answer) == "yes"
    assert told.events == []


async def test_a_store_that_fails_is_told_without_its_own_words(
    gate: Gate, told: Told
) -> None:
    with pytest.raises(StoreFailed) as caught:
        await gate.ask(fail)

    assert "canary" not in "".join(traceback.format_exception(caught.value))
    assert (told.last.op, told.last.status, told.last.store) == (
        "read",
        "failed",
        "sqlite",
    )
    assert told.last.is_available


async def test_nobody_waits_longer_than_the_deadline(gate: Gate, told: Told) -> None:
    async with asyncio.timeout(WAIT_SECONDS):
        with pytest.raises(StoreFailed):
            await gate.ask(hang)

    assert told.last.status == "late"


async def test_a_store_that_keeps_failing_is_not_asked_until_the_pause_is_over(
    gate: Gate, clock: ManualClock, told: Told
) -> None:
    for _ in range(PATIENCE):
        with pytest.raises(StoreFailed):
            await gate.ask(fail)
    assert not told.last.is_available
    with pytest.raises(StoreFailed):
        await gate.ask(answer)
    assert told.last.status == "open"

    clock.move(FIRST_PAUSE_SECONDS)

    assert await gate.ask(answer) == "yes"
    gate.say("read", 1, (3, 4))
    assert (told.last.is_available, told.last.entries, told.last.bytes) == (True, 3, 4)


async def test_a_fault_of_our_own_is_not_the_stores(gate: Gate, told: Told) -> None:
    async def stumble() -> str:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await gate.ask(stumble)

    assert told.events == []


async def test_a_client_that_leaves_is_no_failure_of_the_store(
    gate: Gate, told: Told
) -> None:
    asking = asyncio.ensure_future(gate.ask(hang))
    await asyncio.sleep(0)

    asking.cancel()

    with pytest.raises(asyncio.CancelledError):
        await asking
    assert told.events == []
