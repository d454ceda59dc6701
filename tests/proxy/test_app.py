"""The composition root: every part opened, reloaded and closed, in this process."""

import asyncio
import gc
from collections.abc import AsyncIterator
from pathlib import Path

import aiohttp
import pytest
import pytest_asyncio

from deuz_proxy.app import App, Settings, running_app
from deuz_proxy.config.load import load_config
from deuz_proxy.errors import ConfigInvalid, ListenFailed
from deuz_testing.bodies import anthropic_body, user
from deuz_testing.raw_client import ask, post
from deuz_testing.upstreams import Got, RawUpstream, raw_upstream
from deuz_testing.waiting import until

CONFIG = """
listen: 127.0.0.1:0
admin: {{listen: "127.0.0.1:0"}}
upstreams: {{anthropic: {{url: "{url}", wire: anthropic}}}}
routes: [{{path: /v1/messages, mode: {mode}, name: {name}}}]
limits: {{drain_seconds: 2}}
context:
  refresh: {{deadline_ms: 30000}}
  sources:
    - {{id: docs, kind: rag, type: files, path: "{docs}", min_score: 0}}
"""
BODY = anthropic_body([user("rivers?")])


@pytest_asyncio.fixture
async def upstream() -> AsyncIterator[RawUpstream]:
    async with raw_upstream() as running:
        yield running


@pytest.fixture
def path(tmp_path: Path, upstream: RawUpstream) -> Path:
    docs = tmp_path / "docs"
    docs.mkdir()
    (docs / "a.md").write_text("# Rivers\n\nRivers run to the sea.")
    file = tmp_path / "deuz.yaml"
    write(file, upstream)
    return file


def write(
    file: Path, upstream: RawUpstream, mode: str = "compile", name: str = "one"
) -> None:
    text = CONFIG.format(
        url=upstream.url, mode=mode, name=name, docs=file.parent / "docs"
    )
    file.write_text(text)


async def get(url: str) -> tuple[int, str]:
    async with aiohttp.ClientSession() as session, session.get(url) as answer:
        return answer.status, await answer.text()


async def test_a_request_is_compiled_metered_and_shown(
    path: Path, upstream: RawUpstream
) -> None:
    async with running_app(Settings(path), {}) as app:
        answered = await ask(app.addresses.listen, post("/v1/messages", BODY))
        metrics = (await get(f"{app.addresses.admin}/metrics"))[1]
        told = (await get(f"{app.addresses.admin}/api/v1/requests"))[1]
        ready = await get(f"{app.addresses.admin}/readyz")
        config = (await get(f"{app.addresses.admin}/api/v1/config"))[1]

    assert answered.body == b"ok"
    assert b"run to the sea" in upstream.last.body
    assert 'deuz_requests_total{outcome="ok",route="one",status="200"' in metrics
    assert 'deuz_requests_in_flight{route="one"} 0.0' in metrics
    assert '"docs/' in told
    assert ready == (200, '{"status":"ready"}')
    assert app.addresses.listen.removeprefix("http://") in config


async def test_a_reload_takes_effect_for_the_next_request_and_keeps_the_ledger(
    path: Path, upstream: RawUpstream
) -> None:
    async with running_app(Settings(path), {}) as app:
        await ask(app.addresses.listen, post("/v1/messages", BODY))
        ledger = app.runtime.ledger
        write(path, upstream, mode="observe", name="two")
        await app.reload(load_config(path, {}))
        await ask(app.addresses.listen, post("/v1/messages", BODY))
        metrics = (await get(f"{app.addresses.admin}/metrics"))[1]

        assert app.runtime.ledger is ledger
    assert upstream.last.body == BODY
    assert 'route="two"' in metrics


async def test_an_invalid_config_opens_nothing(tmp_path: Path) -> None:
    file = tmp_path / "deuz.yaml"
    file.write_text("listen: 1")

    with pytest.raises(ConfigInvalid):
        async with running_app(Settings(file), {}):
            pass


async def test_a_taken_address_closes_what_was_opened(
    path: Path, upstream: RawUpstream
) -> None:
    taken = upstream.url.removeprefix("http://")
    settings = Settings(path, listen=taken)

    with pytest.raises(ListenFailed) as caught:
        async with running_app(settings, {}):
            pass
    assert str(caught.value) == (
        f"address {taken} cannot be listened on: address already in use"
    )

    gc.collect()
    assert len(asyncio.all_tasks()) <= 2


async def test_an_address_that_no_name_leads_to_is_told_with_the_reason() -> None:
    settings = Settings(admin="no-such-host.invalid:0")

    with pytest.raises(ListenFailed, match=r"^admin address .*: .*name") as caught:
        async with running_app(settings, {}):
            pass

    assert caught.value.name == "admin"


async def test_while_it_drains_it_says_so_and_the_running_answer_ends_well(
    path: Path,
) -> None:
    go = asyncio.Event()

    async def slow(got: Got) -> None:
        await got.read_body()
        await go.wait()
        await got.say(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")

    async with raw_upstream(slow) as upstream:
        write(path, upstream)
        app = App(Settings(path), load_config(path, {}), {})
        await app.open()
        asking = asyncio.ensure_future(
            ask(app.addresses.listen, post("/v1/messages", BODY))
        )
        await upstream.until_asked()
        closing = asyncio.ensure_future(app.close())
        await until(lambda: app._is_draining)
        status, text = await get(f"{app.addresses.admin}/readyz")
        with pytest.raises(ConnectionError):
            await ask(app.addresses.listen, post("/v1/messages", BODY))
        go.set()
        answered = await asking
        await closing

    assert (status, "draining" in text) == (503, True)
    assert answered.body == b"ok"


async def test_an_address_of_six_is_bound_and_told(
    path: Path, upstream: RawUpstream
) -> None:
    try:
        server = await asyncio.start_server(lambda *_: None, "::1", 0)
    except OSError:
        pytest.skip("this machine has no IPv6 loopback")
    server.close()
    async with running_app(Settings(path, listen="[::1]:0"), {}) as app:
        assert app.addresses.listen.startswith("http://[::1]:")
        assert (await get(f"{app.addresses.listen}/v1/messages"))[0] == 200
