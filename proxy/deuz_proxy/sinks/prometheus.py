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

from prometheus_client import CollectorRegistry
from prometheus_client.exposition import choose_encoder

from deuz_compiler import Usage, Verdict
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
from deuz_proxy.sinks.families import Bounds, Factory
from deuz_proxy.sinks.groups import Groups
from deuz_proxy.sinks.series import Exemplar, Histogram


class PrometheusSink:
    """Counts events. One per process; called from the event loop's thread only."""

    def __init__(self, bounds: Bounds) -> None:
        self.registry = CollectorRegistry(auto_describe=False)
        self.bounds = bounds
        make = Factory(self.registry, bounds)
        self._traffic = _Traffic(make)
        self._tokens = _Tokens(make)
        self._prefix = _Prefix(make)
        self._context = _Context(make)
        self._groups = Groups(make)
        self._ledger = _Ledger(make)
        self._workers = _Workers(make)
        self.prepare()

    def __call__(self, event: Event) -> None:
        """Count one event."""
        if isinstance(event, RequestFinished):
            self._count_finished(event)
        elif isinstance(event, RequestStarted):
            self._traffic.in_flight[(event.route,)].inc()
        elif isinstance(event, LedgerUsed):
            self._ledger.count(event)
        elif isinstance(event, FaultCaught):
            self._traffic.count_fault(event)
        elif isinstance(event, EventsLost):
            self._traffic.count_lost(event)
        else:
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

    def _count_finished(self, event: RequestFinished) -> None:
        # Clamped once: a client may name any model.
        model = (
            self.bounds.known_model(event.model) if event.model else vocabulary.OTHER
        )
        exemplar = _exemplar(event)
        self._traffic.count(event, exemplar)
        self._tokens.count(event, model)
        self._groups.count(event)
        if event.verdict is not None:
            self._prefix.count(event.route, model, event.verdict, exemplar)
        if event.sidecar_mutations > 0:
            self._prefix.mutations[(event.route,)].inc(event.sidecar_mutations)
        if event.compile is not None:
            self._context.count_compile(event.route, event.compile)
        if event.overflows or event.compactions:
            self._context.count_pressure(event)


class _Lane:
    """The series of one route and wire, found once: most requests move all of them."""

    __slots__ = (
        "_overhead",
        "_route",
        "_stages",
        "duration",
        "first_byte",
        "in_flight",
    )

    def __init__(self, traffic: "_Traffic", route: str, wire: str) -> None:
        self.in_flight = traffic.in_flight[(route,)]
        self.duration = traffic.duration[route, wire]
        self.first_byte = traffic.first_byte[route, wire]
        self._overhead = traffic.overhead
        self._route = route
        self._stages: dict[str, Histogram] = {}

    def overhead(self, stage: str) -> Histogram:
        """Return the series of a stage, there from its first use on."""
        found = self._stages.get(stage)
        if found is None:
            found = self._overhead[self._route, stage]
            if stage in vocabulary.STAGES:
                self._stages[stage] = found
        return found


class _Traffic:
    """Requests, their times, and why a body was left alone."""

    def __init__(self, make: Factory) -> None:
        self.in_flight = make.gauge(catalog.IN_FLIGHT)
        self.duration = make.histogram(catalog.DURATION)
        self.first_byte = make.histogram(catalog.FIRST_BYTE)
        self.overhead = make.histogram(catalog.OVERHEAD)
        self._requests = make.counter(catalog.REQUESTS)
        self._passthrough = make.counter(catalog.PASSTHROUGH)
        self._faults = make.counter(catalog.FAULTS)
        self._lost = make.counter(catalog.EVENTS_LOST)
        # Routes come from the config, wires from the code: these are few.
        self._lanes: dict[tuple[str, str], _Lane] = {}

    def prepare(self, route: str) -> None:
        _ = self.in_flight[(route,)], self._lost[()]
        for reason in vocabulary.PASSTHROUGHS:
            _ = self._passthrough[route, reason]

    def count(self, event: RequestFinished, exemplar: Exemplar | None) -> None:
        route, wire = event.route, event.wire
        lane = self._lanes.get((route, wire)) or self._open(route, wire)
        lane.in_flight.value -= 1
        self._requests[route, wire, str(event.status), event.outcome].inc()
        lane.duration.observe(event.duration_seconds, exemplar)
        if event.first_byte_seconds is not None:
            lane.first_byte.observe(event.first_byte_seconds, exemplar)
        for stage, seconds in event.stages:
            if stage != "total":
                lane.overhead(stage).observe(seconds)
        if event.stages:
            lane.overhead("total").observe(event.overhead_seconds, exemplar)
        if event.passthrough is not None:
            self._passthrough[route, event.passthrough].inc()

    def count_fault(self, event: FaultCaught) -> None:
        self._faults[event.route, event.where, event.code].inc()

    def count_lost(self, event: EventsLost) -> None:
        self._lost[()].inc(event.count)
        for route, change in event.in_flight:
            gauge = self.in_flight[(route,)]
            gauge.set(gauge.value + change)

    def _open(self, route: str, wire: str) -> _Lane:
        lane = self._lanes[route, wire] = _Lane(self, route, wire)
        return lane


class _Tokens:
    """What answers used, and how good the estimate was."""

    def __init__(self, make: Factory) -> None:
        self._tokens = make.counter(catalog.TOKENS)
        self._reports = make.counter(catalog.USAGE_REPORTS)
        self._ratio = make.histogram(catalog.ESTIMATE_RATIO)

    def prepare(self, route: str) -> None:
        for status in vocabulary.USAGE_STATUSES:
            _ = self._reports[route, status]

    def count(self, event: RequestFinished, model: str) -> None:
        self._reports[event.route, event.usage_status].inc()
        if event.usage is not None:
            self._count_usage(event.route, model, event.usage)
            self._observe_ratio(event, model, event.usage)
        for call in event.upstream_calls:
            if call.usage is not None:
                self._count_usage(event.route, call.model or model, call.usage)

    def _count_usage(self, route: str, model: str, usage: Usage) -> None:
        counts = (
            ("input_uncached", usage.input_uncached),
            ("cache_read", usage.cache_read),
            ("cache_write", usage.cache_write),
            ("output", usage.output),
        )
        for kind, count in counts:
            if count is not None:
                self._tokens[route, model, kind].inc(count)

    def _observe_ratio(self, event: RequestFinished, model: str, usage: Usage) -> None:
        actual, estimated = usage.input_total, event.estimated_input_tokens
        if actual and estimated and event.usage_status == "reported":
            self._ratio[(model,)].observe(actual / estimated)


class _Prefix:
    """What became of the provider's cached prefix."""

    def __init__(self, make: Factory) -> None:
        self.mutations = make.counter(catalog.PREFIX_MUTATIONS)
        self._requests = make.counter(catalog.PREFIX_REQUESTS)
        self._breaks = make.counter(catalog.PREFIX_BREAKS)
        self._lost = make.counter(catalog.PREFIX_LOST)
        self._expected = make.counter(catalog.CACHE_EXPECTED)
        self._missed = make.counter(catalog.CACHE_MISSED)

    def prepare(self, route: str) -> None:
        _ = self.mutations[(route,)]

    def count(
        self, route: str, model: str, verdict: Verdict, exemplar: Exemplar | None
    ) -> None:
        self._requests[route, model, verdict.verdict].inc()
        if verdict.cause is not None:
            # An intact prefix that the provider did not read has a cause as well.
            labels = (
                route,
                verdict.segment or vocabulary.OTHER,
                verdict.cause,
                verdict.owner or "unknown",
            )
            self._breaks[labels].inc(1, exemplar)
            self._lost[labels].inc(verdict.lost_tokens)
        if verdict.expected_tokens is not None:
            self._expected[route, model].inc(verdict.expected_tokens)
        if verdict.missed_tokens is not None:
            self._missed[route, model].inc(verdict.missed_tokens)


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

    def prepare(self) -> None:
        for op in vocabulary.LEDGER_OPS:
            _ = self._operations[op, "ok"]

    def count(self, event: LedgerUsed) -> None:
        # Forty keys read are one round trip, forty entries evicted are forty losses.
        count = event.count if event.op == "evict" else 1
        self._operations[event.op, event.status].inc(count)
        if event.op in vocabulary.LEDGER_ASKED:
            self._available[event.store, event.op].set(int(event.is_available))
        if event.op in ("load", "save"):
            return  # Of the tracker, which holds no entries.
        self._entries[(event.store,)].set(event.entries)
        self._bytes[(event.store,)].set(event.bytes)


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


def _exemplar(event: RequestFinished) -> Exemplar | None:
    trace = event.trace
    if trace is None or not trace.is_sampled:
        return None
    return Exemplar(trace.trace_id, event.at + event.duration_seconds)
