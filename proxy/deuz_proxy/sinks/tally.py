"""Requests in numbers: of one conversation, and of all since the start.

Rules:
- Sums are changed by the feed alone and described as plain JSON values.
- What a provider did not report adds nothing to a sum.
- What breaks is a loss, and what has a cause: an intact prefix that expired, or that
  the provider did not find, is one too.
- What changes with each request has slots: a field of a struct takes longer to set.
- Every table here is bounded or has keys from a closed set.
"""

from collections import Counter, OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, field

import msgspec

from deuz_compiler import Usage, Verdict
from deuz_proxy.observe import vocabulary
from deuz_proxy.observe.events import (
    Event,
    EventsLost,
    FaultCaught,
    LedgerUsed,
    Placement,
    RequestFinished,
    RequestStarted,
    SourceOutcome,
    WorkerEnded,
    WorkerStarted,
)
from deuz_proxy.observe.redact import shown_name
from deuz_proxy.sinks.describe import Described

SOURCES_KEPT = 128
"""A config has no more; each is the name of a configured source."""

_ERRORS = frozenset({"upstream_error", "truncated", "refused"})

FAULTS_KEPT = 100
"""Kinds of faults that are counted apart; routes and codes are few."""


@dataclass(slots=True)
class Tokens:
    """Running sums of what providers reported."""

    input: int = 0
    cached: int = 0
    written: int = 0
    output: int = 0

    def add(self, usage: Usage | None) -> None:
        """Add one answer's counts."""
        if usage is None:
            return
        cached, written = usage.cache_read or 0, usage.cache_write or 0
        self.input += (usage.input_uncached or 0) + cached + written
        self.cached += cached
        self.written += written
        self.output += usage.output or 0

    def add_all(self, usages: Sequence[Usage]) -> None:
        """Add the counts of many answers: one change of each sum, not one for each."""
        cached = sum([usage.cache_read or 0 for usage in usages])
        written = sum([usage.cache_write or 0 for usage in usages])
        uncached = sum([usage.input_uncached or 0 for usage in usages])
        self.input += uncached + cached + written
        self.cached += cached
        self.written += written
        self.output += sum([usage.output or 0 for usage in usages])


@dataclass(slots=True)
class Group:
    """One side of the holdout: what its requests used, and how many failed."""

    requests: int = 0
    errors: int = 0
    tokens: Tokens = field(default_factory=Tokens)

    def add(self, event: RequestFinished) -> None:
        """Count one request; what a summary of ours used is a cost of the treatment."""
        self.requests += 1
        self.errors += event.outcome in _ERRORS
        self.tokens.add(event.usage)
        for call in event.upstream_calls:
            self.tokens.add(call.usage)


@dataclass(slots=True)
class Loss:
    """What was lost of cached prefixes for one cause."""

    count: int = 0
    tokens: int = 0

    def add(self, verdict: Verdict) -> None:
        """Count one loss."""
        self.count += 1
        self.tokens += verdict.lost_tokens


@dataclass(slots=True)
class Tally:
    """One conversation in numbers, changed by the feed alone.

    Side calls count, but they set neither model nor verdict and do not clear the
    surface: they are not part of the conversation's history. What was only tried, or
    not accepted, is not on the surface.
    """

    id: str
    requests: int = 0
    side_calls: int = 0
    first_at: float = 0.0
    last_at: float = 0.0
    last: RequestFinished | None = None
    verdict: Verdict | None = None
    lost_tokens: int = 0
    tokens: Tokens = field(default_factory=Tokens)
    losses: dict[tuple[str, str], Loss] = field(default_factory=dict)

    def add(self, event: RequestFinished) -> None:
        """Count one request of this conversation."""
        if not self.requests:
            self.first_at = event.at
        self.requests += 1
        self.last_at = event.at
        self.tokens.add(event.usage)
        verdict = event.verdict
        if verdict is not None and verdict.verdict == "side_call":
            self.side_calls += 1
            return
        self.last = event
        if verdict is not None:
            self.verdict = verdict
            if verdict.cause is not None or verdict.verdict == "broken":
                self._count_loss(verdict)

    @property
    def placements(self) -> tuple[Placement, ...]:
        """What stands on the surface; chosen when somebody asks."""
        placements = () if self.last is None else self.last.placements
        return tuple([placed for placed in placements if placed.state == "placed"])

    def _count_loss(self, verdict: Verdict) -> None:
        key = (verdict.cause or "unknown", verdict.owner or "unknown")
        loss = self.losses.get(key)
        if loss is None:
            loss = self.losses[key] = Loss()
        loss.add(verdict)
        self.lost_tokens += verdict.lost_tokens

    def describe(self) -> Described:
        """Describe the conversation for JSON."""
        last = self.last
        return {
            "id": self.id,
            "first_at": self.first_at,
            "last_at": self.last_at,
            "requests": self.requests,
            "side_calls": self.side_calls,
            "route": last and last.route,
            "wire": last and last.wire,
            "model": last and last.model and shown_name(last.model),
            "verdict": msgspec.to_builtins(self.verdict),
            "tokens": msgspec.to_builtins(self.tokens),
            "lost_tokens": self.lost_tokens,
            "breaks": [
                {
                    "cause": cause,
                    "owner": owner,
                    "count": loss.count,
                    "lost_tokens": loss.tokens,
                }
                for (cause, owner), loss in sorted(
                    self.losses.items(), key=lambda item: -item[1].count
                )
            ],
            "placements": msgspec.to_builtins(self.placements),
        }


def tally_of(first: RequestFinished) -> Tally:
    """Return the numbers of a conversation that has this request only."""
    tally = Tally(first.conversation or "")
    tally.add(first)
    return tally


@dataclass(slots=True)
class Asked:
    """One source: how it answered last, and how often it failed since it answered."""

    status: str = ""
    error: str | None = None
    failures: int = 0

    def add(self, outcome: SourceOutcome) -> None:
        """Take note of one answer; a source that rests has neither failed nor not."""
        self.status, self.error = outcome.status, outcome.error
        if outcome.status in vocabulary.SOURCE_FAILURES:
            self.failures += 1
        elif outcome.status != "skipped":
            self.failures = 0


@dataclass(slots=True)
class Total:
    """All requests in numbers, changed by the feed alone."""

    requests: int = 0
    breaks: int = 0
    lost_tokens: int = 0
    sidecar_mutations: int = 0
    tokens: Tokens = field(default_factory=Tokens)
    groups: dict[str, Group] = field(default_factory=dict)
    in_flight: int = 0
    workers: int = 0
    worker_failures: int = 0
    events_lost: int = 0
    faults: Counter[tuple[str, str, str]] = field(default_factory=Counter)
    ledger: LedgerUsed | None = None
    left_alone: set[str] = field(default_factory=set)
    sources: OrderedDict[str, Asked] = field(default_factory=OrderedDict)

    def add(self, event: Event) -> None:
        """Count one event of any kind."""
        match event:
            case RequestFinished():
                self.finish_all((event,))
            case RequestStarted():
                self.in_flight += 1
            case FaultCaught():
                self._blame(event)
            case LedgerUsed():
                self.use_ledger(event)
            case WorkerStarted():
                self.workers += 1
            case WorkerEnded():
                self.workers -= event.was_serving
                self.worker_failures += event.is_failure
            case EventsLost():
                self.events_lost += event.count
                self.in_flight += sum(change for _, change in event.in_flight)

    def finish_all(self, events: Sequence[RequestFinished]) -> None:
        """Count requests that are through."""
        self.in_flight -= len(events)
        self.requests += len(events)
        self.sidecar_mutations += sum([event.sidecar_mutations for event in events])
        self.tokens.add_all([e.usage for e in events if e.usage is not None])
        for verdict in [e.verdict for e in events if e.verdict is not None]:
            if verdict.cause is not None or verdict.verdict == "broken":
                self.breaks += 1
                self.lost_tokens += verdict.lost_tokens
        for event in events:
            if event.group is not None:
                self.groups.setdefault(event.group, Group()).add(event)
            if event.compile is not None:
                for outcome in event.compile.sources:
                    self._ask(outcome)

    def _ask(self, outcome: SourceOutcome) -> None:
        # A reload may bring other sources; those not asked any more go first.
        if outcome.source not in self.sources and len(self.sources) >= SOURCES_KEPT:
            self.sources.popitem(last=False)
        self.sources.setdefault(outcome.source, Asked()).add(outcome)
        self.sources.move_to_end(outcome.source)

    def use_ledger(self, event: LedgerUsed) -> None:
        """Take note of how full the ledger is, and whether it is asked."""
        if not event.is_available:
            self.left_alone.add(event.op)
        elif self.left_alone:
            self.left_alone.discard(event.op)
        # The tracker's own events hold no sizes.
        if self.ledger is None or event.op not in ("load", "save"):
            self.ledger = event

    def _blame(self, event: FaultCaught) -> None:
        key = (event.route, event.where, event.code)
        if key in self.faults or len(self.faults) < FAULTS_KEPT:
            self.faults[key] += 1

    def describe(self, workers: Sequence[Described] = ()) -> Described:
        """Describe the sums for JSON, and beside them each of several workers."""
        return {
            "requests": self.requests,
            "in_flight": self.in_flight,
            "breaks": self.breaks,
            "lost_tokens": self.lost_tokens,
            "sidecar_mutations": self.sidecar_mutations,
            "tokens": msgspec.to_builtins(self.tokens),
            "groups": msgspec.to_builtins(self.groups),
            "faults": [
                {"route": route, "where": where, "code": code, "count": count}
                for (route, where, code), count in self.faults.most_common()
            ],
            "workers": {
                "serving": self.workers,
                "failures": self.worker_failures,
                "events_lost": self.events_lost,
                "each": list(workers),
            },
            "ledger": self.ledger
            and {
                "store": self.ledger.store,
                "entries": self.ledger.entries,
                "bytes": self.ledger.bytes,
                "is_available": not self.left_alone,
            },
            "sources": [
                {
                    "id": source,
                    "status": asked.status,
                    "error": asked.error,
                    "failures": asked.failures,
                }
                for source, asked in sorted(self.sources.items())
            ],
        }
