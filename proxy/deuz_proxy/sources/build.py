"""Sources from their config; the list of types is written out here."""

import contextlib
import math
import time
from collections.abc import Awaitable, Callable, Iterable

from deuz_proxy.config.context import FilesSource, StaticSource
from deuz_proxy.config.inside import SkillsSource, TranscriptSource
from deuz_proxy.config.memory import StoreSource
from deuz_proxy.config.model import Config
from deuz_proxy.config.outside import HttpSource, McpSource
from deuz_proxy.errors import StoreFailed
from deuz_proxy.memory.records import Records
from deuz_proxy.ports import Source
from deuz_proxy.sources.breakers import Breakers
from deuz_proxy.sources.files import FolderFiles
from deuz_proxy.sources.skills import FolderSkills
from deuz_proxy.sources.static import StaticRecords
from deuz_proxy.sources.store import StoredRecords
from deuz_proxy.sources.transcript import Past, Transcript

OpenPast = Callable[[str], Awaitable[Past]]
OtherSource = (
    StaticSource
    | HttpSource
    | StoreSource
    | SkillsSource
    | TranscriptSource
    | McpSource
)


async def build_sources(
    config: Config,
    *,
    records: Records | None = None,
    open_past: OpenPast | None = None,
    folder_seconds: float = math.inf,
) -> tuple[Source, ...]:
    """Return the configured sources, ready to be asked.

    `records` is the memory store, `open_past` opens one of what was said before. A
    folder is read now, for so many seconds, or to the end where it is required; then
    it reads on by itself. One that cannot be read is answered for when it is asked.

    Raises:
        StoreUnusable: a store of what was said cannot be opened.
    """
    built: list[Source] = []
    # One that cannot be opened ends those that were: a reload goes on without them.
    async with contextlib.AsyncExitStack() as opened:
        for each in config.context.sources:
            if isinstance(each, FilesSource):
                source: Source = await _build_files(each, folder_seconds)
            else:
                source = await _build(each, records, open_past)
            opened.push_async_callback(source.close)
            built.append(source)
        opened.pop_all()
    return tuple(built)


def make_breakers(config: Config, *, clock: Callable[[], float]) -> Breakers:
    """Return breakers for the configured sources, all of them closed."""
    refresh = config.context.refresh
    return Breakers(
        [source.id for source in config.context.sources],
        rest_after=refresh.rest_after,
        rest_seconds=refresh.rest_seconds,
        clock=clock,
    )


def transcripts_of(sources: Iterable[Source]) -> tuple[Transcript, ...]:
    """Return the sources that remember what was said."""
    return tuple([each for each in sources if isinstance(each, Transcript)])


async def _build(
    source: OtherSource, records: Records | None, open_past: OpenPast | None
) -> Source:
    match source:
        case StaticSource():
            made: Source = StaticRecords(source)
        case HttpSource():
            made = _build_http(source)
        case StoreSource():
            made = _build_store(source, records)
        case SkillsSource():
            made = FolderSkills(source, clock=time.monotonic)
        case TranscriptSource():
            made = await _build_transcript(source, open_past)
        case _:
            made = await _build_mcp(source)
    return made


def _build_store(source: StoreSource, records: Records | None) -> Source:
    if records is None:
        raise ValueError("a source over the memory store, without a memory store")
    return StoredRecords(source, records, clock=time.time)


async def _build_files(source: FilesSource, most_seconds: float) -> Source:
    files = FolderFiles(source, clock=time.monotonic)
    with contextlib.suppress(StoreFailed):
        await files.warm(most_seconds=most_seconds)
    return files


async def _build_transcript(
    source: TranscriptSource, open_past: OpenPast | None
) -> Source:
    if open_past is None:
        raise ValueError("a source over what was said, without a store")
    made = Transcript(source, await open_past(source.url), clock=time.time)
    await made.open()
    return made


def _build_http(source: HttpSource) -> Source:
    # Only who uses it pays for it: the library is a sixth of an idle process.
    from deuz_proxy.sources.http import HttpService  # noqa: PLC0415

    return HttpService(source)


async def _build_mcp(source: McpSource) -> Source:
    # Only who uses it pays for it: the library is large and an extra.
    from deuz_proxy.sources.mcp import McpTool  # noqa: PLC0415
    from deuz_proxy.sources.mcp_resources import McpResources  # noqa: PLC0415

    made = McpResources(source) if source.resources else McpTool(source)
    await made.open()
    return made
