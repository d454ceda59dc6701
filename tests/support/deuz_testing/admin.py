"""An admin application at an address, for tests that ask it."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import aiohttp

from deuz_proxy.edge.admin_web import (
    Application,
    close_application,
    serve_application,
)

GRACE_SECONDS = 1.0


@asynccontextmanager
async def listening(app: Application) -> AsyncIterator[str]:
    """Serve the application for the life of the block; yield its URL."""
    server, port = await serve_application(app, "127.0.0.1", 0)
    try:
        yield f"http://127.0.0.1:{port}"
    finally:
        await close_application(app, server, grace_seconds=GRACE_SECONDS)


@asynccontextmanager
async def asked(app: Application) -> AsyncIterator[aiohttp.ClientSession]:
    """Serve the application for the life of the block; yield a client of it."""
    async with listening(app) as url, aiohttp.ClientSession(url) as client:
        yield client
