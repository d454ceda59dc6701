"""All that serves requests: upstreams, stores, sources, and the listening socket.

Rules:
- A reload builds a new runtime and swaps it as a whole; what fails leaves the old one.
  Its sources are closed behind the requests that it began, which may still ask them.
- Draining stops accepting, lets running requests finish within the grace, then ends.
"""

import asyncio
import random
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import AsyncExitStack, suppress
from dataclasses import replace

from deuz_proxy.config.memory import memory_url
from deuz_proxy.config.model import Config
from deuz_proxy.config.windows import Models
from deuz_proxy.edge.http1_bounds import Bounds as ConnectionBounds
from deuz_proxy.edge.http1_server import Http1Server, make_http1_server
from deuz_proxy.edge.http1_turn import Turn
from deuz_proxy.edge.http1_upstreams import Http1Upstreams
from deuz_proxy.edge.listening import join_address, listen_failed, split_address
from deuz_proxy.edge.proxies import proxies_of
from deuz_proxy.edge.service import Service
from deuz_proxy.errors import SidecarError
from deuz_proxy.memory.forgetting import Forgettable, Memory
from deuz_proxy.memory.working import WorkingMemory
from deuz_proxy.observe.events import FaultCaught, Listener, Trace
from deuz_proxy.observe.trace import make_trace, sampler_named
from deuz_proxy.observe.vocabulary import OTHER
from deuz_proxy.runtime import Runtime
from deuz_proxy.sources.build import build_sources, make_breakers, transcripts_of
from deuz_proxy.sources.words import words_of
from deuz_proxy.stores.build import open_stores
from deuz_proxy.stores.checkpoints import Checkpoints
from deuz_proxy.stores.estimates import Estimates
from deuz_proxy.stores.memory_build import MemoryStore, open_memory

# A start waits so long for a folder that is not required. A reload waits to the end:
# meanwhile the sources of before answer.
_FOLDER_SECONDS = 2.0
# Whoever is served for longer has asked its sources: what takes so long is an answer.
_LEAVE_SECONDS = 30.0


class Serving:
    """The parts of the line. What it opens is closed by the owner's stack."""

    def __init__(
        self, config: Config, environ: Mapping[str, str], stack: AsyncExitStack
    ) -> None:
        self._environ = environ
        self._stack = stack
        self._service = Service(lambda: self.runtime)
        self.config = config
        self.runtime: Runtime
        self._server: Http1Server | None = None
        self._turn: Turn
        self._tasks = asyncio.TaskGroup()

    async def open(self, notice: Listener) -> None:
        """Open every part but the socket.

        Raises:
            StoreUnusable: a store cannot be opened.
        """
        config, limits = self.config, self.config.limits
        await self._tasks.__aenter__()
        self._stack.push_async_callback(self._tasks.__aexit__, None, None, None)
        self._turn = Turn(asyncio.get_running_loop())
        upstreams = await Http1Upstreams(
            connect_seconds=limits.connect_seconds,
            idle_seconds=limits.stream_idle_seconds,
            proxies=proxies_of(config.proxy, self._environ),
            turn=self._turn,
        ).open()
        self._stack.push_async_callback(upstreams.close)
        stores = await open_stores(
            config.ledger, self._stack, new_id=new_id, tell=notice
        )
        records = await open_memory(
            memory_url(config.memory, config.ledger.url), words_of=words_of
        )
        self._stack.push_async_callback(records.close)
        sources = await build_sources(
            config,
            records=records,
            open_past=open_past,
            folder_seconds=_FOLDER_SECONDS,
        )
        self.runtime = Runtime(
            config=config,
            upstreams=upstreams,
            ledger=stores.ledger,
            sources=sources,
            archives=transcripts_of(sources),
            breakers=make_breakers(config, clock=time.monotonic),
            tracker=stores.tracker,
            shared=stores.shared,
            checkpoints=Checkpoints(),
            estimates=Estimates(),
            models=Models(config.models),
            notice=notice,
            clock=time.time,
            monotonic=time.perf_counter,
            new_id=new_id,
            new_trace=trace_maker(self._environ),
            memory=Memory(
                records, stores.ledger, clock=time.time, others=self._transcripts
            ),
            notes=WorkingMemory(records, clock=time.time),
        )
        self._stack.push_async_callback(self._close_sources)

    async def listen(self, address: str, *, is_shared: bool = False) -> str:
        """Serve at the address; return it with the port that was bound.

        Raises:
            ListenFailed: it cannot be listened on.
        """
        server = await make_http1_server(
            self._service,
            refuse=self._service.refuse,
            bounds=connection_bounds(self.config),
            turn=self._turn,
        )
        self._server = server
        grace = self.config.limits.drain_seconds
        self._stack.push_async_callback(server.close, grace_seconds=grace)
        host, port = split_address(address)
        try:
            _, bound = await server.listen(host, port, is_shared=is_shared)
        except OSError as fault:
            raise listen_failed(fault, name="listen", address=address) from fault
        return join_address(address, bound)

    async def prepare(self, config: Config) -> Runtime:
        """Return the runtime of a new config; listening and the ledger stay."""
        memory = self.runtime.memory
        records = memory.records if memory else None
        sources = await build_sources(config, records=records, open_past=open_past)
        return replace(
            self.runtime,
            config=config,
            sources=sources,
            archives=transcripts_of(sources),
            breakers=make_breakers(config, clock=time.monotonic),
            models=Models(config.models),
        )

    async def take(self, runtime: Runtime) -> None:
        """Put a prepared runtime in force for all requests that come from now on."""
        old, self.runtime = self.runtime, runtime
        if self._server is not None:
            self._server.bounds = connection_bounds(runtime.config)
        self._tasks.create_task(self._retire(old))

    async def drop(self, runtime: Runtime) -> None:
        """Close what a runtime has of its own: it is not, or no more, in force."""
        # All of it, whichever of them fails.
        async with AsyncExitStack() as closing:
            for source in runtime.sources:
                closing.push_async_callback(source.close)

    async def _retire(self, old: Runtime) -> None:
        """Close what a runtime had, behind those who are served with it."""
        with suppress(TimeoutError):
            async with asyncio.timeout(_LEAVE_SECONDS):
                await self._service.left(old)
        try:
            await self.drop(old)
        except Exception:  # noqa: BLE001  # It must not end what runs.
            old.notice(FaultCaught(OTHER, "reload", SidecarError.code))

    def _transcripts(self) -> Iterable[Forgettable]:
        return transcripts_of(self.runtime.sources)

    async def _close_sources(self) -> None:
        await self.drop(self.runtime)


def connection_bounds(config: Config) -> ConnectionBounds:
    """Return what clients' connections are held to."""
    limits = config.limits
    return ConnectionBounds(
        idle_seconds=limits.keep_alive_seconds,
        head_seconds=limits.head_seconds,
        body_seconds=limits.body_seconds,
        connections=limits.max_connections,
        head_bytes=limits.max_head_bytes,
        head_lines=limits.max_head_lines,
    )


async def open_past(url: str) -> MemoryStore:
    """Open a store of what was said before.

    Raises:
        StoreUnusable: it cannot be opened.
    """
    return await open_memory(url, words_of=words_of)


def new_id() -> str:
    """Return an id for a request or a conversation; random, so nothing can be told.

    Not a secret: asking the kernel each time costs more than hashing the body.
    """
    return random.getrandbits(64).to_bytes(8, "big").hex()


def trace_maker(environ: Mapping[str, str]) -> Callable[[str | None], Trace]:
    """Return what makes a request's trace ids from its `traceparent`."""
    sampler = sampler_named(
        environ.get("OTEL_TRACES_SAMPLER", "parentbased_always_on"),
        environ.get("OTEL_TRACES_SAMPLER_ARG", ""),
    )

    def make(traceparent: str | None) -> Trace:
        return make_trace(traceparent, random.getrandbits, sampler)

    return make
