"""A worker, heard from its keeper's end: served, reloaded, drained, left alone."""

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from deuz_proxy.config.load import parse_config
from deuz_proxy.edge.worker_channel import (
    Begin,
    Channel,
    Drain,
    Listening,
    Message,
    Prepare,
    Prepared,
    Refused,
    Take,
    Taken,
    pack_config,
)
from deuz_proxy.observe.encoding import decode_event
from deuz_proxy.observe.events import Event, FaultCaught, RequestFinished
from deuz_proxy.worker import serve_keeper
from deuz_testing.raw_client import ask, post, request
from deuz_testing.upstreams import Got, raw_upstream
from deuz_testing.waiting import WAIT_SECONDS, until

UPSTREAM = "upstreams: {{anthropic: {{url: '{url}', wire: anthropic}}}}\n"
# How /proc writes that state of a socket.
LISTENING = "0A"
DRAIN = "limits: {drain_seconds: 2}\n"


def packed(text: str = "") -> bytes:
    return pack_config(parse_config(text, name="x", folder=Path(), environ={}))


class KeeperEnd:
    """The keeper's end of a worker in this process."""

    def __init__(self) -> None:
        self.answers: list[Message] = []
        self.events: list[Event] = []
        self.left: list[int] = []
        self.is_lost = False
        self.channel: Channel
        self.running: asyncio.Future[None]
        self.address = ""
        self.folder = ""

    async def begin(self, config: bytes) -> None:
        self.channel.send(Begin(config, self.address, self.folder))
        await self.answer()

    async def answer(self) -> Message:
        count = len(self.answers)
        await until(lambda: len(self.answers) > count)
        return self.answers[-1]

    def hear(self, line: bytes) -> None:
        self.events.append(decode_event(line))

    def lose(self) -> None:
        self.is_lost = True


@asynccontextmanager
async def worker() -> AsyncIterator[KeeperEnd]:
    loop, keeper = asyncio.get_running_loop(), KeeperEnd()
    ours, theirs = socket.socketpair()
    with socket.socket() as held:
        held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        held.bind(("127.0.0.1", 0))
        keeper.address = f"127.0.0.1:{held.getsockname()[1]}"
        _, keeper.channel = await loop.create_unix_connection(
            lambda: Channel(keeper.answers.append, keeper.lose, keeper.hear), sock=ours
        )
        keeper.running = asyncio.ensure_future(
            serve_keeper(theirs, {}, leave=keeper.left.append)
        )
        try:
            yield keeper
        finally:
            keeper.channel.transport.close()
            await asyncio.wait_for(keeper.running, WAIT_SECONDS)


def listens(address: str) -> bool:
    """Tell whether the kernel would take a connection for it: not once it drains."""
    port = f":{int(address.split(':')[1]):04X}"
    rows = [row.split() for row in Path("/proc/net/tcp").read_text().splitlines()]
    return any(row[1].endswith(port) and row[3] == LISTENING for row in rows[1:])


async def test_what_it_serves_it_tells() -> None:
    async with raw_upstream() as upstream, worker() as keeper:
        await keeper.begin(packed(UPSTREAM.format(url=upstream.url)))
        await ask(f"http://{keeper.address}", post("/v1/messages", b"{}"))
        await until(lambda: len(keeper.events) >= 2)

    assert keeper.answers == [Listening()]
    finished = keeper.events[-1]
    assert isinstance(finished, RequestFinished)
    assert (finished.status, finished.outcome) == (200, "ok")


async def test_a_config_changes_what_is_served_only_once_it_is_taken() -> None:
    async with worker() as keeper:
        url = f"http://{keeper.address}"
        await keeper.begin(packed())
        keeper.channel.send(
            Prepare(packed("upstreams: {mine: {url: 'http://[::1]:1'}}"))
        )
        assert await keeper.answer() == Prepared()
        assert (await ask(url, request("GET", "/@mine/x", None))).status == 404

        keeper.channel.send(Take())
        assert await keeper.answer() == Taken()
        keeper.channel.send(Take())
        assert await keeper.answer() == Taken()

        assert (await ask(url, request("GET", "/@mine/x", None))).status == 502
        for _ in range(2):
            keeper.channel.send(Prepare(packed()))
            assert await keeper.answer() == Prepared()


async def test_what_cannot_be_prepared_is_refused_and_changes_nothing() -> None:
    async with worker() as keeper:
        await keeper.begin(packed())

        keeper.channel.send(Prepare(b"no config"))
        refused = await keeper.answer()
        keeper.channel.send(Take())
        url = f"http://{keeper.address}"
        answered = await ask(url, request("GET", "/@mine/x", None))

    assert isinstance(refused, Refused)
    assert answered.status == 404


async def test_an_address_that_it_cannot_have_is_refused_with_the_reason() -> None:
    async with worker() as keeper:
        with socket.create_server(("127.0.0.1", 0)) as taken:
            keeper.address = f"127.0.0.1:{taken.getsockname()[1]}"
            await keeper.begin(packed())
        await asyncio.wait_for(keeper.running, WAIT_SECONDS)

    (refused,) = keeper.answers
    assert isinstance(refused, Refused)
    assert "in use" in refused.reason


async def test_a_drain_ends_what_runs_and_its_events_are_the_last_thing_told() -> None:
    go = asyncio.Event()

    async def slow(got: Got) -> None:
        await got.read_body()
        await go.wait()
        await got.say(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")

    async with raw_upstream(slow) as upstream, worker() as keeper:
        await keeper.begin(packed(UPSTREAM.format(url=upstream.url) + DRAIN))
        url = f"http://{keeper.address}"
        asking = asyncio.ensure_future(ask(url, post("/v1/messages", b"{}")))
        await upstream.until_asked()
        keeper.channel.send(Drain())
        await until(lambda: not listens(keeper.address))
        go.set()
        answered = await asking
        await asyncio.wait_for(keeper.running, WAIT_SECONDS)
        await until(lambda: keeper.is_lost)

    assert answered.body == b"ok"
    assert isinstance(keeper.events[-1], RequestFinished)
    assert keeper.left == []


async def test_a_keeper_that_is_gone_ends_it_and_what_the_keeper_had(
    tmp_path: Path,
) -> None:
    folder = tmp_path / "kept"
    folder.mkdir()
    (folder / "ledger.db").write_text("blocks")
    async with worker() as keeper:
        keeper.folder = str(folder)
        await keeper.begin(packed(DRAIN))

        keeper.channel.transport.close()
        await asyncio.wait_for(keeper.running, WAIT_SECONDS)

    assert keeper.left == []
    assert not is_there(folder)


async def test_a_worker_that_was_told_to_end_leaves_the_keepers_folder(
    tmp_path: Path,
) -> None:
    async with worker() as keeper:
        keeper.folder = str(tmp_path)
        await keeper.begin(packed(DRAIN))

        keeper.channel.send(Drain())
        await asyncio.wait_for(keeper.running, WAIT_SECONDS)

    assert is_there(tmp_path)


def is_there(folder: Path) -> bool:
    return folder.exists()


async def test_a_keeper_that_does_not_wait_for_the_drain_ends_it_at_once() -> None:
    async def never(got: Got) -> None:
        await asyncio.Event().wait()

    async with raw_upstream(never) as upstream, worker() as keeper:
        await keeper.begin(packed(UPSTREAM.format(url=upstream.url) + DRAIN))
        url = f"http://{keeper.address}"
        asking = asyncio.ensure_future(ask(url, post("/v1/messages", b"{}")))
        await upstream.until_asked()
        keeper.channel.send(Drain())
        await until(lambda: not listens(keeper.address))

        keeper.channel.transport.close()
        await until(lambda: bool(keeper.left))
        await asyncio.wait({asking})

    assert keeper.left == [1]


async def test_a_keeper_that_says_nothing_and_leaves_is_no_fault() -> None:
    async with worker() as keeper:
        keeper.channel.transport.close()
        await asyncio.wait_for(keeper.running, WAIT_SECONDS)

    assert keeper.left == []


async def test_a_request_that_leads_nowhere_is_told_as_a_fault() -> None:
    async with worker() as keeper:
        await keeper.begin(packed())
        await ask(f"http://{keeper.address}", request("GET", "/@mine/x", None))
        await until(lambda: bool(keeper.events))

    assert keeper.events == [FaultCaught("other", "admit", "unknown_upstream")]
