import asyncio
import sys
from pathlib import Path

import pytest
from mcp import Client

from deuz_proxy.sources.mcp_wires import http_wire, stdio_wire
from deuz_testing.mcp_servers import STDIO, running_http
from deuz_testing.ports import free_port
from deuz_testing.upstreams import answer_with, raw_upstream
from deuz_testing.waiting import WAIT_SECONDS, is_running, until

pytestmark = pytest.mark.e2e
ENVIRON = "import os,sys; open(sys.argv[1],'w').write(repr(dict(os.environ)))"


def nothing() -> None:
    """Nobody waits for the end."""


async def test_a_program_gets_its_variables_and_none_of_our_secrets(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    told = f"{tmp_path}/environ"
    monkeypatch.setenv("DEUZ_ADMIN_TOKEN", "canary")
    ended = asyncio.Event()

    command = (sys.executable, "-c", ENVIRON, told)
    async with stdio_wire(command, {"KEY": "given"}, most_bytes=1000, ended=ended.set):
        async with asyncio.timeout(WAIT_SECONDS):
            await ended.wait()

    with open(told) as file:  # noqa: ASYNC230  # A line of a test.
        environ = file.read()
    assert "'KEY': 'given'" in environ
    assert "'PATH'" in environ
    assert "canary" not in environ


async def test_a_line_over_the_limit_ends_the_session() -> None:
    ended = asyncio.Event()
    script = "import time; print('x' * 10_000, flush=True); time.sleep(600)"

    command = (sys.executable, "-c", script)
    async with stdio_wire(command, {}, most_bytes=1000, ended=ended.set) as (heard, _):
        async with asyncio.timeout(WAIT_SECONDS):
            await ended.wait()
            assert [each async for each in heard] == []


async def test_a_line_that_is_no_message_is_handed_on_as_a_fault() -> None:
    async with stdio_wire(
        ("/bin/echo", "no json"), {}, most_bytes=1000, ended=nothing
    ) as (heard, _):
        assert isinstance(await heard.receive(), ValueError)


async def test_children_of_the_program_go_with_it(tmp_path: Path) -> None:
    told = tmp_path / "pid"
    command = ("/bin/sh", "-c", f"sleep 600 & echo $! > {told}; wait")
    async with stdio_wire(command, {}, most_bytes=1000, ended=nothing):
        await until(lambda: is_line(told))
    pid = int(told.read_text())

    # A signal is sent, not obeyed, when its sender goes on.
    await until(lambda: not is_running(pid))


def is_line(file: Path) -> bool:
    return file.exists() and file.read_text().endswith("\n")


async def test_both_wires_speak_the_protocol() -> None:
    async with Client(
        stdio_wire(STDIO, {}, most_bytes=100_000, ended=nothing), cache=None
    ) as client:
        by_program = {tool.name for tool in (await client.list_tools()).tools}
    async with (
        running_http(free_port()) as url,
        Client(
            http_wire(url, {}, ca_file=None, most_bytes=100_000), cache=None
        ) as client,
    ):
        by_http = {tool.name for tool in (await client.list_tools()).tools}

    assert "search" in by_program
    assert by_program == by_http


async def test_headers_go_to_the_server_and_compression_is_not_asked_for() -> None:
    async with raw_upstream() as server:
        with pytest.raises(Exception, match=r"."):
            async with Client(
                http_wire(
                    server.url, {"x-key": "k1"}, ca_file=None, most_bytes=100_000
                ),
                cache=None,
            ):
                """The server speaks no MCP."""

    assert server.requests[0].header(b"x-key") == [b"k1"]
    assert server.requests[0].header(b"accept-encoding") == [b"identity"]


def said(kind: bytes, body: bytes, more: bytes = b"") -> bytes:
    return b"HTTP/1.1 200 X\r\nContent-Type: %b\r\nContent-Length: %d\r\n%b\r\n%b" % (
        kind,
        len(body),
        more,
        body,
    )


@pytest.mark.parametrize(
    "answer",
    [
        said(b"application/json", b"{}", b"Content-Encoding: gzip\r\n"),
        said(b"text/html", b"<html>"),
        b"HTTP/1.1 307 X\r\nLocation: http://127.0.0.1:1/\r\nContent-Length: 0\r\n\r\n",
        said(b"application/json", b" " * 2000),
    ],
)
async def test_an_answer_that_is_none_of_the_protocol_ends_the_start(
    answer: bytes,
) -> None:
    async with raw_upstream(answer_with(answer)) as server:
        with pytest.raises(Exception, match=r"."):
            async with (
                asyncio.timeout(WAIT_SECONDS),
                Client(
                    http_wire(server.url, {}, ca_file=None, most_bytes=1024),
                    cache=None,
                    read_timeout_seconds=2,
                ),
            ):
                """It never gets here."""


async def test_certificates_that_cannot_be_read_are_an_error(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="No such file"):
        async with http_wire(
            "https://localhost:1", {}, ca_file=tmp_path / "none.pem", most_bytes=1024
        ):
            """It never gets here."""
