"""The things that happen, one frozen class each: the only language of telemetry.

Rules:
- No content ever: no prompt, no retrieved text, no header value, no credential.
- Times ending in `_seconds` are durations; `at` is Unix time in seconds.
- Every label-like field comes from a closed set that `catalog` lists, but `model`,
  `route` and `source`, which sinks clamp to known names.
"""

from collections.abc import Callable
from dataclasses import dataclass, field

import msgspec

from deuz_compiler import SegmentShare, Usage, Verdict

_MOST_FAULTS = 32


class Trace(msgspec.Struct, frozen=True, gc=False):
    """Ids of the request's spans; `parent_span_id` is 0 without an incoming parent."""

    trace_id: int
    parent_span_id: int
    is_sampled: bool
    server_span_id: int
    client_span_id: int


class UpstreamCall(msgspec.Struct, frozen=True, gc=False):
    """One call to the upstream, the first or the one after an overflow."""

    started_at: float
    duration_seconds: float
    status: int | None
    error: str | None
    purpose: str = "chat"
    """`chat`, `summarize`, or `retry`."""
    model: str | None = None
    """The model of a summary, where it is not the request's own."""
    usage: Usage | None = None
    """What a summary used; the request's own answer has its usage in the event."""


class Placement(msgspec.Struct, frozen=True, gc=False):
    """One added block on the surface: where it sits and which records are in it.

    `state` is `placed`, `shadow` (it would have been, the route only tries), `dropped`
    (new in a request that was not accepted, so it is not kept), `tail`: working
    memory, which ends this request alone, or `kept`: a copy of it that stays.
    """

    turn: int
    records: tuple[str, ...]
    tokens: int
    is_new: bool
    form: str = "turn"
    state: str = "placed"


class RecordDecision(msgspec.Struct, frozen=True, gc=False):
    """One manifest line, without content."""

    source: str
    kind: str
    record_id: str
    revision: str
    digest: str
    tokens: int
    is_selected: bool
    reason: str


class SourceOutcome(msgspec.Struct, frozen=True, gc=False):
    """How one source answered: `ok`, `empty`, `late`, `failed` or `skipped`.

    `error` is a word for what failed, never a message.
    """

    source: str
    kind: str
    status: str
    duration_seconds: float
    selected: int
    excluded: int
    tokens: int
    error: str | None = None


class Compile(msgspec.Struct, frozen=True, gc=False):
    """One compile of added context."""

    started_at: float
    duration_seconds: float
    refresh_reason: str
    fallback: str | None
    selected: int
    excluded: int
    tokens: int
    budget_tokens: int
    estimator: str
    is_prefix_changed: bool
    manifest_digest: str
    sources: tuple[SourceOutcome, ...] = ()
    records: tuple[RecordDecision, ...] = ()


class Overflow(msgspec.Struct, frozen=True, gc=False):
    """An overflow that was seen, and what came of it."""

    stage: str
    outcome: str
    limit_tokens: int | None
    requested_tokens: int | None


class Compaction(msgspec.Struct, frozen=True, gc=False):
    """One layer that made the outgoing request smaller."""

    layer: str
    trigger: str
    tokens_before: int
    tokens_after: int


class Prediction(msgspec.Struct, frozen=True, gc=False):
    """What adding context would have made of a request that was only tried.

    `prefix` is `kept`, `broken_by_client` (as it is without) or `broken_by_sidecar`.
    `input_tokens` are estimated; `cache_read_tokens` are predicted from what the
    provider read of the client's own bytes, None if it did not say.
    """

    prefix: str
    verdict: str
    cause: str | None
    added_tokens: int
    input_tokens: int
    cache_read_tokens: int | None


class RequestStarted(msgspec.Struct, frozen=True, gc=False):
    """A request was admitted."""

    request_id: str
    route: str
    wire: str
    at: float


class RequestFinished(msgspec.Struct, frozen=True, gc=False):
    """All that is known of a request when its last byte is through.

    `at` is when it was admitted; it took `duration_seconds` from then on.
    `stage_seconds` are what the sidecar itself added in each of the `stages`, and last
    in `total` where that is known. `outcome` is
    `ok`, `upstream_error`, `client_closed`, `truncated` or `refused`.
    """

    request_id: str
    route: str
    upstream: str
    wire: str
    mode: str
    method: str
    path: str
    model: str | None
    response_model: str | None
    status: int
    outcome: str
    error: str | None
    at: float
    duration_seconds: float
    first_byte_seconds: float | None
    is_streamed: bool
    request_bytes: int
    response_bytes: int
    stages: tuple[str, ...]
    stage_seconds: tuple[float, ...]
    passthrough: str | None
    conversation: str | None
    usage: Usage | None
    usage_status: str
    """`reported`, `absent` or `anomalous`."""
    finish_reason: str | None
    response_id: str | None
    estimated_input_tokens: int | None
    verdict: Verdict | None
    segments: tuple[SegmentShare, ...] = ()
    placements: tuple[Placement, ...] = ()
    compile: Compile | None = None
    overflows: tuple[Overflow, ...] = ()
    compactions: tuple[Compaction, ...] = ()
    upstream_calls: tuple[UpstreamCall, ...] = ()
    max_output_tokens: int | None = None
    server_address: str = ""
    server_port: int | None = None
    sidecar_mutations: int = 0
    trace: Trace | None = None
    group: str | None = None
    """`treated` or `held_out`, where there is a holdout and this may be compared."""
    prediction: Prediction | None = None

    @property
    def answer(self) -> UpstreamCall | None:
        """The call whose answer the client got; None: there was none.

        A summary is never that, and a second try only where it was accepted: else the
        client has the first answer.
        """
        calls = self.upstream_calls
        if calls and calls[-1].purpose == "chat":
            return calls[-1]
        is_recovered = any(seen.outcome == "recovered" for seen in self.overflows)
        purpose = "retry" if is_recovered else "chat"
        for call in reversed(calls):
            if call.purpose == purpose:
                return call
        return None

    @property
    def overhead_seconds(self) -> float:
        """What the sidecar added: the stage `total` if measured, else the sum."""
        is_known = self.stages[-1:] == ("total",)
        return self.stage_seconds[-1] if is_known else sum(self.stage_seconds)


class LedgerUsed(msgspec.Struct, frozen=True, gc=False):
    """One ledger operation (`read`, `commit`, `evict`, …), and the size after it.

    Not available is a store that is left alone for a while, since it did not answer.
    """

    op: str
    status: str
    store: str
    count: int
    entries: int
    bytes: int
    is_available: bool = True


class FaultCaught(msgspec.Struct, frozen=True, gc=False):
    """A fault of ours, or a request that was not admitted. `code` is a stable word.

    What an admitted request was refused for is in its own event.
    """

    route: str
    where: str
    code: str


@dataclass(frozen=True, slots=True)
class WorkerStarted:
    """A worker accepts requests; with a single one, it is the sidecar's own process."""

    worker: int


@dataclass(frozen=True, slots=True)
class WorkerEnded:
    """A worker's process is gone; `is_failure` unless it was told to end.

    `was_serving` is false for one that was gone before it accepted requests.
    """

    worker: int
    is_failure: bool
    was_serving: bool = True


@dataclass(frozen=True, slots=True)
class EventsLost:
    """Events that a worker could not tell; what they held is missing in all sums.

    `in_flight` is what they would have added to the requests in flight, by route:
    less than 0 where the end of requests was lost.
    """

    count: int
    in_flight: tuple[tuple[str, int], ...] = ()


Event = (
    RequestStarted
    | RequestFinished
    | LedgerUsed
    | FaultCaught
    | WorkerStarted
    | WorkerEnded
    | EventsLost
)

Listener = Callable[[Event], None]


@dataclass(frozen=True, slots=True)
class Fanout:
    """Tell every listener; one that fails is counted and hurts nobody.

    `of_requests` are told of finished requests alone, behind the others.
    """

    listeners: tuple[Listener, ...]
    of_requests: tuple[Listener, ...] = ()
    faults: list[str] = field(default_factory=list)

    def __call__(self, event: Event) -> None:
        """Hand the event to each listener in turn."""
        listeners = self.listeners
        if type(event) is RequestFinished:
            listeners += self.of_requests
        for listener in listeners:
            try:
                listener(event)
            except Exception as fault:  # noqa: BLE001  # An observer never hurts the observed.
                # Bounded: only the kind is kept, for the operator's /healthz.
                if len(self.faults) < _MOST_FAULTS:
                    self.faults.append(type(fault).__name__)
