"""The admin address with a memory behind it, for tests of its API."""

import json
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import aiohttp
from yarl import URL

from deuz_proxy.config.model import Config
from deuz_proxy.edge.admin import AdminParts, make_admin
from deuz_proxy.edge.admin_web import Application
from deuz_proxy.memory.forgetting import Memory
from deuz_proxy.memory.working import WorkingMemory
from deuz_proxy.runtime import Runtime
from deuz_proxy.sinks.feed import Feed
from deuz_proxy.sources.build import build_sources
from deuz_proxy.sources.words import words_of
from deuz_proxy.stores.memory_sqlite import SqliteMemory
from deuz_testing.admin import listening
from deuz_testing.line import Told, make_config, make_runtime


@dataclass
class Api:
    """A client of the admin address, and what is behind it."""

    session: aiohttp.ClientSession
    url: str
    runtime: Runtime | None = None
    store: SqliteMemory | None = None

    async def call(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        headers: Mapping[str, str] | None = None,
    ) -> tuple[int, Any]:
        """Send JSON, or bytes as they are; return the status and the JSON answer."""
        payload = body if body is None or isinstance(body, bytes) else json.dumps(body)
        async with self.session.request(
            method, _exact(self.url + path), data=payload, headers=headers
        ) as answer:
            return answer.status, await answer.json()

    async def text(self, method: str, path: str, body: str | None = None) -> str:
        """Return the text of an answer that is a success."""
        data = None if body is None else body.encode()
        url = _exact(self.url + path)
        async with self.session.request(method, url, data=data) as answer:
            assert answer.status == 200, await answer.text()
            return await answer.text()

    async def close_store(self) -> None:
        """Let the store fail from now on."""
        assert self.store is not None
        await self.store.close()


@asynccontextmanager
async def served_admin(
    config: Config | None = None,
    *,
    token: str | None = None,
    app: Application | None = None,
) -> AsyncIterator[Api]:
    """Serve an admin address with an empty memory, or the application given."""
    store = await SqliteMemory(":memory:", words_of=words_of).open()
    config = config or make_config()
    runtime = make_runtime(config, Told())
    runtime = make_runtime(
        config,
        Told(),
        ledger=runtime.ledger,
        sources=await build_sources(config, records=store),
        memory=Memory(store, runtime.ledger, clock=time.time),
        notes=WorkingMemory(store, clock=time.time),
    )
    parts = AdminParts(
        Feed(generation="g"),
        metrics=lambda _: (b"", "text/plain"),
        readiness=tuple,
        config=dict,
        runtime=lambda: runtime,
    )
    try:
        async with (
            listening(app or make_admin(parts, token=token)) as url,
            aiohttp.ClientSession() as session,
        ):
            yield Api(session, url, runtime, store)
    finally:
        await store.close()


def _exact(url: str) -> Any:
    """Return the address as it is written: `%2F` in a path is no slash."""
    return URL(url, encoded=True)
