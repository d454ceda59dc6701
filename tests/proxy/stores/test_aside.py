import asyncio

from deuz_proxy.stores.aside import MOST_WAITING, Aside
from deuz_testing.waiting import WAIT_SECONDS


async def test_work_is_done_in_its_order_and_a_fault_stops_nothing() -> None:
    aside, done = await Aside().open(), []

    async def work(number: int) -> None:
        done.append(number)
        if number == 1:
            raise ZeroDivisionError

    for number in range(4):
        assert aside.add(lambda number=number: work(number))  # type: ignore[misc]  # A default, as a closure.
    await aside.settle()

    assert done == [0, 1, 2, 3]
    await aside.close(grace_seconds=5)


async def test_what_waits_is_done_before_the_end_and_what_hangs_is_not() -> None:
    aside, done = await Aside().open(), []

    async def work() -> None:
        done.append(True)

    async def hang() -> None:
        await asyncio.sleep(60)

    aside.add(work)
    aside.add(hang)
    async with asyncio.timeout(WAIT_SECONDS):
        await aside.close(grace_seconds=0.05)
        await aside.close(grace_seconds=0.05)

    assert done == [True]


async def test_no_more_is_taken_than_may_wait() -> None:
    aside = await Aside().open()
    release = asyncio.Event()

    taken = sum(aside.add(release.wait) for _ in range(MOST_WAITING + 10))
    release.set()

    assert taken == MOST_WAITING
    await aside.settle()
    await aside.close(grace_seconds=5)


async def test_closing_what_was_never_opened_is_nothing() -> None:
    await Aside().close(grace_seconds=1)
