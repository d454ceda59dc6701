"""What finished requests of a kind move in the series: traffic, tokens, prefix.

Rules:
- Those alike are counted together: one look for each series, then sums over all.
- What was not reported is not counted, and a negative count is left out.
"""

from collections import Counter, defaultdict
from collections.abc import Sequence
from typing import Any, NamedTuple

from msgspec.structs import astuple

from deuz_compiler import Usage, Verdict
from deuz_proxy.observe import catalog, vocabulary
from deuz_proxy.observe.events import EventsLost, FaultCaught, RequestFinished
from deuz_proxy.sinks.families import Factory
from deuz_proxy.sinks.series import Exemplar, ExemplarAt


class Alike(NamedTuple):
    """What requests have in common that are counted together."""

    route: str
    wire: str
    status: int
    outcome: str
    model: str | None
    usage_status: str
    passthrough: str | None
    stages: tuple[str, ...]


def read_alike(event: RequestFinished) -> tuple[Any, ...]:
    """Return what `Alike` is made of; spelled out, since `attrgetter` takes longer."""
    return (
        event.route,
        event.wire,
        event.status,
        event.outcome,
        event.model,
        event.usage_status,
        event.passthrough,
        event.stages,
    )


_KINDS = "input_uncached", "cache_read", "cache_write", "output"
"""The first fields of a usage: the types of tokens."""


class Traffic:
    """Requests, their times, and why a body was left alone."""

    def __init__(self, make: Factory) -> None:
        self.in_flight = make.gauge(catalog.IN_FLIGHT)
        self._duration = make.histogram(catalog.DURATION)
        self._first_byte = make.histogram(catalog.FIRST_BYTE)
        self._overhead = make.histogram(catalog.OVERHEAD)
        self._requests = make.counter(catalog.REQUESTS)
        self._passthrough = make.counter(catalog.PASSTHROUGH)
        self._faults = make.counter(catalog.FAULTS)
        self._lost = make.counter(catalog.EVENTS_LOST)

    def prepare(self, route: str) -> None:
        """Create the series that a route foretells."""
        _ = self.in_flight[(route,)], self._lost[()]
        for reason in vocabulary.PASSTHROUGHS:
            _ = self._passthrough[route, reason]

    def count(self, alike: Alike, events: list[RequestFinished]) -> None:
        """Count requests alike, but for the gauge."""
        route, wire = alike.route, alike.wire
        labels = (route, wire, str(alike.status), alike.outcome)
        self._requests[labels].inc(len(events))
        if alike.passthrough is not None:
            self._passthrough[route, alike.passthrough].inc(len(events))
        self._duration[route, wire].observe_all(
            [event.duration_seconds for event in events], _exemplars(events)
        )
        answered = [e for e in events if e.first_byte_seconds is not None]
        if answered:
            self._first_byte[route, wire].observe_all(
                [e.first_byte_seconds or 0.0 for e in answered], _exemplars(answered)
            )
        if alike.stages:
            self._count_stages(alike, events)

    def _count_stages(self, alike: Alike, events: list[RequestFinished]) -> None:
        # By columns: all have the same stages.
        columns = zip(*[event.stage_seconds for event in events], strict=True)
        by_stage = dict(zip(alike.stages, columns, strict=True))
        totals = by_stage.pop("total", ()) or [e.overhead_seconds for e in events]
        for stage, amounts in by_stage.items():
            self._overhead[alike.route, stage].observe_all(amounts)
        self._overhead[alike.route, "total"].observe_all(totals, _exemplars(events))

    def count_fault(self, event: FaultCaught) -> None:
        """Count a fault."""
        self._faults[event.route, event.where, event.code].inc()

    def count_lost(self, event: EventsLost) -> None:
        """Count events that are missing here, and put the gauge right."""
        self._lost[()].inc(event.count)
        for route, change in event.in_flight:
            gauge = self.in_flight[(route,)]
            gauge.set(gauge.value + change)


class Tokens:
    """What answers used, and how good the estimate was."""

    def __init__(self, make: Factory) -> None:
        self._tokens = make.counter(catalog.TOKENS)
        self._reports = make.counter(catalog.USAGE_REPORTS)
        self._ratio = make.histogram(catalog.ESTIMATE_RATIO)

    def prepare(self, route: str) -> None:
        """Create the series that a route foretells."""
        for status in vocabulary.USAGE_STATUSES:
            _ = self._reports[route, status]

    def count(self, alike: Alike, model: str, events: list[RequestFinished]) -> None:
        """Count what requests alike used; `model` is a known one, or `other`."""
        self._reports[alike.route, alike.usage_status].inc(len(events))
        usages = [event.usage for event in events if event.usage is not None]
        self._count_usages(alike.route, model, usages)
        if alike.usage_status == "reported":
            self._observe_ratios(model, events)
        for event in events:
            for call in event.upstream_calls:
                if call.usage is not None:
                    named = call.model or model
                    self._count_usages(alike.route, named, [call.usage])

    def _count_usages(self, route: str, model: str, usages: Sequence[Usage]) -> None:
        # By columns: a step for each of four counts, not for each of every usage.
        columns = zip(*map(astuple, usages), strict=True)
        for kind, counts in zip(_KINDS, columns, strict=False):
            missing = counts.count(None)
            if missing < len(counts):
                known = [n for n in counts if n is not None] if missing else counts
                self._tokens[route, model, kind].inc(_total(known))

    def _observe_ratios(self, model: str, events: list[RequestFinished]) -> None:
        # All input of each, as its usage would tell it.
        ratios = [
            actual / estimated
            for event in events
            if (usage := event.usage) is not None
            and (estimated := event.estimated_input_tokens)
            and (
                actual := (usage.input_uncached or 0)
                + (usage.cache_read or 0)
                + (usage.cache_write or 0)
            )
        ]
        if ratios:
            self._ratio[(model,)].observe_all(ratios)


class Prefix:
    """What became of the provider's cached prefix."""

    def __init__(self, make: Factory) -> None:
        self._mutations = make.counter(catalog.PREFIX_MUTATIONS)
        self._requests = make.counter(catalog.PREFIX_REQUESTS)
        self._breaks = make.counter(catalog.PREFIX_BREAKS)
        self._lost = make.counter(catalog.PREFIX_LOST)
        self._expected = make.counter(catalog.CACHE_EXPECTED)
        self._missed = make.counter(catalog.CACHE_MISSED)

    def prepare(self, route: str) -> None:
        """Create the series that a route foretells."""
        _ = self._mutations[(route,)]

    def count(self, route: str, model: str, events: list[RequestFinished]) -> None:
        """Count the verdicts on requests alike."""
        if mutations := [n for e in events if (n := e.sidecar_mutations)]:
            self._mutations[(route,)].inc(_total(mutations))
        verdicts = [event.verdict for event in events if event.verdict is not None]
        for word, count in Counter([v.verdict for v in verdicts]).items():
            self._requests[route, model, word].inc(count)
        if any(verdict.cause is not None for verdict in verdicts):
            self._count_causes(route, events)
        expected = [x for v in verdicts if (x := v.expected_tokens) is not None]
        if expected:
            self._expected[route, model].inc(_total(expected))
        missed = [x for v in verdicts if (x := v.missed_tokens) is not None]
        if missed:
            self._missed[route, model].inc(_total(missed))

    def _count_causes(self, route: str, events: list[RequestFinished]) -> None:
        by_cause: defaultdict[tuple[str, ...], list[tuple[Verdict, RequestFinished]]]
        by_cause = defaultdict(list)
        for event in events:
            verdict = event.verdict
            # An intact prefix that the provider did not read has a cause as well.
            if verdict is not None and verdict.cause is not None:
                where = verdict.segment or vocabulary.OTHER
                cause = verdict.cause or vocabulary.OTHER
                key = route, where, cause, verdict.owner or "unknown"
                by_cause[key].append((verdict, event))
        for labels, broken in by_cause.items():
            breaks = self._breaks[labels]
            breaks.inc(len(broken))
            breaks.illustrate(1, _newest([event for _, event in broken]))
            self._lost[labels].inc(_total([v.lost_tokens for v, _ in broken]))


def _total(counts: Sequence[int]) -> int:
    # A negative count is an anomaly, and no other request's loss.
    if min(counts, default=0) < 0:
        counts = [count for count in counts if count > 0]
    return sum(counts)


def _exemplars(events: list[RequestFinished]) -> ExemplarAt | None:
    """Return what tells the trace behind the event at an index; None: none has one."""
    for event in events:
        if event.trace is not None and event.trace.is_sampled:
            return lambda index: _exemplar(events[index])
    return None


def _newest(events: list[RequestFinished]) -> Exemplar | None:
    """Return the newest trace behind these events."""
    for event in reversed(events):
        exemplar = _exemplar(event)
        if exemplar is not None:
            return exemplar
    return None


def _exemplar(event: RequestFinished) -> Exemplar | None:
    trace = event.trace
    if trace is None or not trace.is_sampled:
        return None
    return Exemplar(trace.trace_id, event.at + event.duration_seconds)
