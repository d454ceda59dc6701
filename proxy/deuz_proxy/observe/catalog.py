"""Every metric: its name, meaning, labels and buckets, in this one place.

Rules:
- A label takes words of a closed set, or names that the configuration bounds (`route`,
  `source`, `model`), or a status code. What is outside becomes `other`.
- No label holds a user, a key, a conversation, a path or a request id.
- The OTLP name of a metric turns into its Prometheus name by the usual rules: dots to
  underscores, then the unit (`s` seconds, `By` bytes), then `_total` on counters.
- Span, attribute and event names are in `names`, the words of the sets in `vocabulary`.
"""

from dataclasses import dataclass
from typing import Literal

from deuz_proxy.observe import vocabulary

Kind = Literal["counter", "gauge", "histogram"]


@dataclass(frozen=True, slots=True)
class Label:
    """A label: with `words` a closed set, without them bounded by the configuration."""

    name: str
    words: tuple[str, ...] | None = None
    otlp: str = ""
    """The attribute's name in OTLP, where it is not the label's."""


@dataclass(frozen=True, slots=True)
class Metric:
    """One instrument, as Prometheus and OTLP show it."""

    name: str
    otlp: str
    kind: Kind
    help: str
    labels: tuple[Label, ...]
    unit: str = ""
    buckets: tuple[float, ...] = ()


def _counter(name: str, otlp: str, text: str, *labels: Label, unit: str = "") -> Metric:
    return Metric(name, otlp, "counter", text, labels, unit)


def _gauge(name: str, otlp: str, text: str, *labels: Label, unit: str = "") -> Metric:
    return Metric(name, otlp, "gauge", text, labels, unit)


# fmt: off
# Model answers take minutes: a bound below 15 minutes hides every slow one in +Inf.
DURATION_BUCKETS = (
    0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 20.0, 30.0, 60.0, 120.0, 300.0,
    600.0, 900.0, 1800.0,
)
FIRST_BYTE_BUCKETS = (
    0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 15.0, 30.0, 60.0, 120.0,
    300.0, 900.0,
)
OVERHEAD_BUCKETS = (
    0.00005, 0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1,
    0.25, 0.5, 1.0, 5.0,
)
SOURCE_BUCKETS = (
    0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.2, 0.3, 0.5, 1.0, 2.5, 5.0, 10.0,
)
CONTEXT_BUCKETS = (
    64.0, 128.0, 256.0, 512.0, 1024.0, 2048.0, 4096.0, 8192.0, 16384.0, 32768.0,
    65536.0,
)
RATIO_BUCKETS = (
    0.25, 0.5, 0.7, 0.8, 0.9, 0.95, 1.0, 1.05, 1.1, 1.2, 1.3, 1.5, 2.0, 4.0,
)
# These two are the conventions' own advice.
GEN_AI_TOKEN_BUCKETS = tuple(float(4**power) for power in range(14))
GEN_AI_SECONDS_BUCKETS = tuple(2**power / 100 for power in range(14))
# fmt: on

ROUTE = Label("route")
MODEL = Label("model")
SOURCE = Label("source")
STATUS_CODE = Label("status")
WIRE = Label("wire", vocabulary.WIRES)
SEGMENT = Label("segment", vocabulary.SEGMENTS)
CAUSE = Label("cause", vocabulary.CAUSES)
OWNER = Label("owner", vocabulary.OWNERS)
LAYER = Label("layer", vocabulary.LAYERS)
TRIGGER = Label("trigger", vocabulary.TRIGGERS)
GROUP = Label("group", vocabulary.GROUPS)
STORE = Label("store", vocabulary.STORES)
SOURCE_STATUS = Label("status", vocabulary.SOURCE_STATUSES)

REQUESTS = _counter(
    "deuz_requests_total",
    "deuz.requests",
    "Requests whose last byte is through, by what became of them.",
    ROUTE,
    WIRE,
    STATUS_CODE,
    Label("outcome", vocabulary.OUTCOMES),
)
IN_FLIGHT = _gauge(
    "deuz_requests_in_flight",
    "deuz.requests.in_flight",
    "Requests that were admitted and have not finished.",
    ROUTE,
)
DURATION = Metric(
    "deuz_request_duration_seconds",
    "deuz.request.duration",
    "histogram",
    "Time from the admitted request to the last byte of its answer.",
    (ROUTE, WIRE),
    "s",
    DURATION_BUCKETS,
)
FIRST_BYTE = Metric(
    "deuz_time_to_first_byte_seconds",
    "deuz.time_to_first_byte",
    "histogram",
    "Time from the admitted request to the first byte of its answer.",
    (ROUTE, WIRE),
    "s",
    FIRST_BYTE_BUCKETS,
)
OVERHEAD = Metric(
    "deuz_overhead_seconds",
    "deuz.overhead",
    "histogram",
    "Time that the sidecar itself added, by stage and in total.",
    (ROUTE, Label("stage", vocabulary.STAGES)),
    "s",
    OVERHEAD_BUCKETS,
)
PASSTHROUGH = _counter(
    "deuz_passthrough_total",
    "deuz.passthrough",
    "Requests whose body was not touched, by the reason.",
    ROUTE,
    Label("reason", vocabulary.PASSTHROUGHS),
)
TOKENS = _counter(
    "deuz_tokens_total",
    "deuz.tokens",
    "Tokens that upstreams reported; the types are disjoint.",
    ROUTE,
    MODEL,
    Label("type", vocabulary.TOKEN_TYPES),
)
USAGE_REPORTS = _counter(
    "deuz_usage_reports_total",
    "deuz.usage_reports",
    "Answers by whether they reported their token counts.",
    ROUTE,
    Label("status", vocabulary.USAGE_STATUSES),
)
PREFIX_REQUESTS = _counter(
    "deuz_prefix_requests_total",
    "deuz.prefix.requests",
    "Requests by the verdict on the provider's cached prefix.",
    ROUTE,
    MODEL,
    Label("verdict", vocabulary.VERDICTS),
)
PREFIX_BREAKS = _counter(
    "deuz_prefix_breaks_total",
    "deuz.prefix.breaks",
    "Prefixes that broke or were not read, by segment, cause and owner.",
    ROUTE,
    SEGMENT,
    CAUSE,
    OWNER,
)
PREFIX_LOST = _counter(
    "deuz_prefix_lost_tokens_total",
    "deuz.prefix.lost_tokens",
    "Reusable tokens that were lost with a prefix (estimated).",
    ROUTE,
    SEGMENT,
    CAUSE,
    OWNER,
)
PREFIX_MUTATIONS = _counter(
    "deuz_prefix_sidecar_mutations_total",
    "deuz.prefix.sidecar_mutations",
    "Prefix changes that the sidecar caused unasked; must stay 0.",
    ROUTE,
)
CACHE_EXPECTED = _counter(
    "deuz_cache_expected_tokens_total",
    "deuz.cache.expected_tokens",
    "Tokens that the prefix let one expect to be read from the cache.",
    ROUTE,
    MODEL,
)
CACHE_MISSED = _counter(
    "deuz_cache_missed_tokens_total",
    "deuz.cache.missed_tokens",
    "Expected tokens that were not read from the cache.",
    ROUTE,
    MODEL,
)
CONTEXT_COMPILES = _counter(
    "deuz_context_compiles_total",
    "deuz.context.compiles",
    "Compiles of added context, by why and by what was fallen back to.",
    ROUTE,
    Label("refresh_reason", vocabulary.REFRESH_REASONS),
    Label("fallback", vocabulary.FALLBACKS),
)
CONTEXT_RECORDS = _counter(
    "deuz_context_records_total",
    "deuz.context.records",
    "Candidate records by the decision on them and its reason.",
    SOURCE,
    Label("decision", vocabulary.DECISIONS),
    Label("reason", vocabulary.RECORD_REASONS),
)
HOLDOUT_REQUESTS = _counter(
    "deuz_holdout_requests_total",
    "deuz.holdout.requests",
    "Requests of conversations that are treated or held out, by what became of them.",
    ROUTE,
    GROUP,
    Label("outcome", vocabulary.OUTCOMES),
)
HOLDOUT_TOKENS = _counter(
    "deuz_holdout_tokens_total",
    "deuz.holdout.tokens",
    "Reported tokens of conversations treated or held out; the types are disjoint.",
    ROUTE,
    GROUP,
    Label("type", vocabulary.TOKEN_TYPES),
)
SHADOW_REQUESTS = _counter(
    "deuz_shadow_requests_total",
    "deuz.shadow.requests",
    "Requests that were only tried, by what context would have made of the prefix.",
    ROUTE,
    Label("prefix", vocabulary.PREDICTED_PREFIXES),
)
SHADOW_TOKENS = _counter(
    "deuz_shadow_tokens_total",
    "deuz.shadow.tokens",
    "Tokens that would have been added, and read from the cache (predicted).",
    ROUTE,
    Label("type", vocabulary.PREDICTED_TOKENS),
)
CONTEXT_TOKENS = Metric(
    "deuz_context_tokens",
    "deuz.context.tokens",
    "histogram",
    "Tokens of context that one compile added (estimated).",
    (ROUTE,),
    buckets=CONTEXT_BUCKETS,
)
SOURCE_QUERIES = _counter(
    "deuz_source_queries_total",
    "deuz.source.queries",
    "Questions to sources by how they answered.",
    SOURCE,
    SOURCE_STATUS,
)
SOURCE_DURATION = Metric(
    "deuz_source_duration_seconds",
    "deuz.source.duration",
    "histogram",
    "Time that a source took to answer, or was waited for.",
    (SOURCE, SOURCE_STATUS),
    "s",
    SOURCE_BUCKETS,
)
OVERFLOW = _counter(
    "deuz_overflow_total",
    "deuz.overflow",
    "Context overflows by where they were seen and what came of them.",
    ROUTE,
    Label("stage", vocabulary.OVERFLOW_STAGES),
    Label("outcome", vocabulary.OVERFLOW_OUTCOMES),
)
COMPACTION = _counter(
    "deuz_compaction_total",
    "deuz.compaction",
    "Layers of compaction that made a request smaller.",
    ROUTE,
    LAYER,
    TRIGGER,
)
COMPACTION_REMOVED = _counter(
    "deuz_compaction_removed_tokens_total",
    "deuz.compaction.removed_tokens",
    "Tokens that compaction took out of requests (estimated).",
    ROUTE,
    LAYER,
    TRIGGER,
)
ESTIMATE_RATIO = Metric(
    "deuz_estimate_ratio",
    "deuz.estimate_ratio",
    "histogram",
    "Reported input tokens divided by the estimate of them.",
    (MODEL,),
    buckets=RATIO_BUCKETS,
)
LEDGER_OPERATIONS = _counter(
    "deuz_ledger_operations_total",
    "deuz.ledger.operations",
    "Reads and commits of the ledger, and entries that it evicted.",
    Label("op", vocabulary.LEDGER_OPS),
    Label("status", vocabulary.LEDGER_STATUSES),
)
LEDGER_ENTRIES = _gauge(
    "deuz_ledger_entries",
    "deuz.ledger.entries",
    "Entries that the ledger holds.",
    STORE,
)
LEDGER_BYTES = _gauge(
    "deuz_ledger_bytes",
    "deuz.ledger.bytes",
    "Bytes that the ledger's entries take.",
    STORE,
    unit="By",
)
LEDGER_AVAILABLE = _gauge(
    "deuz_ledger_available",
    "deuz.ledger.available",
    "1 where the store is asked, 0 where it is left alone since it failed.",
    *(STORE, Label("op", vocabulary.LEDGER_ASKED)),
)
FAULTS = _counter(
    "deuz_faults_total",
    "deuz.faults",
    "Faults of the sidecar, and requests that led to no upstream.",
    ROUTE,
    Label("where", vocabulary.FAULT_PLACES),
    Label("code", vocabulary.FAULT_CODES),
)
WORKERS = _gauge(
    "deuz_workers", "deuz.workers", "Processes of this sidecar that accept requests."
)
WORKER_FAILURES = _counter(
    "deuz_worker_failures_total",
    "deuz.worker.failures",
    "Worker processes that ended unasked; each is started again.",
)
EVENTS_LOST = _counter(
    "deuz_events_lost_total",
    "deuz.events.lost",
    "Events that a worker could not tell: they are missing in the other metrics.",
)

# fmt: off
METRICS = (
    REQUESTS, IN_FLIGHT, DURATION, FIRST_BYTE, OVERHEAD, PASSTHROUGH, TOKENS,
    USAGE_REPORTS, PREFIX_REQUESTS, PREFIX_BREAKS, PREFIX_LOST, PREFIX_MUTATIONS,
    CACHE_EXPECTED, CACHE_MISSED, CONTEXT_COMPILES, CONTEXT_RECORDS, CONTEXT_TOKENS,
    HOLDOUT_REQUESTS, HOLDOUT_TOKENS, SHADOW_REQUESTS, SHADOW_TOKENS, SOURCE_QUERIES,
    SOURCE_DURATION, OVERFLOW, COMPACTION, COMPACTION_REMOVED, ESTIMATE_RATIO,
    LEDGER_OPERATIONS,
    LEDGER_ENTRIES, LEDGER_BYTES, LEDGER_AVAILABLE, FAULTS, WORKERS, WORKER_FAILURES,
    EVENTS_LOST,
)
# fmt: on
"""What `/metrics` shows and OTLP carries."""
