"""Worker processes of a keeper: real ones, on a real address."""

import asyncio
import os
import signal
import socket
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager

import pytest

from deuz_proxy.config.load import load_config
from deuz_proxy.config.model import Config, Upstream
from deuz_proxy.edge.listening import hold_address
from deuz_proxy.edge.worker_channel import Begin, Prepare, pack_config
from deuz_proxy.edge.workers import Workers, _Slot, pause_seconds
from deuz_proxy.errors import WorkerFailed
from deuz_proxy.observe.events import (
    Event,
    EventsLost,
    FaultCaught,
    WorkerEnded,
    WorkerStarted,
)
from deuz_testing.raw_client import ask, post, request
from deuz_testing.upstreams import Got, raw_upstream
from deuz_testing.waiting import until

pytestmark = pytest.mark.e2e

START_SECONDS = 30.0
PLAIN = load_config(None, {})


def with_upstream(name: str, url: str) -> Config:
    return PLAIN.model_copy(
        update={"upstreams": {**PLAIN.upstreams, name: Upstream(url=url)}}
    )


MINE = pack_config(with_upstream("mine", "http://127.0.0.1:1"))


class Team:
    """Running workers, what they told, and where they serve."""

    def __init__(self, count: int, config: Config) -> None:
        self.events: list[Event] = []
        address, self.held = hold_address("127.0.0.1:0")
        self.url = f"http://{address}"
        self.workers = Workers(
            count,
            Begin(pack_config(config), address, ""),
            notice=self.events.append,
            environ=os.environ,
        )

    async def close(self) -> None:
        await self.workers.close(grace_seconds=1)
        for each in self.held:
            each.close()

    def processes(self) -> list[int]:
        return [slot.process.pid for slot in self.workers._slots if slot.process]

    def of(self, kind: type) -> list[Event]:
        return [event for event in self.events if isinstance(event, kind)]


@asynccontextmanager
async def team(count: int, config: Config = PLAIN) -> AsyncIterator[Team]:
    made = Team(count, config)
    async with AsyncExitStack() as stack:
        stack.push_async_callback(made.close)
        async with asyncio.timeout(START_SECONDS):
            await made.workers.open()
        yield made


async def test_all_listen_and_between_them_tell_every_request() -> None:
    async with team(2) as made:
        assert made.workers.listening == 2
        for _ in range(20):
            await ask(made.url, request("GET", "/@nobody/x", None))
        await until(lambda: len(made.of(FaultCaught)) == 20)

    assert sorted(made.of(WorkerStarted), key=str) == [
        WorkerStarted(0),
        WorkerStarted(1),
    ]
    assert sorted(made.of(WorkerEnded), key=str) == [
        WorkerEnded(0, is_failure=False),
        WorkerEnded(1, is_failure=False),
    ]


async def test_a_killed_worker_is_told_with_what_it_had_and_started_again() -> None:
    async def never(got: Got) -> None:
        await got.read_body()
        await asyncio.Event().wait()

    async with raw_upstream(never) as upstream:
        config = with_upstream("anthropic", upstream.url)
        async with team(1, config) as made:
            asking = asyncio.ensure_future(ask(made.url, post("/v1/messages", b"{}")))
            await upstream.until_asked()
            await until(lambda: len(made.events) > 1)
            (process,) = made.processes()

            os.kill(process, signal.SIGKILL)
            with pytest.raises((ConnectionError, asyncio.IncompleteReadError)):
                await asking
            await until(lambda: bool(made.of(WorkerEnded)))
            assert made.workers.listening == 0
            await until(lambda: made.workers.listening == 1, START_SECONDS)
            answered = await ask(made.url, request("GET", "/@nobody/x", None))

    assert answered.status == 404
    assert made.of(EventsLost) == [EventsLost(1, (("anthropic", -1),))]
    assert made.of(WorkerEnded)[0] == WorkerEnded(0, is_failure=True)


async def test_a_config_is_taken_by_all_and_by_a_worker_that_starts_later() -> None:
    async with team(2) as made:
        await made.workers.prepare(MINE)
        await made.workers.take()
        await until_all(made, 502)

        os.kill(made.processes()[0], signal.SIGKILL)
        await until(lambda: made.workers.listening == 1)
        await until(lambda: made.workers.listening == 2, START_SECONDS)

        await until_all(made, 502)


async def until_all(made: Team, status: int) -> None:
    """Ask over many connections, so that each worker has some, until all agree."""
    for _ in range(100):
        asked = [ask(made.url, request("GET", "/@mine/x", None)) for _ in range(16)]
        if {answered.status for answered in await asyncio.gather(*asked)} == {status}:
            return
    raise AssertionError("the workers do not agree")


async def test_a_worker_killed_while_it_prepares_begins_with_what_was_taken() -> None:
    async with team(2) as made:
        preparing = asyncio.ensure_future(made.workers.prepare(MINE))
        await asyncio.sleep(0)
        os.kill(made.processes()[0], signal.SIGKILL)

        await asyncio.wait_for(preparing, START_SECONDS)
        await made.workers.take()
        await until(lambda: bool(made.of(WorkerEnded)))
        await until(lambda: made.workers.listening == 2, START_SECONDS)

        await until_all(made, 502)


async def test_what_cannot_be_prepared_is_told_and_not_taken() -> None:
    async with team(2) as made:
        made.workers._config = made.workers._prepared
        slot = made.workers._slots[0]
        answer = slot.prepare(b"no config")

        assert await asyncio.wait_for(answer, START_SECONDS)

        await asyncio.wait_for(slot.take(b"no config either"), START_SECONDS)
        slot.send(Prepare(b"nor this"))
        await until(lambda: bool(made.of(FaultCaught)))
        await until_all(made, 404)


async def test_workers_that_cannot_begin_are_an_error_with_the_reason() -> None:
    events: list[Event] = []
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        begin = Begin(pack_config(PLAIN), address, "")
        workers = Workers(2, begin, notice=events.append, environ=os.environ)

        with pytest.raises(WorkerFailed, match=f"{address} .* in use$"):
            await asyncio.wait_for(workers.open(), START_SECONDS)
        await workers.close(grace_seconds=0)

    assert workers.listening == 0
    assert not any(isinstance(event, WorkerStarted) for event in events)


async def test_a_worker_that_does_not_end_is_made_to() -> None:
    async with team(1) as made:
        (process,) = made.processes()
        os.kill(process, signal.SIGSTOP)

        made.workers._kill()
        await until(lambda: not made.processes())

    assert made.of(WorkerEnded)[0] == WorkerEnded(0, is_failure=True)


async def test_an_answer_that_comes_late_is_not_taken_for_the_next_ones() -> None:
    told: list[Event] = []
    slot = _Slot(1, told.append)
    slot.prepare(b"one").cancel()
    second = slot.prepare(b"two")

    slot.answer(None)
    assert not second.done()
    slot.answer("StoreUnusable")

    assert second.result() == "StoreUnusable"
    assert told == []


async def test_a_config_that_is_to_be_taken_at_once_is_told_where_it_is_refused(
    caplog: pytest.LogCaptureFixture,
) -> None:
    told: list[Event] = []
    slot = _Slot(1, told.append)
    taken = slot.take(b"one")

    slot.answer("StoreUnusable")
    slot.answer(None)

    assert taken.result() is None
    assert told == [FaultCaught("other", "reload", WorkerFailed.code)]
    assert "worker 1 did not take the config: StoreUnusable" in caplog.text


def test_pauses_double_up_to_half_a_minute() -> None:
    pauses = [pause_seconds(failures) for failures in (1, 2, 3, 7, 50)]

    assert pauses == [0.5, 1.0, 2.0, 30.0, 30.0]
