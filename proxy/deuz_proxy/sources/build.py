"""Sources from their config; the list of types is written out here."""

import contextlib
import time

from deuz_proxy.config.context import SourceConfig, StaticSource
from deuz_proxy.config.model import Config
from deuz_proxy.errors import StoreFailed
from deuz_proxy.ports import Source
from deuz_proxy.sources.files import FolderFiles
from deuz_proxy.sources.static import StaticRecords


async def build_sources(config: Config) -> tuple[Source, ...]:
    """Return the configured sources, ready to be asked.

    A folder is read now, so that no request waits for it; one that cannot be read is
    answered for when it is asked.
    """
    return tuple([await _build(source) for source in config.context.sources])


async def _build(source: SourceConfig) -> Source:
    if isinstance(source, StaticSource):
        return StaticRecords(source)
    files = FolderFiles(source, clock=time.monotonic)
    with contextlib.suppress(StoreFailed):
        await files.warm()
    return files
