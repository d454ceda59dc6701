import asyncio
import sqlite3
import threading

import pytest

from deuz_proxy.stores.sqlite_thread import SqliteThread
from deuz_testing.waiting import WAIT_SECONDS


@pytest.fixture
async def thread() -> SqliteThread:
    connection = sqlite3.connect(":memory:", check_same_thread=False)
    return SqliteThread(connection, "test")


async def test_jobs_are_answered_in_their_order_off_the_loop(
    thread: SqliteThread,
) -> None:
    names: list[str] = []

    def work(file: sqlite3.Connection) -> int:
        names.append(threading.current_thread().name)
        answer: int = file.execute("select ?", (len(names),)).fetchone()[0]
        return answer

    futures = [thread.submit(work) for _ in range(5)]

    assert await asyncio.gather(*futures) == [1, 2, 3, 4, 5]
    assert set(names) == {"test"}
    await thread.close(grace_seconds=5)


async def test_what_a_job_raises_is_its_answer_and_the_next_goes_on(
    thread: SqliteThread,
) -> None:
    with pytest.raises(sqlite3.OperationalError):
        await thread.submit(lambda file: file.execute("select from"))

    assert await thread.submit(lambda file: file.execute("select 1").fetchone()) == (1,)
    await thread.close(grace_seconds=5)


async def test_a_job_that_nobody_waits_for_is_not_begun(thread: SqliteThread) -> None:
    release, ran = threading.Event(), []
    first = thread.submit(lambda _: release.wait(20))
    second = thread.submit(lambda _: ran.append("second"))

    second.cancel()
    release.set()
    await first
    await thread.close(grace_seconds=5)

    assert ran == []


async def test_a_thread_that_hangs_takes_no_endless_line(thread: SqliteThread) -> None:
    release = threading.Event()
    waiting = [thread.submit(lambda _: release.wait(20)) for _ in range(512)]

    # The first may have been taken from the line by now.
    waiting += [
        thread.submit(lambda _: True) for _ in range(512 - thread._jobs.qsize())
    ]
    with pytest.raises(sqlite3.OperationalError):
        _ = thread.submit(lambda _: True)

    release.set()
    await asyncio.gather(*waiting)
    await thread.close(grace_seconds=5)


async def test_a_thread_that_hangs_does_not_hold_up_the_end(
    thread: SqliteThread,
) -> None:
    release = threading.Event()
    hanging = thread.submit(lambda _: release.wait(20))

    async with asyncio.timeout(WAIT_SECONDS):
        await thread.close(grace_seconds=0.01)

    with pytest.raises(sqlite3.OperationalError):
        _ = thread.submit(lambda _: True)
    release.set()
    await hanging
    await thread.close(grace_seconds=5)
    await thread.close(grace_seconds=5)


def test_an_answer_that_comes_after_the_loop_is_dropped() -> None:
    release = threading.Event()

    async def leave() -> SqliteThread:
        connection = sqlite3.connect(":memory:", check_same_thread=False)
        thread = SqliteThread(connection, "late")
        _ = thread.submit(lambda _: release.wait(20))
        _ = thread.submit(lambda _: 1 / 0)
        await thread.close(grace_seconds=0.01)
        return thread

    thread = asyncio.run(leave())
    release.set()
    thread._thread.join(5)

    assert not thread._thread.is_alive()
