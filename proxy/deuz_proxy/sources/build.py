"""Sources from their config; the list of types is written out here."""

import contextlib
import time
from collections.abc import Callable

from deuz_proxy.config.context import SourceConfig, StaticSource
from deuz_proxy.config.model import Config
from deuz_proxy.config.outside import HttpSource
from deuz_proxy.errors import StoreFailed
from deuz_proxy.ports import Source
from deuz_proxy.sources.breakers import Breakers
from deuz_proxy.sources.files import FolderFiles
from deuz_proxy.sources.http import HttpService
from deuz_proxy.sources.static import StaticRecords


async def build_sources(config: Config) -> tuple[Source, ...]:
    """Return the configured sources, ready to be asked.

    A folder is read now, so that no request waits for it; one that cannot be read is
    answered for when it is asked.
    """
    return tuple([await _build(source) for source in config.context.sources])


def make_breakers(config: Config, *, clock: Callable[[], float]) -> Breakers:
    """Return breakers for the configured sources, all of them closed."""
    refresh = config.context.refresh
    return Breakers(
        [source.id for source in config.context.sources],
        rest_after=refresh.rest_after,
        rest_seconds=refresh.rest_seconds,
        clock=clock,
    )


async def _build(source: SourceConfig) -> Source:
    if isinstance(source, StaticSource):
        return StaticRecords(source)
    if isinstance(source, HttpSource):
        return HttpService(source)
    files = FolderFiles(source, clock=time.monotonic)
    with contextlib.suppress(StoreFailed):
        await files.warm()
    return files
