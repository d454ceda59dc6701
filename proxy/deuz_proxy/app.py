"""The composition root of one process: what serves, what tells, closed in order.

Rules:
- The admin address opens first and closes last: it tells of a drain to its end.
- What fails in a reload leaves all as it was.
"""

from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from deuz_proxy.config.load import load_config
from deuz_proxy.config.model import Config
from deuz_proxy.observe.events import Listener, WorkerStarted
from deuz_proxy.runtime import Runtime
from deuz_proxy.serving import Serving
from deuz_proxy.sinks.feed import Feed
from deuz_proxy.telling import Telling


@dataclass(frozen=True, slots=True)
class Settings:
    """What the command line says over the config."""

    config_path: Path | None = None
    listen: str | None = None
    admin: str | None = None
    workers: int = 1


@dataclass(frozen=True, slots=True)
class Addresses:
    """Where a running sidecar answers."""

    listen: str
    admin: str


class App:
    """One running sidecar. Opened and closed by `running_app`."""

    def __init__(
        self, settings: Settings, config: Config, environ: Mapping[str, str]
    ) -> None:
        self._settings = settings
        self._stack = AsyncExitStack()
        self._is_draining = False
        self._telling = Telling(config, environ, self._stack)
        self.serving = Serving(config, environ, self._stack)
        self.addresses = Addresses("", "")

    @property
    def config(self) -> Config:
        """What it was started with."""
        return self.serving.config

    @property
    def notice(self) -> Listener:
        """What is told of every event."""
        return self._telling.fanout.__call__

    @property
    def feed(self) -> Feed:
        """What the admin address remembers."""
        return self._telling.feed

    @property
    def runtime(self) -> Runtime:
        """What the next request will be served with."""
        return self.serving.runtime

    async def open(self) -> None:
        """Open every part, the listening sockets last."""
        config = self.serving.config
        self._telling.open()
        await self.serving.open(self.notice)
        admin = await self._telling.listen(
            self._settings.admin or config.admin.listen,
            readiness=lambda: ["draining"] if self._is_draining else [],
            served_at=lambda: self.addresses.listen.removeprefix("http://"),
            runtime=lambda: self.runtime,
        )
        listen = await self.serving.listen(self._settings.listen or config.listen)
        self.addresses = Addresses(f"http://{listen}", f"http://{admin}")
        self.notice(WorkerStarted(0))

    async def close(self) -> None:
        """Stop accepting, let requests finish within the grace, close every part."""
        self._is_draining = True
        await self._stack.aclose()

    async def reload(self, config: Config) -> None:
        """Take a new config; listening addresses and the ledger stay as they are."""
        runtime = await self.serving.prepare(config)
        self._telling.reload(config)
        await self.serving.take(runtime)


@asynccontextmanager
async def running_app(
    settings: Settings, environ: Mapping[str, str]
) -> AsyncIterator[App]:
    """Run a sidecar for the life of the block.

    Raises:
        ConfigInvalid: the config has mistakes.
        StoreUnusable: a store cannot be opened.
        ListenFailed: an address cannot be listened on.
    """
    config = load_config(settings.config_path, environ)
    app = App(settings, config, environ)
    try:
        await app.open()
        yield app
    finally:
        await app.close()
