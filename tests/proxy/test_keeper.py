"""A sidecar of several processes: ready when all listen, told and reloaded as one."""

import asyncio
import os
import socket
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from deuz_proxy.app import Settings
from deuz_proxy.config.context import FilesSource
from deuz_proxy.config.ledger import file_of
from deuz_proxy.config.load import load_config, parse_config
from deuz_proxy.config.memory import memory_url
from deuz_proxy.edge.worker_channel import unpack_config
from deuz_proxy.errors import ListenFailed
from deuz_proxy.keeper import Keeper, running_keeper, shared_config
from deuz_proxy.memory.records import Draft
from deuz_proxy.observe.events import Event, WorkerEnded
from deuz_proxy.serving import Serving
from deuz_proxy.sources.build import transcripts_of
from deuz_testing.bodies import anthropic_body, user
from deuz_testing.raw_client import ask, post
from deuz_testing.upstreams import raw_upstream
from deuz_testing.waiting import until

pytestmark = pytest.mark.e2e

CONFIG = """
listen: 127.0.0.1:0
admin: {{listen: "127.0.0.1:0"}}
upstreams: {{anthropic: {{url: "{url}", wire: anthropic}}}}
routes: [{{path: /v1/messages, mode: {mode}, name: {name}}}]
limits: {{drain_seconds: 1}}
"""
ADDRESSES = {"listen": "127.0.0.1:0", "admin": "127.0.0.1:0"}


async def read(url: str) -> tuple[int, str]:
    async with aiohttp.ClientSession() as session, session.get(url) as answer:
        return answer.status, await answer.text()


def counted(keeper: Keeper) -> Any:
    """Return what is told of the workers."""
    return keeper.feed.status()["workers"]


async def test_requests_of_all_workers_are_summed_and_a_reload_reaches_all(
    tmp_path: Path,
) -> None:
    file = tmp_path / "deuz.yaml"
    async with raw_upstream() as upstream:
        file.write_text(CONFIG.format(url=upstream.url, mode="observe", name="one"))
        async with running_keeper(Settings(file, workers=2), os.environ) as keeper:
            admin, listen = keeper.addresses.admin, keeper.addresses.listen
            assert await read(f"{admin}/readyz") == (200, '{"status":"ready"}')
            for _ in range(10):
                await ask(listen, post("/v1/messages", b"{}"))

            await keeper.reload(
                parse_config(
                    CONFIG.format(url=upstream.url, mode="off", name="two"),
                    name="x",
                    folder=tmp_path,
                    environ={},
                )
            )
            asked = [ask(listen, post("/v1/messages", b"{}")) for _ in range(20)]
            await asyncio.gather(*asked)
            await until(lambda: keeper.feed.status()["requests"] == 30)
            metrics = (await read(f"{admin}/metrics"))[1]
            config = (await read(f"{admin}/api/v1/config"))[1]

    labels = 'outcome="ok",route="%s",status="200",wire="anthropic"'
    assert f"deuz_requests_total{{{labels % 'one'}}} 10.0" in metrics
    assert 'route="two",status="200",wire="anthropic"} 20.0' in metrics
    assert "deuz_workers 2.0" in metrics
    assert listen.removeprefix("http://") in config


async def test_while_a_worker_is_missing_it_is_not_ready_and_says_so() -> None:
    settings = Settings(None, **ADDRESSES, workers=2)
    async with running_keeper(settings, os.environ) as keeper:
        slot = keeper._workers._slots[0]
        slot.kill()
        await until(lambda: not slot.is_listening)
        answered = await read(f"{keeper.addresses.admin}/readyz")
        # Its process is looked for behind its last word.
        await until(lambda: counted(keeper)["failures"] == 1)
        told = counted(keeper)

    assert answered == (
        503,
        '{"status":"not_ready","reasons":["1 of 2 workers listen"]}',
    )
    assert (told["serving"], told["events_lost"]) == (1, 0)


async def test_a_drain_is_told_to_its_end_and_is_no_failure() -> None:
    told: list[Event] = []
    settings = Settings(None, **ADDRESSES, workers=2)
    async with running_keeper(settings, os.environ) as keeper:
        keeper._workers._notice = told.append
        for slot in keeper._workers._slots:
            slot._notice = told.append
        closing = asyncio.ensure_future(keeper.close())
        await asyncio.sleep(0)
        answered = await read(f"{keeper.addresses.admin}/readyz")
        await closing

    assert (answered[0], "draining" in answered[1]) == (503, True)
    assert sorted(told, key=str) == [WorkerEnded(n, is_failure=False) for n in (0, 1)]


@pytest.mark.parametrize("name", ["listen", "admin"])
async def test_a_taken_address_starts_no_worker(name: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        settings = Settings(None, **ADDRESSES | {name: address}, workers=2)

        with pytest.raises(ListenFailed, match=f"{address} .* in use") as caught:
            async with running_keeper(settings, os.environ):
                pass

    assert caught.value.name == name


async def test_memory_written_at_the_admin_address_is_every_workers(
    tmp_path: Path,
) -> None:
    file = tmp_path / "deuz.yaml"
    async with raw_upstream() as upstream:
        text = CONFIG.format(url=upstream.url, mode="compile", name="chat")
        file.write_text(text + "context: {sources: [{id: notes, type: store}]}\n")
        async with running_keeper(Settings(file, workers=2), os.environ) as keeper:
            folder = keeper._folder
            assert folder.stat().st_mode & 0o777 == 0o700
            await put(
                f"{keeper.addresses.admin}/api/v1/memory/default/r1",
                {"text": "Rivers run to the sea."},
            )
            for number in range(12):
                body = anthropic_body([user(f"Where do rivers run, {number}?")])
                await ask(keeper.addresses.listen, post("/v1/messages", body))

                assert b"run to the sea" in upstream.last.body

    assert not folder.exists()


async def put(url: str, body: object) -> None:
    async with aiohttp.ClientSession() as session, session.put(url, json=body) as said:
        assert said.status == 200, await said.text()


def test_what_has_a_store_of_its_own_keeps_it(tmp_path: Path) -> None:
    config = parse_config(
        "ledger: {url: 'sqlite:///a.db'}\nmemory: {url: 'sqlite:///b.db'}\n",
        name="x",
        folder=tmp_path,
        environ={},
    )

    assert shared_config(config, Path("/elsewhere")) == config


def test_what_is_in_memory_becomes_files_of_the_folder(tmp_path: Path) -> None:
    shared = shared_config(load_config(None, {}), tmp_path)

    assert file_of(shared.ledger.url) == tmp_path / "ledger.db"
    memory = memory_url(shared.memory, shared.ledger.url)
    assert file_of(memory) == tmp_path / "memory.db"


async def test_what_was_said_to_a_worker_is_forgotten_by_the_keeper(
    tmp_path: Path,
) -> None:
    text, said = "context: {sources: [{type: transcript}]}", "a" * 24
    config = parse_config(text, name="x", folder=tmp_path, environ={})
    shared = shared_config(config, tmp_path)
    async with AsyncExitStack() as stack:
        worker, keeper = Serving(shared, {}, stack), Serving(shared, {}, stack)
        for each in (worker, keeper):
            await each.open(lambda event: None)
        (transcript,) = transcripts_of(worker.runtime.sources)
        await transcript._past.put("default", Draft(said, "User: canary"), now=1.0)

        assert keeper.runtime.memory is not None
        forgotten = await keeper.runtime.memory.forget("default", [said])

        assert forgotten.forgotten == 1
        assert await transcript.page("default", after="", limit=9, now=1.0) == ()


def test_processes_share_the_index_of_a_folder(tmp_path: Path) -> None:
    for name in ("docs", "more", "own"):
        (tmp_path / name).mkdir()
    sources = (
        "{type: files, id: a, path: ./docs}",
        "{type: files, id: b, path: ./more}",
        "{type: files, id: c, path: ./own, index: own.db}",
    )

    def indexes(*listed: str) -> list[Path | None]:
        text = f"context: {{sources: [{', '.join(listed)}]}}"
        config = parse_config(text, name="x", folder=tmp_path, environ={})
        shared = shared_config(config, Path("/kept")).context.sources
        return [each.index for each in shared if isinstance(each, FilesSource)]

    a, b, c = indexes(*sources)
    (other,) = indexes("{type: files, id: a, path: ./docs, ignore: [x]}")
    (again,) = indexes("{type: files, id: renamed, path: ./docs}")

    assert a is not None
    assert (a.parent, c) == (Path("/kept"), tmp_path / "own.db")
    assert len({a, b, c, other}) == 4
    assert again == a


async def test_a_reload_changes_no_store(tmp_path: Path) -> None:
    settings = Settings(None, **ADDRESSES, workers=1)
    async with running_keeper(settings, os.environ) as keeper:
        before = keeper._serving.config.ledger
        other = "ledger: {url: 'sqlite:///other.db'}"
        await keeper.reload(parse_config(other, name="x", folder=tmp_path, environ={}))

        (slot,) = keeper._workers._slots
        assert slot.config is not None
        assert unpack_config(slot.config).ledger == before
    assert not (tmp_path / "other.db").exists()


async def test_a_worker_that_takes_a_config_late_leaves_the_keeper_on_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = Settings(None, **ADDRESSES, workers=1)
    async with running_keeper(settings, os.environ) as keeper:
        take = keeper._workers.take

        async def take_late() -> None:
            await take()
            raise TimeoutError

        monkeypatch.setattr(keeper._workers, "take", take_late)
        other = "limits: {drain_seconds: 7}"
        with pytest.raises(TimeoutError):
            await keeper.reload(
                parse_config(other, name="x", folder=tmp_path, environ={})
            )

        assert keeper._serving.runtime.config.limits.drain_seconds == 7
