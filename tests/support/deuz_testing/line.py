"""The line for tests, with real sockets around it.

Rules:
- `running_line` is the product's own server, line and upstream session; only ports that
  a test hands in are stand-ins. What it told stands in `Line.told`.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from itertools import count
from pathlib import Path
from typing import Any, TypeVar

from deuz_compiler import Candidate
from deuz_proxy.config.load import parse_config
from deuz_proxy.config.model import Config
from deuz_proxy.config.windows import Models
from deuz_proxy.edge.http1_server import make_http1_server
from deuz_proxy.edge.http1_upstreams import Http1Upstreams
from deuz_proxy.edge.service import Service
from deuz_proxy.observe.events import (
    Event,
    FaultCaught,
    RequestFinished,
    RequestStarted,
)
from deuz_proxy.ports import Query, Source
from deuz_proxy.runtime import Runtime
from deuz_proxy.serving import connection_bounds
from deuz_proxy.sources.build import build_sources, make_breakers
from deuz_proxy.stores.build import ledger_bounds, weigh
from deuz_proxy.stores.checkpoints import Checkpoints
from deuz_proxy.stores.estimates import Estimates
from deuz_proxy.stores.ledger_memory import MemoryLedger
from deuz_proxy.stores.tracker import Tracker
from deuz_testing.scripted import ScriptedUpstreams
from deuz_testing.waiting import until

_E = TypeVar("_E", bound=Event)


COMPILE = """
upstreams:
  anthropic: {{url: "{url}", wire: anthropic, placement: {placement}}}
  openai: {{url: "{url}", wire: openai, placement: {placement}}}
routes:
  - {{path: /v1/messages, mode: {mode}}}
  - {{path: /v1/chat/completions, mode: {mode}}}
  - {{path: /v1/responses, mode: {mode}}}
on_error: {on_error}
{more}
"""


RULE = Candidate(
    source="rules", kind="memory", record_id="r1", text="Answer in metres.", score=1.0
)


def make_config(
    url: str = "http://upstream.test",
    *,
    mode: str = "compile",
    placement: str = "turn",
    on_error: str = "open",
    more: str = "",
) -> Config:
    """Return a config whose two wires lead to one address.

    Where nothing is said of the sources' deadline, no busy machine makes one late.
    """
    text = COMPILE.format(
        url=url, mode=mode, placement=placement, on_error=on_error, more=more
    )
    config = parse_config(text, name="test", folder=Path(), environ={})
    if "deadline_ms" in more:
        return config
    refresh = config.context.refresh.model_copy(update={"deadline_ms": 30_000})
    context = config.context.model_copy(update={"refresh": refresh})
    return config.model_copy(update={"context": context})


@dataclass
class Told:
    """A listener that keeps all events."""

    events: list[Event] = field(default_factory=list)

    def __call__(self, event: Event) -> None:
        self.events.append(event)

    def of(self, kind: type[_E]) -> list[_E]:
        return [event for event in self.events if isinstance(event, kind)]

    @property
    def finished(self) -> list[RequestFinished]:
        return self.of(RequestFinished)

    @property
    def last(self) -> RequestFinished:
        return self.finished[-1]

    @property
    def faults(self) -> list[tuple[str, str]]:
        return [(fault.where, fault.code) for fault in self.of(FaultCaught)]

    @property
    def in_flight(self) -> int:
        return len(self.of(RequestStarted)) - len(self.finished)

    async def until_finished(self, number: int = 1) -> RequestFinished:
        """Return the last finished request once so many are."""
        await until(lambda: len(self.finished) >= number)
        return self.last


@dataclass
class FixedSource:
    """A source that answers what the test says, and keeps what it was asked."""

    found: Sequence[Candidate] | BaseException = (RULE,)
    seconds: float = 0.0
    id: str = "rules"
    kind: str = "memory"
    is_required: bool = False
    gives_mandatory: bool = True
    asked: list[Query] = field(default_factory=list)
    is_closed: bool = False

    async def find(self, query: Query) -> Sequence[Candidate]:
        self.asked.append(query)
        if self.seconds:
            await asyncio.sleep(self.seconds)
        if isinstance(self.found, BaseException):
            raise self.found
        return self.found

    async def close(self) -> None:
        self.is_closed = True


SOURCE_CONFIG = """
context:
  refresh: {deadline_ms: 20000}
  sources:
    - {id: rules, kind: memory, type: static, records: [{id: r1, text: never asked}]}
"""


def make_runtime(
    config: Config,
    told: Told,
    *,
    sources: Sequence[Source] = (),
    **parts: Any,
) -> Runtime:
    """Return a runtime of real parts, but for those handed in."""
    numbers = count(1)

    def new_id() -> str:
        return f"id-{next(numbers)}"

    ledger = MemoryLedger(
        ledger_bounds(config.ledger), weigh=weigh, clock=time.time, tell=told
    )
    made: dict[str, Any] = {
        "config": config,
        "upstreams": ScriptedUpstreams(),
        "ledger": ledger,
        "sources": tuple(sources),
        "breakers": make_breakers(config, clock=time.monotonic),
        "tracker": Tracker(new_id=new_id),
        "checkpoints": Checkpoints(),
        "estimates": Estimates(),
        "models": Models(config.models),
        "notice": told,
        "clock": time.time,
        "monotonic": time.perf_counter,
        "new_id": new_id,
    }
    return Runtime(**(made | parts))


@dataclass
class Line:
    """A sidecar's serving half on a port of its own."""

    url: str
    told: Told
    runtime: Runtime
    service: Service

    def change(self, **parts: Any) -> None:
        """Put other parts in force, as a reload does."""
        self.runtime = replace(self.runtime, **parts)


@asynccontextmanager
async def running_line(
    config: Config, *, sources: Sequence[Source] | None = None, **parts: Any
) -> AsyncIterator[Line]:
    """Serve with this config until the block ends; sources are built from it, too."""
    told = Told()
    limits = config.limits
    upstreams = await Http1Upstreams(
        connect_seconds=limits.connect_seconds, idle_seconds=limits.stream_idle_seconds
    ).open()
    asked = await build_sources(config) if sources is None else tuple(sources)
    runtime = make_runtime(
        config, told, sources=asked, **({"upstreams": upstreams} | parts)
    )
    lines: list[Line] = []
    service = Service(lambda: lines[0].runtime)
    server = await make_http1_server(
        service, refuse=service.refuse, bounds=connection_bounds(config)
    )
    host, port = await server.listen("127.0.0.1", 0)
    url = f"http://{host}:{port}"
    lines.append(Line(url, told, runtime, service))
    try:
        yield lines[0]
    finally:
        await server.close(grace_seconds=0.2)
        await upstreams.close()
        for source in lines[0].runtime.sources:
            await source.close()
