"""The composition root of several processes: this one tells, its workers serve.

Rules:
- It never serves a request: what it is slow at delays a page, not an answer.
- Ready means that all workers listen.
- A reload is prepared by all workers before any of them takes it.
- What one process keeps in its memory, several keep in files of their own: in a folder
  that goes with the sidecar. For the admin API this process opens them, too.
"""

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from hashlib import sha256
from pathlib import Path
from shutil import rmtree
from tempfile import mkdtemp

from pydantic import SecretStr

from deuz_proxy.app import Addresses, Settings
from deuz_proxy.config.context import FilesSource, SourceConfig
from deuz_proxy.config.inside import TranscriptSource
from deuz_proxy.config.ledger import MEMORY
from deuz_proxy.config.load import load_config
from deuz_proxy.config.memory import IN_PROCESS, SQLITE, memory_url
from deuz_proxy.config.model import Config
from deuz_proxy.edge.listening import hold_address
from deuz_proxy.edge.worker_channel import Begin, pack_config
from deuz_proxy.edge.workers import Workers
from deuz_proxy.observe.events import Listener
from deuz_proxy.serving import Serving
from deuz_proxy.sinks.feed import Feed
from deuz_proxy.telling import Telling

_STORES = ("ledger", "memory")


class Keeper:
    """One running sidecar of several processes. Opened and closed by its context."""

    def __init__(
        self, settings: Settings, config: Config, environ: Mapping[str, str]
    ) -> None:
        self._settings = settings
        self._environ = environ
        self._stack = AsyncExitStack()
        self._is_draining = False
        # Only its owner may look inside: blocks hold text.
        self._folder = Path(mkdtemp(prefix="deuz-sidecar-"))
        self._stack.callback(rmtree, self._folder, ignore_errors=True)
        shared = shared_config(config, self._folder)
        self.config = config
        self._telling = Telling(config, environ, self._stack)
        self._serving = Serving(shared, environ, self._stack)
        self._workers: Workers
        self.addresses = Addresses("", "")

    @property
    def notice(self) -> Listener:
        """What is told of every event."""
        return self._telling.fanout

    @property
    def feed(self) -> Feed:
        """What the admin address remembers."""
        return self._telling.feed

    async def open(self) -> None:
        """Open what tells, then start the workers; return once all of them listen."""
        config, settings = self.config, self._settings
        self._telling.open()
        listen, held = hold_address(settings.listen or config.listen)
        for each in held:
            self._stack.callback(each.close)
        await self._serving.open(self.notice)
        self._workers = Workers(
            settings.workers,
            Begin(pack_config(self._serving.config), listen, str(self._folder)),
            notice=self.notice,
            environ=self._environ,
        )
        self._telling.feed.list_workers = self._workers.describe
        admin = await self._telling.listen(
            settings.admin or config.admin.listen,
            readiness=self._reasons,
            served_at=lambda: listen,
            runtime=lambda: self._serving.runtime,
        )
        self.addresses = Addresses(f"http://{listen}", f"http://{admin}")
        grace = config.limits.drain_seconds
        self._stack.push_async_callback(self._workers.close, grace_seconds=grace)
        await self._workers.open()

    async def close(self) -> None:
        """Let the workers drain within the grace, then close every part."""
        self._is_draining = True
        await self._stack.aclose()

    async def reload(self, config: Config) -> None:
        """Let all workers take a new config; what one cannot prepare none takes."""
        # Also a worker that starts later opens the stores that the others have.
        stores = {name: getattr(self._serving.config, name) for name in _STORES}
        shared = shared_config(config.model_copy(update=stores), self._folder)
        runtime = await self._serving.prepare(shared)
        try:
            await self._workers.prepare(pack_config(shared))
        except BaseException:
            await self._serving.drop(runtime)
            raise
        self._telling.reload(config)
        try:
            await self._workers.take()
        finally:
            # One that is late takes it yet, and who starts from now on has it: what the
            # keeper forgets must be what they hold.
            await self._serving.take(runtime)

    def _reasons(self) -> Sequence[str]:
        if self._is_draining:
            return ["draining"]
        serving, wanted = self._workers.listening, self._settings.workers
        return [] if serving == wanted else [f"{serving} of {wanted} workers listen"]


def shared_config(config: Config, folder: Path) -> Config:
    """Return the config with files in the folder for stores that one process keeps."""
    memory = memory_url(config.memory, config.ledger.url)
    changed: dict[str, object] = {}
    if config.ledger.url == MEMORY:
        url = f"{SQLITE}{folder / 'ledger.db'}"
        changed["ledger"] = config.ledger.model_copy(update={"url": url})
    if memory == IN_PROCESS:
        url = f"{SQLITE}{folder / 'memory.db'}"
        changed["memory"] = config.memory.model_copy(update={"url": SecretStr(url)})
    sources = tuple([_shared_source(each, folder) for each in config.context.sources])
    changed["context"] = config.context.model_copy(update={"sources": sources})
    return config.model_copy(update=changed)


def _shared_source(source: SourceConfig, folder: Path) -> SourceConfig:
    """Return a source that all processes share: its index, or what it keeps."""
    if isinstance(source, TranscriptSource) and source.url == IN_PROCESS:
        # What is forgotten is forgotten by the keeper, whichever worker was told it.
        url = f"{SQLITE}{folder / f'transcript-{source.id}.db'}"
        return source.model_copy(update={"url": url})
    if not isinstance(source, FilesSource) or source.index is not None:
        return source
    # By what is in it, so that a reload finds the one that it can go on with.
    content = repr((source.path, source.ignore)).encode()
    name = f"files-{sha256(content).hexdigest()[:16]}.db"
    return source.model_copy(update={"index": folder / name})


@asynccontextmanager
async def running_keeper(
    settings: Settings, environ: Mapping[str, str]
) -> AsyncIterator[Keeper]:
    """Run a sidecar of `settings.workers` processes for the life of the block.

    Raises:
        ConfigInvalid: the config has mistakes.
        StoreUnusable: a store cannot be opened.
        ListenFailed: an address cannot be listened on.
        WorkerFailed: a worker could not begin.
    """
    config = load_config(settings.config_path, environ)
    keeper = Keeper(settings, config, environ)
    try:
        await keeper.open()
        yield keeper
    finally:
        await keeper.close()
