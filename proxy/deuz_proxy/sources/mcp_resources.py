"""The text resources of a server of the Model Context Protocol, searched with BM25.

Rules:
- They are read when they are first asked for, and again when they are old; meanwhile
  the older ones answer. Who waits for the first reading may give up; it goes on.
- Resources are listed and read up to a bound; what is no text is passed over.
- One thread owns the index; it is in memory.
- All tenants of a config share them.
"""

import asyncio
import hashlib
import sqlite3
from collections.abc import AsyncIterator, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TypeVar

from mcp import Client, MCPError
from mcp.types import (
    CONNECTION_CLOSED,
    INVALID_REQUEST,
    Resource,
    TextResourceContents,
)

from deuz_compiler import Candidate
from deuz_proxy.config.outside import McpSource
from deuz_proxy.errors import SourceFailed
from deuz_proxy.ports import Query
from deuz_proxy.sources.chunks import chunk_markdown, chunk_plain
from deuz_proxy.sources.index import ChunkIndex, Stamp
from deuz_proxy.sources.mcp import connection
from deuz_proxy.sources.mcp_session import Session
from deuz_proxy.sources.scores import Hit

MOST_RESOURCES = 1_000
MOST_CHARACTERS = 32_000_000
# A server that forgot us says that the request is invalid.
_SESSION_OVER = (CONNECTION_CLOSED, INVALID_REQUEST)
_MOST_PAGES = 100
# Words that name the resource shift a score; they are no reason to offer a chunk.
_LEAST_SCORE = 0.2

_Answer = TypeVar("_Answer")


@dataclass(frozen=True, slots=True)
class Text:
    """One resource that is text."""

    uri: str
    text: str
    is_markdown: bool


class McpResources:
    """A `ports.Source` over resources."""

    def __init__(self, config: McpSource) -> None:
        self.id = config.id
        self.kind: str = config.kind
        self.is_required = config.required
        self.gives_mandatory = False
        self._refresh_seconds = config.refresh_seconds
        self._session = Session(config.id, connection(config))
        self._thread = ThreadPoolExecutor(1, thread_name_prefix=f"mcp-{config.id}")
        self._tasks = asyncio.TaskGroup()
        self._loading: asyncio.Task[None] | None = None
        self._index: ChunkIndex | None = None
        self._next_load = 0.0
        self._is_open = False

    async def open(self) -> None:
        """Open inside the running loop."""
        await self._session.open()
        await self._tasks.__aenter__()
        self._is_open = True

    async def find(self, query: Query) -> Sequence[Candidate]:
        """Return the best chunks of the resources.

        Raises:
            SourceFailed: the server cannot be started, died, or answered with an error.
        """
        if not self._is_open:
            raise SourceFailed(source=self.id, reason="closed")
        loading = self._load()
        if self._index is None and loading is not None:
            await asyncio.shield(loading)
        if self._index is None:
            raise SourceFailed(source=self.id, reason="broken")
        index = self._index
        hits = await self._in_thread(
            lambda: index.search(query.text, limit=query.limit, min_score=_LEAST_SCORE)
        )
        return tuple(self._candidate(hit) for hit in hits)

    async def close(self) -> None:
        """End the session and drop the index. May be called twice."""
        if not self._is_open:
            return
        self._is_open = False
        if self._loading is not None:
            self._loading.cancel()
        await self._session.close()
        await self._tasks.__aexit__(None, None, None)
        if self._index is not None:
            self._thread.submit(self._index.close)
        await asyncio.to_thread(self._thread.shutdown, wait=True)

    def _load(self) -> "asyncio.Task[None] | None":
        """Start reading if it is time and nobody does; return the one that runs."""
        if self._loading is not None and not self._loading.done():
            return self._loading
        now = asyncio.get_running_loop().time()
        if self._index is not None and now < self._next_load:
            return None
        # After a failure the next question tries again; the breaker slows them down.
        self._loading = self._tasks.create_task(self._read_all())
        return self._loading

    async def _read_all(self) -> None:
        """Bring the index up to date; what fails leaves it as it was."""
        client = None
        try:
            client = await self._session.client()
            texts = await _read_texts(client)
            self._index = await self._in_thread(lambda: _indexed(self._index, texts))
        except Exception:  # noqa: BLE001  # A server may be anybody's code.
            if client is not None:
                self._session.lose(client)
            return
        now = asyncio.get_running_loop().time()
        self._next_load = now + self._refresh_seconds

    async def _in_thread(self, work: Callable[[], _Answer]) -> _Answer:
        loop = asyncio.get_running_loop()
        try:
            return await loop.run_in_executor(self._thread, work)
        except (sqlite3.Error, UnicodeError) as fault:
            raise SourceFailed(source=self.id, reason="broken") from fault

    def _candidate(self, hit: Hit) -> Candidate:
        return Candidate(
            source=self.id,
            kind=self.kind,
            record_id=f"{hit.name}#{hit.chunk}",
            text=hit.text,
            revision=hit.digest.removeprefix("sha256:")[:12],
            digest=hit.digest,
            score=hit.score,
            origin=hit.name,
        )


async def _read_texts(client: Client) -> Sequence[Text]:
    """Return the resources that are text, by address, up to the bounds.

    Raises:
        MCPError: the session is over.
    """
    texts: dict[str, Text] = {}
    left = MOST_CHARACTERS
    async for resource in _listed(client):
        for text in await _read(client, resource):
            left -= len(text.text)
            if left < 0:
                return tuple(texts.values())
            texts[text.uri] = text
    return tuple(texts.values())


async def _read(client: Client, resource: Resource) -> Sequence[Text]:
    try:
        read = await client.read_resource(str(resource.uri))
    except MCPError as fault:
        if fault.code in _SESSION_OVER:
            raise
        # One that cannot be read does not hide the others.
        return ()
    return [
        _text(resource, content)
        for content in read.contents
        if isinstance(content, TextResourceContents)
    ]


async def _listed(client: Client) -> AsyncIterator[Resource]:
    cursor, left = None, MOST_RESOURCES
    for _ in range(_MOST_PAGES):
        page = await client.list_resources(cursor=cursor)
        for resource in page.resources[:left]:
            yield resource
        left -= len(page.resources)
        cursor = page.next_cursor
        if cursor is None or left <= 0:
            return


def _text(resource: Resource, content: TextResourceContents) -> Text:
    uri = str(content.uri)
    kind = content.mime_type or resource.mime_type or ""
    is_markdown = kind == "text/markdown" or uri.endswith((".md", ".markdown"))
    return Text(uri, content.text, is_markdown)


def _indexed(index: ChunkIndex | None, texts: Sequence[Text]) -> ChunkIndex:
    """Return the index, holding these texts and no others."""
    index = index or ChunkIndex(":memory:")
    known = index.stamps()
    index.begin()
    try:
        for name in sorted(known.keys() - {text.uri for text in texts}):
            index.remove(name)
        for text in texts:
            digest = hashlib.sha256(text.text.encode(errors="replace")).digest()
            if text.uri not in known or known[text.uri].digest != digest:
                chunks = chunk_markdown if text.is_markdown else chunk_plain
                stamp = Stamp(0, len(text.text), digest)
                index.replace(text.uri, stamp, chunks(text.text))
        index.commit()
    finally:
        index.rollback()
    return index
