"""The listener behind `/metrics`: events in, bounded time series out.

Rules:
- What was not reported is not counted: an absent figure never becomes 0.
- No event can make this raise: a negative count is left out, an unknown word is
  `other`.
- Series whose labels are known beforehand exist from the start, so that the first event
  already shows as an increase.
"""

from collections.abc import Iterable
from itertools import product
from typing import Any

from prometheus_client import CollectorRegistry
from prometheus_client.exposition import choose_encoder

from deuz_proxy.observe import catalog, vocabulary
from deuz_proxy.observe.events import (
    Compile,
    Event,
    EventsLost,
    FaultCaught,
    LedgerUsed,
    RequestFinished,
    RequestStarted,
    WorkerEnded,
    WorkerStarted,
)
from deuz_proxy.sinks.alike import Alike, Prefix, Tokens, Traffic, read_alike
from deuz_proxy.sinks.backlog import Backlog, Settled
from deuz_proxy.sinks.families import Bounds, Factory
from deuz_proxy.sinks.groups import Groups
from deuz_proxy.sinks.series import Counter, Gauge


class PrometheusSink:
    """Counts events. One per process; called from the event loop's thread only."""

    def __init__(self, bounds: Bounds) -> None:
        self.registry = CollectorRegistry(auto_describe=False)
        self.bounds = bounds
        self._backlog = Backlog(read_alike, self._count_alike)
        self.registry.register(Settled(self._backlog))
        make = Factory(self.registry, bounds)
        self._traffic = Traffic(make)
        self._tokens = Tokens(make)
        self._prefix = Prefix(make)
        self._context = _Context(make)
        self._groups = Groups(make)
        self._ledger = _Ledger(make)
        self._workers = _Workers(make)
        self.prepare()

    def __call__(self, event: Event) -> None:
        """Count one event; a finished request when somebody looks."""
        if type(event) is RequestFinished:
            # Not left to who looks: the event loop alone may move it.
            self._traffic.in_flight[(event.route,)].value -= 1
            self._backlog.add(event)
        elif type(event) is RequestStarted:
            self._traffic.in_flight[(event.route,)].value += 1
        elif type(event) is LedgerUsed:
            self._ledger.count(event)
        elif isinstance(event, FaultCaught):
            self._traffic.count_fault(event)
        elif isinstance(event, EventsLost):
            self._traffic.count_lost(event)
        elif isinstance(event, WorkerStarted | WorkerEnded):
            self._workers.count(event)

    def prepare(self) -> None:
        """Create the series that the bounds foretell; again after a reload."""
        routes = sorted(self.bounds.routes) or [vocabulary.OTHER]
        for route in routes:
            self._traffic.prepare(route)
            self._tokens.prepare(route)
            self._prefix.prepare(route)
        self._context.prepare(sorted(self.bounds.sources))
        self._ledger.prepare()
        self._workers.prepare()

    def render(self, accept: str | None) -> tuple[bytes, str]:
        """Return the exposition and its content type, as `Accept` asks for it."""
        encode, content_type = choose_encoder(accept or "")
        return encode(self.registry), content_type

    def _count_alike(
        self, fields: tuple[Any, ...], events: list[RequestFinished]
    ) -> None:
        alike = Alike(*fields)
        # Clamped once: a client may name any model.
        model = (
            self.bounds.known_model(alike.model) if alike.model else vocabulary.OTHER
        )
        self._traffic.count(alike, events)
        self._tokens.count(alike, model, events)
        self._prefix.count(alike.route, model, events)
        for event in events:
            if event.group is not None or event.prediction is not None:
                self._groups.count(event)
            if event.compile is not None:
                self._context.count_compile(event.route, event.compile)
            if event.overflows or event.compactions:
                self._context.count_pressure(event)


class _Context:
    """Added context, its sources, and what was done about overflow."""

    def __init__(self, make: Factory) -> None:
        self._compiles = make.counter(catalog.CONTEXT_COMPILES)
        self._records = make.counter(catalog.CONTEXT_RECORDS)
        self._tokens = make.histogram(catalog.CONTEXT_TOKENS)
        self._queries = make.counter(catalog.SOURCE_QUERIES)
        self._waits = make.histogram(catalog.SOURCE_DURATION)
        self._overflow = make.counter(catalog.OVERFLOW)
        self._compaction = make.counter(catalog.COMPACTION)
        self._removed = make.counter(catalog.COMPACTION_REMOVED)

    def prepare(self, sources: Iterable[str]) -> None:
        for labels in product(sources, vocabulary.SOURCE_STATUSES):
            _ = self._queries[labels]

    def count_compile(self, route: str, compiled: Compile) -> None:
        fallback = compiled.fallback or vocabulary.NONE
        self._compiles[route, compiled.refresh_reason, fallback].inc()
        self._tokens[(route,)].observe(max(0, compiled.tokens))
        for record in compiled.records:
            decision = "selected" if record.is_selected else "excluded"
            self._records[record.source, decision, record.reason].inc()
        for outcome in compiled.sources:
            labels = (outcome.source, outcome.status)
            self._queries[labels].inc()
            if outcome.status != "skipped":
                self._waits[labels].observe(outcome.duration_seconds)

    def count_pressure(self, event: RequestFinished) -> None:
        for overflow in event.overflows:
            self._overflow[event.route, overflow.stage, overflow.outcome].inc()
        for layer in event.compactions:
            labels = (event.route, layer.layer, layer.trigger)
            self._compaction[labels].inc()
            self._removed[labels].inc(layer.tokens_before - layer.tokens_after)


class _Ledger:
    """What the ledger was asked for, and how full it is."""

    def __init__(self, make: Factory) -> None:
        self._operations = make.counter(catalog.LEDGER_OPERATIONS)
        self._entries = make.gauge(catalog.LEDGER_ENTRIES)
        self._bytes = make.gauge(catalog.LEDGER_BYTES)
        self._available = make.gauge(catalog.LEDGER_AVAILABLE)
        # Most requests read the ledger: what that moves, by the store that was read.
        self._read: dict[str, tuple[Counter, Gauge, Gauge, Gauge]] = {}

    def prepare(self) -> None:
        for op in vocabulary.LEDGER_OPS:
            _ = self._operations[op, "ok"]

    def count(self, event: LedgerUsed) -> None:
        store = event.store
        if event.op == "read" and event.status == "ok" and store in self._read:
            operations, available, entries, held_bytes = self._read[store]
            operations.value += 1
            available.value = int(event.is_available)
            entries.value, held_bytes.value = event.entries, event.bytes
            return
        # Forty keys read are one round trip, forty entries evicted are forty losses.
        count = event.count if event.op == "evict" else 1
        self._operations[event.op, event.status].inc(count)
        if event.op in vocabulary.LEDGER_ASKED:
            self._available[store, event.op].set(int(event.is_available))
        if event.op in ("load", "save"):
            return  # Of the tracker, which holds no entries.
        self._entries[(store,)].set(event.entries)
        self._bytes[(store,)].set(event.bytes)
        if event.op == "read" and store in vocabulary.STORES:
            self._read[store] = (
                self._operations["read", "ok"],
                self._available[store, "read"],
                self._entries[(store,)],
                self._bytes[(store,)],
            )


class _Workers:
    """How many processes serve, and how many ended unasked."""

    def __init__(self, make: Factory) -> None:
        self._serving = make.gauge(catalog.WORKERS)
        self._failures = make.counter(catalog.WORKER_FAILURES)

    def prepare(self) -> None:
        _ = self._serving[()], self._failures[()]

    def count(self, event: WorkerStarted | WorkerEnded) -> None:
        if isinstance(event, WorkerStarted):
            self._serving[()].inc()
            return
        if event.was_serving:
            self._serving[()].dec()
        self._failures[()].inc(event.is_failure)
