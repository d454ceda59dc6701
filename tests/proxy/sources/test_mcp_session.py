import asyncio
import os
import signal
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager
from typing import Any

import pytest
import pytest_asyncio

from deuz_proxy.errors import SourceFailed
from deuz_proxy.sources.mcp_session import Session
from deuz_proxy.sources.mcp_wires import stdio_wire
from deuz_testing.mcp_servers import STDIO
from deuz_testing.waiting import WAIT_SECONDS, until

pytestmark = pytest.mark.e2e


class Starts:
    """Connects by running the sample server, and counts how often."""

    def __init__(self, command: tuple[str, ...] = STDIO) -> None:
        self.count = 0
        self.ends = 0
        self.command = command

    def __call__(self, ended: Callable[[], None]) -> AbstractAsyncContextManager[Any]:
        self.count += 1

        def end() -> None:
            self.ends += 1
            ended()

        return stdio_wire(self.command, {}, most_bytes=100_000, ended=end)


@pytest.fixture
def starts() -> Starts:
    return Starts()


@pytest_asyncio.fixture
async def session(starts: Starts) -> AsyncIterator[Session]:
    made = Session("m", starts)
    await made.open()
    yield made
    await made.close()


async def pid_of(client: Any) -> int:
    result = await client.call_tool("search", {"query": "x"})
    return int(result.structured_content["results"][0]["text"].split()[0])


async def test_all_who_ask_at_once_share_one_server(
    session: Session, starts: Starts
) -> None:
    clients = await asyncio.gather(*[session.client() for _ in range(5)])

    assert len(set(map(id, clients))) == 1
    assert starts.count == 1


async def test_who_gives_up_waiting_does_not_stop_the_start(
    session: Session, starts: Starts
) -> None:
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.01):
            await session.client()

    await session.client()
    assert starts.count == 1


async def test_a_server_that_died_while_idle_is_noticed_and_replaced(
    session: Session, starts: Starts
) -> None:
    first = await session.client()

    os.kill(await pid_of(first), signal.SIGKILL)
    await until(lambda: starts.ends == 1)

    assert await session.client() is not first
    assert starts.count == 2


async def test_a_session_that_was_lost_is_ended_once(
    session: Session, starts: Starts
) -> None:
    first = await session.client()
    pid = await pid_of(first)

    session.lose(first)
    session.lose(first)
    second = await session.client()
    session.lose(first)

    assert await session.client() is second
    await until(lambda: starts.ends == 1)
    assert await pid_of(second) != pid


async def test_a_start_that_failed_is_tried_again_by_the_next() -> None:
    starts = Starts(("/no/such/program",))
    session = Session("m", starts)
    await session.open()
    with pytest.raises(SourceFailed):
        await session.client()
    starts.command = STDIO

    await session.client()
    await session.close()


async def test_closing_during_the_start_leaves_nothing() -> None:
    before = asyncio.all_tasks()
    session = Session("m", Starts(("/bin/sleep", "600")))
    await session.open()
    await asyncio.sleep(0)

    async with asyncio.timeout(WAIT_SECONDS):
        await session.close()

    await until(lambda: not asyncio.all_tasks() - before)
    with pytest.raises(SourceFailed, match="it is closed"):
        await session.client()
