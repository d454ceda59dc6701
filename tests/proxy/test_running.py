"""A running sidecar in this process: what signals and a changed file do to it."""

import asyncio
import os
import signal
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from types import MappingProxyType
from urllib.parse import urlsplit

import pytest

from deuz_proxy.app import Settings, running_app
from deuz_proxy.config.file import ConfigFile
from deuz_proxy.config.model import Config
from deuz_proxy.config.routing import resolve_target
from deuz_proxy.running import (
    _watch_config,
    base_urls,
    run_command,
    run_until_stopped,
)
from deuz_testing.raw_client import ask, request
from deuz_testing.waiting import WAIT_SECONDS, until

CONFIG = """
listen: 127.0.0.1:0
admin: {listen: "127.0.0.1:0"}
"""
UNUSABLE = """
context: {sources: [{type: transcript, url: "sqlite:///past.db"}]}
"""
HEARD = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


@pytest.fixture(autouse=True)
def _signals_as_they_were() -> Iterator[None]:
    before = {name: signal.getsignal(name) for name in HEARD}
    yield
    for name, handler in before.items():
        signal.signal(name, handler)


@asynccontextmanager
async def running(
    path: Path | None,
    hear: Callable[[str], None] = lambda _: None,
    environ: Mapping[str, str] = MappingProxyType({}),
) -> AsyncIterator[list[str]]:
    """Run in a task of this loop; ends by the signal that an operator would send.

    `hear` gets each line that is told, at once.
    """
    told: list[str] = []

    def tell(line: str) -> None:
        told.append(line)
        hear(line)

    settings = Settings(path, "127.0.0.1:0", "127.0.0.1:0")
    task = asyncio.ensure_future(run_until_stopped(settings, environ, tell))
    await until(lambda: len(told) >= 2 or task.done())
    try:
        yield told
    finally:
        # Once it was told to stop, one more signal would be the end of the tests.
        if not task.done() and signal.getsignal(signal.SIGTERM) != signal.SIG_DFL:
            os.kill(os.getpid(), signal.SIGTERM)
        await asyncio.wait_for(task, WAIT_SECONDS)


async def test_it_tells_its_addresses_when_both_answer() -> None:
    async with running(None) as told:
        listen, admin = (line.split()[-1] for line in told)
        answered = await ask(listen, request("GET", "/@nobody/x", None))
        ready = await ask(admin, b"GET /readyz HTTP/1.1\r\nHost: localhost\r\n\r\n")

    assert (answered.status, ready.status) == (404, 200)
    with pytest.raises(ConnectionError):
        await ask(listen, request("GET", "/@nobody/x", None))


async def test_a_scanner_that_was_not_built_is_told(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("deuz_proxy.running.load_scanner", lambda: None)

    async with running(None) as told:
        await until(lambda: len(told) > 2)

    assert "scanner was not built" in told[2]


async def test_a_proxy_that_cannot_be_used_is_told_once_by_run_and_by_exec() -> None:
    environ = {"HTTPS_PROXY": "socks5://me:secret@p:1", "PATH": os.environ["PATH"]}
    by_exec: list[str] = []
    async with running(None, environ=environ) as by_run:
        await until(lambda: len(by_run) > 2)
    settings = Settings(None, "127.0.0.1:0", "127.0.0.1:0")

    await run_command(["true"], settings, environ, by_exec.append)

    assert by_run[2].startswith("HTTPS_PROXY names a socks5:// proxy")
    assert by_exec[1:] == [f"deuz-sidecar exec: {by_run[2]}"]
    assert "secret" not in by_run[2]


async def test_a_hangup_without_a_config_is_no_end() -> None:
    async with running(None) as told:
        os.kill(os.getpid(), signal.SIGHUP)
        await asyncio.sleep(0.05)
        answered = await ask(told[0].split()[-1], request("GET", "/@nobody/x", None))

    assert answered.status == 404


async def test_a_hangup_or_a_changed_file_reloads_and_an_invalid_one_is_told(
    tmp_path: Path,
) -> None:
    file = tmp_path / "deuz.yaml"
    file.write_text(CONFIG)
    async with running(file) as told:
        url = told[0].split()[-1]
        os.kill(os.getpid(), signal.SIGHUP)
        await until(lambda: told[-1] == "config taken")

        file.write_text(CONFIG + "routes: 7\n")
        await until(lambda: "not taken" in told[-1])
        assert f"{file}:4" in told[-1]
        assert (await ask(url, request("GET", "/@mine/x", None))).status == 404

        file.write_text(CONFIG + 'upstreams: {mine: {url: "http://127.0.0.1:1"}}\n')
        await until(lambda: told[-1] == "config taken")
        assert (await ask(url, request("GET", "/@mine/x", None))).status == 502

        file.unlink()
        os.kill(os.getpid(), signal.SIGHUP)
        await until(lambda: "not taken" in told[-1])
        assert (await ask(url, request("GET", "/@mine/x", None))).status == 502


async def test_a_file_that_changes_while_it_starts_is_taken(tmp_path: Path) -> None:
    file = tmp_path / "deuz.yaml"
    file.write_text(CONFIG)
    changed = CONFIG + 'upstreams: {mine: {url: "http://127.0.0.1:1"}}\n'

    def hear(line: str) -> None:
        # Its first words: the config was read, and whoever looks at it has not begun.
        if "listens" in line:
            file.write_text(changed)

    async with running(file, hear) as told:
        await until(lambda: told[-1] == "config taken")
        url = told[0].split()[-1]
        assert (await ask(url, request("GET", "/@mine/x", None))).status == 502


async def test_a_reload_that_fails_in_another_way_leaves_what_runs(
    tmp_path: Path,
) -> None:
    file, past = tmp_path / "deuz.yaml", tmp_path / "past.db"
    file.write_text(CONFIG)
    # As far as a look at it tells, it is one of ours.
    past.write_bytes(b"SQLite format 3\0 and nothing else")
    told: list[str] = []
    look = asyncio.Event()
    look.set()
    async with running_app(Settings(file), {}) as app:
        before = app.runtime
        file.write_text(f"{CONFIG}\n{UNUSABLE}")
        watching = asyncio.ensure_future(
            _watch_config(app, ConfigFile(file), {}, look, told.append)
        )
        await until(lambda: bool(told))
        watching.cancel()
        await asyncio.wait((watching,))
        assert app.runtime is before

    words = f"store {past} cannot be used: file is not a database"
    assert told == [f"config reload failed: {words}"]


async def test_once_told_to_stop_a_second_signal_is_not_held_back() -> None:
    async with running(None):
        os.kill(os.getpid(), signal.SIGTERM)
        await until(lambda: signal.getsignal(signal.SIGTERM) is signal.SIG_DFL)


async def test_a_command_gets_the_variables_and_its_code_is_returned() -> None:
    script = 'test "$OPENAI_BASE_URL" = "$ANTHROPIC_BASE_URL/v1" && exit 5'
    settings = Settings(None, "127.0.0.1:0", "127.0.0.1:0")
    environ = {"PATH": os.environ["PATH"], "OPENAI_BASE_URL": "http://else"}

    async def ran(*argv: str) -> tuple[int, list[str]]:
        told: list[str] = []
        return await run_command(argv, settings, environ, told.append), told

    code, told = await ran("sh", "-c", script)
    assert code == 5
    assert len(told) == 1
    assert told[0].startswith(
        "deuz-sidecar exec: admin page and metrics on http://127.0.0.1:"
    )
    assert (await ran("sh", "-c", "kill -9 $$"))[0] == 137


@pytest.mark.parametrize(
    ("command", "code", "words"),
    [("/no/such", 127, "command not found"), ("/dev", 126, "not a program")],
)
async def test_a_command_that_cannot_be_started_is_named(
    command: str, code: int, words: str
) -> None:
    told: list[str] = []
    settings = Settings(None, "127.0.0.1:0", "127.0.0.1:0")

    assert await run_command([command], settings, {}, told.append) == code
    assert told[-1].startswith(f"deuz-sidecar exec: {command}: {words}")


def test_the_common_sdks_are_pointed_at_one_address() -> None:
    urls = base_urls("http://127.0.0.1:1")

    assert urls["ANTHROPIC_BASE_URL"] == "http://127.0.0.1:1"
    assert urls["OPENAI_BASE_URL"] == "http://127.0.0.1:1/v1"
    assert urls["DEUZ_SIDECAR_URL"] == "http://127.0.0.1:1"


def test_the_variables_of_one_provider_lead_to_one_upstream() -> None:
    base = "http://127.0.0.1:1"

    led = {
        name: resolve_target(Config(), url.removeprefix(base) + "/x").upstream
        for name, url in base_urls(base).items()
        if url != base
    }

    assert {name.split("_API")[0].lower() for name in led}
    assert all(upstream in name.lower() for name, upstream in led.items())


def test_what_googles_sdks_ask_for_goes_to_google() -> None:
    base = urlsplit(base_urls("http://127.0.0.1:1")["GOOGLE_GEMINI_BASE_URL"]).path

    asked = [f"{base}/{v}/models/m:generateContent" for v in ("v1", "v1beta")]

    assert {resolve_target(Config(), path).upstream for path in asked} == {"gemini"}
