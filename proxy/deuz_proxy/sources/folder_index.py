"""A folder's index, brought up to date slice by slice.

Rules:
- The folder is looked at once a second at most, and more seldom where looking takes
  long. A look is one change of the index: it holds as a whole or not at all, but who
  searches meanwhile sees how far it has come.
- A failed look leaves the index as it was, and nothing is answered until one ends well.
- An index in a file is shared: one process looks, the others answer from what it wrote.
- One thread's at a time, but for `stop`.
"""

import hashlib
import math
import sqlite3
from collections import Counter
from collections.abc import Callable, Generator, Mapping, Sequence
from pathlib import PurePosixPath

from deuz_proxy.config.context import FilesSource
from deuz_proxy.sources.chunks import Chunk, chunk_markdown, chunk_plain
from deuz_proxy.sources.folder import Found, Listing, NotText, fill_listing
from deuz_proxy.sources.index import IN_PROCESS, ChunkIndex, Stamp
from deuz_proxy.sources.scores import Hit
from deuz_proxy.sources.sole import sole_process

LOOK_SECONDS = 1.0
# A sixth of the default deadline of all sources: what a search may wait for a look.
SLICE_SECONDS = 0.05
FAULTS = (OSError, sqlite3.Error)
"""What reading the folder or the index may raise."""
# Looking takes at most a twentieth of the time: 10 000 files take 0.1 s, so every 2 s.
_LOOK_SHARE = 20
_MARKDOWN = (".md", ".markdown", ".mdx")


class FolderIndex:
    """The index and what it was made from; `clock` is monotonic."""

    def __init__(
        self,
        config: FilesSource,
        clock: Callable[[], float],
        read: Callable[[Found], str],
    ) -> None:
        self.skipped: Mapping[str, int] = {}
        self._folder = config.path
        self._ignored = config.ignore
        self._file = config.index
        self._clock = clock
        self._read = read
        self._index: ChunkIndex | None = None
        self._steps: Generator[None, None, None] | None = None
        self._fault: OSError | sqlite3.Error | None = None
        self._spent_seconds = 0.0
        self._next_look = -math.inf
        # What an index of this process alone was made of, once it was made of it.
        self._seen: list[Found] | None = None
        self._unread: Counter[str] = Counter()
        self._is_filled = False
        self._is_stopping = False

    @property
    def is_looking(self) -> bool:
        """Whether a look was begun and is not over."""
        return self._steps is not None

    def look_on(self) -> bool:
        """Look at the folder for a slice, if it is time; tell whether the look is over.

        After a failure nothing is answered until a look has ended well.
        """
        started = self._clock()
        if self._steps is None:
            if started < self._next_look:
                return True
            self._steps = self._look()
            self._spent_seconds = 0.0
        try:
            is_over = self._is_over_by(started + SLICE_SECONDS)
        except FAULTS as fault:
            self._steps, self._fault = None, fault
            raise
        ended = self._clock()
        self._spent_seconds += ended - started
        if is_over:
            self._steps = self._fault = None
            seconds = max(LOOK_SECONDS, self._spent_seconds * _LOOK_SHARE)
            self._next_look = ended + seconds
        return is_over or self._is_stopping

    def search(self, text: str, limit: int, min_score: float) -> Sequence[Hit] | None:
        """Return the best chunks; None before a first look has ended.

        Raises:
            OSError: the last look failed.
            sqlite3.Error: it, or this search, failed.
        """
        if self._fault is not None:
            raise self._fault
        index = self._opened()
        self._is_filled = self._is_filled or index.is_filled()
        if not self._is_filled:
            return None
        return index.search(text, limit=limit, min_score=min_score)

    def search_at_once(
        self, text: str, limit: int, min_score: float
    ) -> Sequence[Hit] | None:
        """Do as `search` where that is little work; else return None.

        It is not while a look is due or under way.

        Raises:
            sqlite3.Error: this search failed.
        """
        index = self._index
        is_settled = self._is_filled and self._fault is None and self._steps is None
        if index is None or not is_settled or self._clock() >= self._next_look:
            return None
        return index.search_at_once(text, limit=limit, min_score=min_score)

    def stop(self) -> None:
        """Ask a running look to end after its current file. From any thread."""
        self._is_stopping = True

    def close(self) -> None:
        """Close the index."""
        if self._steps is not None:
            self._steps.close()
        if self._index is not None:
            self._index.close()

    def _is_over_by(self, end: float) -> bool:
        """Take steps until the look is over or the time is; tell which."""
        for _ in self._steps or ():
            if self._is_stopping or self._clock() >= end:
                return False
        return True

    def _opened(self) -> ChunkIndex:
        if self._index is None:
            self._index = ChunkIndex(str(self._file or IN_PROCESS))
        return self._index

    def _look(self) -> Generator[None, None, None]:
        """Bring the index up to date, in steps of a file each."""
        listing = Listing()
        yield from fill_listing(listing, self._folder, ignored=self._ignored)
        if listing.files != self._seen:
            self._seen = None
            yield from self._take_over(self._opened(), listing.files)
        self.skipped = dict(listing.skipped + self._unread)

    def _take_over(
        self, index: ChunkIndex, files: list[Found]
    ) -> Generator[None, None, None]:
        """Make the index one of these files, if it is not."""
        if _differ(files, index.stamps()) or not index.is_filled():
            with sole_process(self._file) as is_sole:
                # Another process at the same is left to it: its work is not done twice.
                if is_sole:
                    yield from self._update(index, files)
        stamps = index.stamps().values()
        self._unread = Counter(each.skipped for each in stamps if each.skipped)
        if self._file is None:
            self._seen = files

    def _update(
        self, index: ChunkIndex, files: Sequence[Found]
    ) -> Generator[None, None, None]:
        index.begin()
        try:
            known = index.stamps()
            for name in sorted(known.keys() - {found.name for found in files}):
                index.remove(name)
                yield
            for found in files:
                if not _is_same(found, known.get(found.name)):
                    self._index_file(index, found, known.get(found.name))
                    yield
            index.commit()
        finally:
            index.rollback()

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
