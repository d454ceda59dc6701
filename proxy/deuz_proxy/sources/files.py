"""A folder as a source: chunks of its files, the best for a query first.

Rules:
- One thread owns the index; searches wait for a refresh, the event loop for neither.
- The folder is looked at before a search, at most once a second, and more seldom where
  looking takes long. What is answered is what the folder held at that look.
- A folder that went away is a failure at every search, not an empty answer from memory.
- All tenants of a config share the folder; put private text into a store instead.
"""

import asyncio
import hashlib
import sqlite3
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import PurePosixPath
from typing import TypeVar

from deuz_compiler import Candidate
from deuz_proxy.config.context import FilesSource
from deuz_proxy.errors import StoreFailed
from deuz_proxy.ports import Query
from deuz_proxy.sources.chunks import Chunk, chunk_markdown, chunk_plain
from deuz_proxy.sources.folder import Found, NotText, list_folder, read_text
from deuz_proxy.sources.index import IN_PROCESS, ChunkIndex, Hit, Stamp
from deuz_proxy.sources.static import text_digest

LOOK_SECONDS = 1.0
# Looking takes at most a twentieth of the time: 10 000 files take 0.1 s, so every 2 s.
_LOOK_SHARE = 20
_MARKDOWN = (".md", ".markdown", ".mdx")

_Answer = TypeVar("_Answer")


class FolderFiles:
    """A `ports.Source` over a folder of Markdown, text and code.

    `clock` is monotonic; `read` gives a file's text, or raises `NotText`.
    """

    def __init__(
        self,
        config: FilesSource,
        *,
        clock: Callable[[], float],
        read: Callable[[Found], str] = read_text,
    ) -> None:
        self.id = config.id
        self.kind: str = config.kind
        self.is_required = config.required
        self.gives_mandatory = False
        self._shelf = _Shelf(config, clock, read)
        self._min_score = float(config.min_score)
        self._thread = ThreadPoolExecutor(1, thread_name_prefix=f"files-{config.id}")
        self._is_closed = False

    @property
    def skipped(self) -> Mapping[str, int]:
        """How many files the last look passed over, by reason."""
        return self._shelf.skipped

    async def warm(self) -> None:
        """Index the folder now, so that the first search need not.

        Raises:
            StoreFailed: the folder or the index cannot be read.
        """
        await self._run("warm", self._shelf.refresh)

    async def find(self, query: Query) -> Sequence[Candidate]:
        """Return the best chunks for the query's text.

        Cancelling leaves the index whole: a search that has not begun is dropped, one
        that runs ends by itself.

        Raises:
            StoreFailed: the folder or the index cannot be read.
        """

        def search() -> Sequence[Hit]:
            self._shelf.refresh()
            return self._shelf.search(query.text, query.limit, self._min_score)

        return tuple(self._candidate(hit) for hit in await self._run("find", search))

    async def close(self) -> None:
        """Stop the thread and close the index. May be called twice."""
        if self._is_closed:
            return
        self._is_closed = True
        self._shelf.stop()
        self._thread.submit(self._shelf.close)
        await asyncio.to_thread(self._thread.shutdown, wait=True)

    async def _run(self, operation: str, work: Callable[[], _Answer]) -> _Answer:
        if self._is_closed:
            raise StoreFailed(store=self.id, operation=operation)
        loop = asyncio.get_running_loop()
        try:
            return await loop.run_in_executor(self._thread, work)
        except (OSError, sqlite3.Error) as error:
            raise StoreFailed(store=self.id, operation=operation) from error

    def _candidate(self, hit: Hit) -> Candidate:
        digest = text_digest(hit.text)
        return Candidate(
            source=self.id,
            kind=self.kind,
            record_id=f"{hit.name}#{hit.chunk}",
            text=hit.text,
            revision=digest.removeprefix("sha256:")[:12],
            digest=digest,
            score=hit.score,
            origin=hit.name,
        )


class _Shelf:
    """The index and what it was made from. Only the source's thread touches it."""

    def __init__(
        self,
        config: FilesSource,
        clock: Callable[[], float],
        read: Callable[[Found], str],
    ) -> None:
        self.skipped: Mapping[str, int] = {}
        self._folder = config.path
        self._ignored = config.ignore
        self._location = str(config.index) if config.index else IN_PROCESS
        self._clock = clock
        self._read = read
        self._index: ChunkIndex | None = None
        self._next_look = 0.0
        self._is_stopping = False

    def refresh(self) -> None:
        """Look at the folder, if it is time, and bring the index up to date."""
        started = self._clock()
        if self._index is not None and started < self._next_look:
            return
        # After a failure the next search looks again: nothing old is served meanwhile.
        self._next_look = started
        listing = list_folder(self._folder, ignored=self._ignored)
        skipped = self._index_all(listing.files)
        self.skipped = dict(listing.skipped + skipped)
        ended = self._clock()
        self._next_look = ended + max(LOOK_SECONDS, (ended - started) * _LOOK_SHARE)

    def search(self, text: str, limit: int, min_score: float) -> Sequence[Hit]:
        """Return the best chunks of the last look."""
        return self._opened().search(text, limit=limit, min_score=min_score)

    def stop(self) -> None:
        """Ask a running refresh to end after its current file. From any thread."""
        self._is_stopping = True

    def close(self) -> None:
        """Close the index."""
        if self._index is not None:
            self._index.close()

    def _opened(self) -> ChunkIndex:
        if self._index is None:
            self._index = ChunkIndex(self._location)
        return self._index

    def _index_all(self, files: Sequence[Found]) -> Counter[str]:
        index = self._opened()
        if _differ(files, index.stamps()):
            index.begin()
            try:
                # Another process may have been faster: its work is not done again.
                self._update(index, files, index.stamps())
                index.commit()
            finally:
                index.rollback()
        return Counter(each.skipped for each in index.stamps().values() if each.skipped)

    def _update(
        self, index: ChunkIndex, files: Sequence[Found], known: Mapping[str, Stamp]
    ) -> None:
        for name in sorted(known.keys() - {found.name for found in files}):
            index.remove(name)
        for found in files:
            if self._is_stopping:
                return
            if not _is_same(found, known.get(found.name)):
                self._index_file(index, found, known.get(found.name))

    def _index_file(self, index: ChunkIndex, found: Found, known: Stamp | None) -> None:
        seen = (found.modified_ns, found.size_bytes)
        try:
            text = self._read(found)
        except NotText as fault:
            index.replace(found.name, Stamp(*seen, skipped=fault.reason), ())
            return
        digest = hashlib.sha256(text.encode()).digest()
        if known is not None and known.digest == digest:
            index.mark(found.name, Stamp(*seen, digest))
        else:
            index.replace(found.name, Stamp(*seen, digest), _chunks(found.name, text))


def _differ(files: Sequence[Found], known: Mapping[str, Stamp]) -> bool:
    if len(files) != len(known):
        return True
    return any(not _is_same(found, known.get(found.name)) for found in files)


def _is_same(found: Found, stamp: Stamp | None) -> bool:
    seen = (stamp.modified_ns, stamp.size_bytes) if stamp else None
    return seen == (found.modified_ns, found.size_bytes)


def _chunks(name: str, text: str) -> Sequence[Chunk]:
    is_markdown = PurePosixPath(name).suffix.lower() in _MARKDOWN
    return chunk_markdown(text) if is_markdown else chunk_plain(text)
