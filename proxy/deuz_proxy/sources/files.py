"""A folder as a source: chunks of its files, the best for a query first.

Rules:
- A thread looks at the folder, in slices, and searches: a search waits for one slice
  at most, the event loop for nothing. What is little work is searched for by the event
  loop itself, if the thread rests: to hand it over would cost more.
- Until a first look has ended there is no answer: the source is not ready, and says so.
- All tenants of a config share the folder; put private text into a store instead.
"""

import asyncio
import contextlib
import math
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from deuz_compiler import Candidate
from deuz_proxy.config.context import FilesSource
from deuz_proxy.errors import SourceFailed, StoreFailed
from deuz_proxy.ports import Query
from deuz_proxy.sources.folder import Found, read_text
from deuz_proxy.sources.folder_index import FAULTS, FolderIndex
from deuz_proxy.sources.scores import Hit

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
        self._index = FolderIndex(config, clock, read)
        self._min_score = float(config.min_score)
        self._thread = ThreadPoolExecutor(1, thread_name_prefix=f"files-{config.id}")
        # Held by who uses the index.
        self._turn = threading.Lock()
        self._is_closed = False

    @property
    def skipped(self) -> Mapping[str, int]:
        """How many files the last look passed over, by reason."""
        return self._index.skipped

    async def warm(self, *, most_seconds: float = math.inf) -> None:
        """Look at the folder now, so that the first search need not.

        What is not over after `most_seconds` goes on by itself, unless the source is
        required.

        Raises:
            StoreFailed: the folder or the index cannot be read.
        """
        loop = asyncio.get_running_loop()
        end = math.inf if self.is_required else loop.time() + most_seconds
        try:
            while not await self._run("warm", self._index.look_on):
                if loop.time() >= end:
                    return
        finally:
            # Also for who does not wait any more.
            if self._index.is_looking and not self._is_closed:
                self._thread.submit(self._look_on)

    def find_here(self, query: Query) -> Sequence[Candidate] | None:
        """Return what `find` does, if that is little work and need not wait.

        Raises:
            StoreFailed: the index cannot be read.
        """
        if self._is_closed or not self._turn.acquire(blocking=False):
            return None
        try:
            hits = self._index.search_at_once(query.text, query.limit, self._min_score)
        except FAULTS as error:
            raise StoreFailed(store=self.id, operation="find") from error
        finally:
            self._turn.release()
        return None if hits is None else [self._candidate(hit) for hit in hits]

    async def find(self, query: Query) -> Sequence[Candidate]:
        """Return the best chunks for the query's text.

        Cancelling leaves the index whole: a search that has not begun is dropped, one
        that runs ends by itself.

        Raises:
            SourceFailed: no look has ended yet.
            StoreFailed: the folder or the index cannot be read.
        """

        def search() -> Sequence[Hit] | None:
            if not self._index.is_looking and not self._index.look_on():
                self._thread.submit(self._look_on)
            return self._index.search(query.text, query.limit, self._min_score)

        hits = await self._run("find", search)
        if hits is None:
            raise SourceFailed(source=self.id, reason=SourceFailed.NOT_READY)
        return [self._candidate(hit) for hit in hits]

    async def close(self) -> None:
        """Stop the thread and close the index. May be called twice."""
        if self._is_closed:
            return
        self._is_closed = True
        self._index.stop()
        self._thread.submit(self._in_turn, self._index.close)
        await asyncio.to_thread(self._thread.shutdown, wait=True)

    def _look_on(self) -> None:
        """Go on with a look in the source's thread; searches come between."""
        # A fault is kept for who asks; closed meanwhile, there is nothing to go on for.
        with contextlib.suppress(*FAULTS, RuntimeError):
            if not self._in_turn(self._index.look_on):
                self._thread.submit(self._look_on)

    def _in_turn(self, work: Callable[[], _Answer]) -> _Answer:
        with self._turn:
            return work()

    async def _run(self, operation: str, work: Callable[[], _Answer]) -> _Answer:
        if self._is_closed:
            raise StoreFailed(store=self.id, operation=operation)
        loop = asyncio.get_running_loop()
        try:
            return await loop.run_in_executor(self._thread, self._in_turn, work)
        except FAULTS as error:
            raise StoreFailed(store=self.id, operation=operation) from error

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
