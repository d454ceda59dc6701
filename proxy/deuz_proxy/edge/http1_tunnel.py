"""A switched connection: bytes go both ways until either side ends it.

Rules:
- Nothing is looked at; what was read before the end still arrives.
- Each direction waits while its far side reads slowly.
"""

import asyncio
import contextlib

from deuz_proxy.calls import header
from deuz_proxy.edge.http1_call import Http1Client
from deuz_proxy.edge.http1_client import Http1Reply
from deuz_proxy.edge.http1_flow import Inbox
from deuz_proxy.errors import UpstreamBroken


async def tunnel(client: Http1Client, reply: Http1Reply) -> None:
    """Tell the client that the upstream switched, then hand bytes through.

    Raises:
        ConnectionResetError: the client left before it was told.
    """
    protocol = header(reply.headers, b"upgrade") or b""
    try:
        inbox = await client.switch(reply.reason, reply.headers, protocol)
        async with asyncio.TaskGroup() as group:
            ways = [
                group.create_task(_send_up(inbox, reply)),
                group.create_task(_send_down(reply, client)),
            ]
            await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
            for way in ways:
                way.cancel()
        await client.finish()
    finally:
        await reply.close()


async def _send_up(inbox: Inbox, reply: Http1Reply) -> None:
    with contextlib.suppress(OSError):
        async for piece in inbox.pieces():
            await reply.send(piece)


async def _send_down(reply: Http1Reply, client: Http1Client) -> None:
    with contextlib.suppress(OSError, UpstreamBroken):
        async for piece in reply.chunks():
            await client.write(piece)
