"""An admin application at an address, for tests that ask it."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import aiohttp

from deuz_proxy.edge.admin_web import Application

GRACE_SECONDS = 1.0


def open_app() -> Application:
    """Return an application without routes that lets everybody in."""
    return Application(guard=lambda _: None, headers={"X-Common": "1"})


@asynccontextmanager
async def listening(app: Application) -> AsyncIterator[str]:
    """Serve the application for the life of the block; yield its URL."""
    port = await app.listen("127.0.0.1", 0)
    try:
        yield f"http://127.0.0.1:{port}"
    finally:
        await app.close(grace_seconds=GRACE_SECONDS)


@asynccontextmanager
async def asked(app: Application) -> AsyncIterator[aiohttp.ClientSession]:
    """Serve the application for the life of the block; yield a client of it."""
    async with listening(app) as url, aiohttp.ClientSession(url) as client:
        yield client
