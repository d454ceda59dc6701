"""The loop that tests run on leaves no socket open that nobody could close."""

import asyncio
import socket

from deuz_testing.loops import PlainLoop
from deuz_testing.waiting import WAIT_SECONDS


async def connect_as_its_server_closes() -> bytes:
    """Return what the client is sent; empty for a connection that was closed."""
    loop = asyncio.get_running_loop()
    woken = loop.create_future()
    server = await asyncio.start_server(lambda *_: None, "127.0.0.1", 0)
    with socket.create_connection(server.sockets[0].getsockname()) as client:
        client.setblocking(False)
        # In the turn that accepts the connection, this comes first.
        loop.call_soon(woken.set_result, None)
        await woken
        server.close()
        async with asyncio.timeout(WAIT_SECONDS):
            return await loop.sock_recv(client, 1)


def test_a_connection_taken_as_its_server_closes_is_closed_too() -> None:
    with asyncio.Runner(loop_factory=PlainLoop) as runner:
        said = runner.run(connect_as_its_server_closes())

    assert said == b""
