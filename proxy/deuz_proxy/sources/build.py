"""Sources from their config; the list of types is written out here."""

import contextlib
import time
from collections.abc import Callable

from deuz_proxy.config.context import SourceConfig, StaticSource
from deuz_proxy.config.memory import StoreSource
from deuz_proxy.config.model import Config
from deuz_proxy.config.outside import HttpSource, McpSource
from deuz_proxy.errors import StoreFailed
from deuz_proxy.memory.records import Records
from deuz_proxy.ports import Source
from deuz_proxy.sources.breakers import Breakers
from deuz_proxy.sources.files import FolderFiles
from deuz_proxy.sources.http import HttpService
from deuz_proxy.sources.static import StaticRecords
from deuz_proxy.sources.store import StoredRecords


async def build_sources(
    config: Config, *, records: Records | None = None
) -> tuple[Source, ...]:
    """Return the configured sources, ready to be asked; `records` is the memory store.

    A folder is read now, so that no request waits for it; one that cannot be read is
    answered for when it is asked.
    """
    return tuple([await _build(each, records) for each in config.context.sources])


def make_breakers(config: Config, *, clock: Callable[[], float]) -> Breakers:
    """Return breakers for the configured sources, all of them closed."""
    refresh = config.context.refresh
    return Breakers(
        [source.id for source in config.context.sources],
        rest_after=refresh.rest_after,
        rest_seconds=refresh.rest_seconds,
        clock=clock,
    )


async def _build(source: SourceConfig, records: Records | None) -> Source:
    if isinstance(source, StaticSource):
        return StaticRecords(source)
    if isinstance(source, HttpSource):
        return HttpService(source)
    if isinstance(source, McpSource):
        return await _build_mcp(source)
    if isinstance(source, StoreSource):
        if records is None:
            raise ValueError("a source over the memory store, without a memory store")
        return StoredRecords(source, records, clock=time.time)
    files = FolderFiles(source, clock=time.monotonic)
    with contextlib.suppress(StoreFailed):
        await files.warm()
    return files


async def _build_mcp(source: McpSource) -> Source:
    # Only who uses it pays for it: the library is large and an extra.
    from deuz_proxy.sources.mcp import McpTool  # noqa: PLC0415
    from deuz_proxy.sources.mcp_resources import McpResources  # noqa: PLC0415

    made = McpResources(source) if source.resources else McpTool(source)
    await made.open()
    return made
