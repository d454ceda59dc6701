import asyncio
import logging

import pytest
from aiohttp import web

from deuz_proxy.edge.admin_log import quiet_log

CANARY = b"CANARY-in-a-path"


async def fail(request: web.Request) -> web.Response:
    raise ValueError("a fault of ours")


async def answers_to(*requests: bytes) -> list[bytes]:
    """Ask a server that logs there; each request has its own connection."""
    app = web.Application()
    app.router.add_get("/fail", fail)
    runner = web.AppRunner(app, access_log=None, logger=quiet_log())
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    answers = []
    for request in requests:
        reader, writer = await asyncio.open_connection(*runner.addresses[0])
        writer.write(request)
        answers.append(await reader.readline())
        writer.close()
    await runner.cleanup()
    return answers


@pytest.mark.parametrize(
    "request_line",
    [
        b"GET /%b\xff HTTP/1.1" % CANARY,
        b"GET /%b HTTP/1.1" % (CANARY * 1000),
        b"%b\x16\x03" % CANARY,
        b"GET /%b HTTP/1.1\r\nno colon" % CANARY,
    ],
)
async def test_bytes_that_are_no_http_are_answered_and_not_quoted(
    request_line: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    (answer,) = await answers_to(request_line + b"\r\n\r\n")

    assert b" 400 " in answer
    assert caplog.records == []


async def test_a_fault_of_ours_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.ERROR):
        await answers_to(b"GET /fail HTTP/1.1\r\nHost: x\r\n\r\n")

    assert "a fault of ours" in caplog.text
