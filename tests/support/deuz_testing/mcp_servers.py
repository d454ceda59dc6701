"""Real servers of the Model Context Protocol for tests, over both of its wires."""

import asyncio
import socket
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from pathlib import Path

from deuz_testing.ports import free_port

SERVER = Path(__file__).with_name("mcp_server.py")
STDIO = (sys.executable, str(SERVER), "stdio")
_START_SECONDS = 60.0


@contextmanager
def http_server() -> Iterator[str]:
    """Serve until the block ends, for all tests of a file; return the address."""
    port = free_port()
    process = subprocess.Popen(
        [sys.executable, str(SERVER), "http", str(port)],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        until = time.monotonic() + _START_SECONDS
        while time.monotonic() < until:
            with suppress(OSError), socket.create_connection(("127.0.0.1", port)):
                break
            time.sleep(0.02)
        yield f"http://127.0.0.1:{port}/mcp"
    finally:
        process.kill()
        process.wait()


@asynccontextmanager
async def running_http(port: int) -> AsyncIterator[str]:
    """Serve at the port until the block ends; return the address."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        str(SERVER),
        "http",
        str(port),
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.DEVNULL,
    )
    try:
        async with asyncio.timeout(_START_SECONDS):
            await _until_open(port)
        yield f"http://127.0.0.1:{port}/mcp"
    finally:
        process.kill()
        await process.wait()


async def _until_open(port: int) -> None:
    while True:
        try:
            _, writer = await asyncio.open_connection("127.0.0.1", port)
        except OSError:
            await asyncio.sleep(0.02)
        else:
            writer.close()
            return
