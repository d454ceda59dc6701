"""The event loops that tests run on: asyncio's, and for some files uvloop's as well.

Rules:
- The product runs on uvloop; how a connection ends looks different on each. A test file
  says `ON_BOTH_LOOPS = True` to run all of its tests twice.
- Whoever makes a loop of asyncio's makes a `PlainLoop`.
"""

import asyncio
import socket
from collections.abc import Callable, Mapping
from typing import Any

import pytest
import uvloop

Factory = Callable[[], asyncio.AbstractEventLoop]


class PlainLoop(asyncio.SelectorEventLoop):
    """The loop of asyncio, but for one socket that asyncio leaves open.

    A connection is accepted in one turn of the loop and gets its transport in the next.
    If its server closes in between, asyncio fails and forgets the socket: a test that
    runs when it is collected, any one, fails by a ResourceWarning.
    """

    async def _accept_connection2(
        self,
        protocol_factory: Callable[[], asyncio.BaseProtocol],
        conn: socket.socket,
        extra: dict[str, Any],
        sslcontext: Any = None,
        server: asyncio.Server | None = None,
        *bounds: float,
    ) -> None:
        if server is not None and not server.sockets:
            conn.close()
            return
        accept = super()._accept_connection2  # type: ignore[misc]  # Nothing public.
        await accept(protocol_factory, conn, extra, sslcontext, server, *bounds)


def loop_factories(item: pytest.Item) -> Mapping[str, Factory]:
    """Return the loops of a test, by name."""
    module = item.getparent(pytest.Module)
    is_on_both = getattr(module and module.obj, "ON_BOTH_LOOPS", False)
    plain: dict[str, Factory] = {"asyncio": PlainLoop}
    return {**plain, "uvloop": uvloop.new_event_loop} if is_on_both else plain
