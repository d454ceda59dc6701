"""The composition root: builds every part once, closes all in reverse order.

Rules:
- A reload builds a new runtime and swaps it as a whole; what fails leaves the old one.
- Draining stops accepting, lets running requests finish within the grace, then ends.
"""

import asyncio
import os
import random
import secrets
import socket
import time
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import msgspec
from aiohttp import web

from deuz_compiler import Operation
from deuz_proxy import __version__
from deuz_proxy.config.load import load_config
from deuz_proxy.config.model import Config, redacted
from deuz_proxy.config.routing import route_labels
from deuz_proxy.config.windows import Models
from deuz_proxy.edge.admin import AdminParts, make_admin
from deuz_proxy.edge.http1_server import make_http1_server
from deuz_proxy.edge.http1_upstreams import Http1Upstreams
from deuz_proxy.edge.service import Service
from deuz_proxy.errors import ListenFailed
from deuz_proxy.observe.events import Fanout, Trace
from deuz_proxy.observe.names import NEWEST, OLDER
from deuz_proxy.observe.trace import make_trace, sampler_named
from deuz_proxy.runtime import Runtime
from deuz_proxy.sinks.families import Bounds as LabelBounds
from deuz_proxy.sinks.feed import Feed
from deuz_proxy.sinks.otlp import Targets, resolve_targets
from deuz_proxy.sinks.prometheus import PrometheusSink
from deuz_proxy.sinks.telemetry import Identity, Telemetry, open_telemetry
from deuz_proxy.sources.build import build_sources
from deuz_proxy.stores.checkpoints import Checkpoints
from deuz_proxy.stores.estimates import Estimates
from deuz_proxy.stores.ledger_memory import Bounds as LedgerBounds
from deuz_proxy.stores.ledger_memory import MemoryLedger
from deuz_proxy.stores.tracker import Tracker

_TELEMETRY_GRACE_SECONDS = 3.0
_RELOAD_LOOK_SECONDS = 1.0
_BACKLOG = 1024


@dataclass(frozen=True, slots=True)
class Settings:
    """What the command line says over the config."""

    config_path: Path | None = None
    listen: str | None = None
    admin: str | None = None


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
        self._environ = environ
        self._stack = AsyncExitStack()
        self._is_draining = False
        self.config = config
        self.models = Models(config.models)
        self.labels = label_bounds(config, self.models)
        self.feed = Feed(generation=secrets.token_hex(4))
        self.prometheus = PrometheusSink(self.labels)
        self.service = Service(lambda: self.runtime)
        self.runtime: Runtime
        self.addresses: Addresses

    async def open(self) -> None:
        """Open every part, the listening sockets last."""
        telemetry = self._open_telemetry()
        fanout = Fanout((self.prometheus, self.feed, *telemetry.listeners))
        self._stack.push_async_callback(
            asyncio.to_thread, telemetry.close, _TELEMETRY_GRACE_SECONDS
        )
        limits = self.config.limits
        upstreams = await Http1Upstreams(
            connect_seconds=limits.connect_seconds,
            idle_seconds=limits.stream_idle_seconds,
        ).open()
        self._stack.push_async_callback(upstreams.close)
        ledger = MemoryLedger(
            ledger_bounds(self.config), weigh=weigh, clock=time.time, tell=fanout
        )
        self._stack.push_async_callback(ledger.close)
        self.runtime = Runtime(
            config=self.config,
            upstreams=upstreams,
            ledger=ledger,
            sources=await build_sources(self.config),
            tracker=Tracker(new_id=new_id),
            checkpoints=Checkpoints(),
            estimates=Estimates(),
            models=self.models,
            notice=fanout,
            clock=time.time,
            monotonic=time.perf_counter,
            new_id=new_id,
            new_trace=trace_maker(self._environ),
        )
        self._stack.push_async_callback(self._close_sources)
        await self._listen(fanout)

    async def close(self) -> None:
        """Stop accepting, let requests finish within the grace, close every part."""
        self._is_draining = True
        await self._stack.aclose()

    async def reload(self, config: Config) -> None:
        """Take a new config; listening addresses and the ledger stay as they are."""
        sources = await build_sources(config)
        old = self.runtime
        self.config, self.models = config, Models(config.models)
        fresh = label_bounds(config, self.models)
        self.labels.routes, self.labels.sources = fresh.routes, fresh.sources
        self.labels.known_model = fresh.known_model
        self.prometheus.prepare()
        self.runtime = replace(old, config=config, sources=sources, models=self.models)
        for source in old.sources:
            await source.close()

    async def _close_sources(self) -> None:
        for source in self.runtime.sources:
            await source.close()

    def _open_telemetry(self) -> Telemetry:
        otlp = self.config.telemetry.otlp
        targets = resolve_targets(
            self._environ,
            endpoint=str(otlp.endpoint) if otlp.endpoint else None,
            protocol=otlp.protocol,
            headers={k: v.get_secret_value() for k, v in otlp.headers.items()},
        ) or Targets(None, None)
        return open_telemetry(
            targets,
            self.prometheus,
            Identity(
                __version__,
                secrets.randbits,
                OLDER if self.config.telemetry.legacy_names else NEWEST,
            ),
        )

    async def _listen(self, fanout: Fanout) -> None:
        """Open the sockets; the admin's first: it then tells of a drain to its end."""
        config, settings = self.config, self._settings
        token = config.admin.token
        host = (settings.admin or config.admin.listen).rpartition(":")[0]
        admin = make_admin(
            AdminParts(
                feed=self.feed,
                metrics=self.prometheus.render,
                readiness=lambda: ["draining"] if self._is_draining else [],
                config=self._shown_config,
                faults=lambda: fanout.faults,
            ),
            token=token.get_secret_value() if token else None,
            hosts=(host,),
        )
        runner = web.AppRunner(admin, access_log=None, shutdown_timeout=1.0)
        at = settings.admin or config.admin.listen
        address = await self._site(runner, at, name="admin")
        self.addresses = Addresses("", f"http://{address}")
        listen = await self._serve_at(settings.listen or config.listen)
        self.addresses = Addresses(f"http://{listen}", f"http://{address}")

    async def _serve_at(self, address: str) -> str:
        server = await make_http1_server(self.service)
        grace = self.config.limits.drain_seconds
        self._stack.push_async_callback(server.close, grace_seconds=grace)
        host, _, port = address.rpartition(":")
        try:
            _, bound = await server.listen(host.strip("[]"), int(port))
        except OSError as fault:
            reason = listen_words(fault)
            raise ListenFailed(name="listen", address=address, reason=reason) from fault
        return f"{host}:{bound}"

    def _shown_config(self) -> Mapping[str, object]:
        """Return the config in force, with the addresses that were really bound."""
        bound = {"listen": self.addresses.listen.removeprefix("http://")}
        return redacted(self.config) | bound

    async def _site(self, runner: web.BaseRunner, address: str, *, name: str) -> str:
        await runner.setup()
        self._stack.push_async_callback(runner.cleanup)
        host, _, port = address.rpartition(":")
        site = web.TCPSite(runner, host.strip("[]"), int(port), backlog=_BACKLOG)
        try:
            await site.start()
        except OSError as fault:
            reason = listen_words(fault)
            raise ListenFailed(name=name, address=address, reason=reason) from fault
        bound = runner.addresses[0]
        return f"{host}:{bound[1]}"


def listen_words(fault: OSError) -> str:
    """Return why an address cannot be listened on; the loop's own words repeat it."""
    is_name = isinstance(fault, socket.gaierror) or not fault.errno
    words = fault.strerror if is_name else os.strerror(fault.errno or 0)
    return (words or type(fault).__name__).lower()


def label_bounds(config: Config, models: Models) -> LabelBounds:
    """Return the names that labels may take under this config."""
    return LabelBounds(
        routes=frozenset(route_labels(config)),
        sources=frozenset(source.id for source in config.context.sources),
        known_model=models.known,
    )


def ledger_bounds(config: Config) -> LedgerBounds:
    """Return the ledger's bounds."""
    ledger = config.ledger
    return LedgerBounds(ledger.max_entries, ledger.max_bytes, ledger.ttl_seconds)


def weigh(operations: tuple[Operation, ...]) -> int:
    """Return how many bytes the operations take when stored."""
    return len(msgspec.msgpack.encode(operations))


def new_id() -> str:
    """Return an id for a request or a conversation; random, so nothing can be told.

    Not a secret: asking the kernel each time costs more than hashing the body.
    """
    return f"{random.getrandbits(64):016x}"


def trace_maker(environ: Mapping[str, str]) -> Callable[[str | None], Trace]:
    """Return what makes a request's trace ids from its `traceparent`."""
    sampler = sampler_named(
        environ.get("OTEL_TRACES_SAMPLER", "parentbased_always_on"),
        environ.get("OTEL_TRACES_SAMPLER_ARG", ""),
    )

    def make(traceparent: str | None) -> Trace:
        return make_trace(traceparent, random.getrandbits, sampler)

    return make


@asynccontextmanager
async def running_app(
    settings: Settings, environ: Mapping[str, str]
) -> AsyncIterator[App]:
    """Run a sidecar for the life of the block.

    Raises:
        ConfigInvalid: the config has mistakes.
        ListenFailed: an address cannot be listened on.
    """
    config = load_config(settings.config_path, environ)
    app = App(settings, config, environ)
    try:
        await app.open()
        yield app
    finally:
        await app.close()
