"""The closed sets of words that labels and attributes may take.

Rules:
- A word outside its set becomes `other` on a metric; nothing here grows with traffic.
- A word is added here before anything emits it, and in the docs with it.
"""

OTHER = "other"
NONE = "none"

WIRES = (
    "anthropic",
    "openai_chat",
    "openai_responses",
    "openai",
    "gemini",
    "ollama",
    "ollama_chat",
    "ollama_generate",
    "bedrock",
    "bedrock_converse",
    "bedrock_invoke",
    NONE,
)
MODES = ("off", "observe", "shadow", "compile")
GROUPS = ("treated", "held_out")
PREDICTED_PREFIXES = ("kept", "broken_by_client", "broken_by_sidecar")
PREDICTED_TOKENS = ("added", "cache_read")
OUTCOMES = ("ok", "upstream_error", "client_closed", "truncated", "refused")
STAGES = ("admit", "recall", "compile", "forward", "recover", "settle", "total")

PASSTHROUGHS = (
    "not_json",
    "duplicate_key",
    "unknown_shape",
    "unknown_encoding",
    "damaged_encoding",
    "decoded_too_large",
    "server_state",
    "unknown_endpoint",
    "compaction",
    "observe",
    "off",
    "signed",
    "no_scope",
    "no_window",
    "fault",
)

TOKEN_TYPES = ("input_uncached", "cache_read", "cache_write", "output")
USAGE_STATUSES = ("reported", "absent", "anomalous")

VERDICTS = (
    "first",
    "extended",
    "unchanged",
    "shortened",
    "returned",
    "broken",
    "side_call",
)
SEGMENTS = ("model", "params", "tools", "system", "turn")
OWNERS = ("client", "sidecar", "ttl", "provider", "parameter", "unknown")
# The words of `deuz_compiler.causes`; a test keeps the two alike.
CAUSES = (
    "model_changed",
    "parameter_changed",
    "tool_added",
    "tool_removed",
    "tools_reordered",
    "tool_edited",
    "system_added",
    "system_removed",
    "system_time",
    "system_nonce",
    "system_edited",
    "turn_edited",
    "turn_inserted",
    "turns_dropped",
    "overflow_recovery",
    "ledger_lost",
    "evicted",
    "ledger_changed",
    "mode_changed",
    "record_forgotten",
    "sidecar_changed",
    "ttl_expired",
    "provider_miss",
    "unknown",
)

# Words of the manifest have hyphens: they are stored with it and stay as they are.
REFRESH_REASONS = (
    "initial",
    "fresh-turn",
    "task-changed",
    "host-request",
    "reused",
    "redacted",
    "overflow-retry",
    "mandatory-lost",
)
FALLBACKS = (
    NONE,
    "pass-limit",
    "source-failed",
    "source-late",
    "ledger-failed",
    "fault",
    "insufficient-budget",
    "unsatisfied-dependency",
    "no-legal-form",
    "unresolved-group",
    "required-absent",
    "required-ineligible",
    "search-exhausted",
)
DECISIONS = ("selected", "excluded")
RECORD_REASONS = (
    "mandatory",
    "required",
    "ranked",
    "reallocated",
    "dependency",
    "already-placed",
    "scope-ineligible",
    "freshness-ineligible",
    "authority-ineligible",
    "below-floor",
    "expired",
    "duplicate-content",
    "dependency-blocked",
    "missing-dependency",
    "over-budget",
    "below-threshold",
    "render-overrun",
    "duplicate-record",
    "malformed",
    "refused",
)
SOURCE_STATUSES = ("ok", "empty", "late", "failed", "skipped")
SOURCE_FAILURES = ("late", "failed")

OVERFLOW_STAGES = ("preflight", "rejected", "in_stream", "silent")
OVERFLOW_OUTCOMES = ("recovered", "surfaced", "cannot_fit", "observed")
LAYERS = ("prune-tool-results", "prune-reasoning", "summarize")
TRIGGERS = ("overflow", "preflight", "threshold")

LEDGER_OPS = ("read", "commit", "evict", "rewrite", "load", "save")
LEDGER_ASKED = ("read", "commit", "load", "save")
LEDGER_STATUSES = ("ok", "failed", "late", "full", "damaged", "open")
STORES = ("memory", "sqlite", "redis")

FAULT_PLACES = (
    "admit",
    "recall",
    "compile",
    "forward",
    "recover",
    "relay",
    "settle",
    "observe",
    "reload",
    "admin",
    "tunnel",
)
FAULT_CODES = (
    "sidecar_fault",
    "body_too_large",
    "malformed_request",
    "head_too_large",
    "request_too_slow",
    "too_many_connections",
    "upstream_unreachable",
    "upstream_broken",
    "unknown_upstream",
    "context_refused",
    "config_invalid",
    "listen_failed",
    "worker_failed",
    "store_failed",
    "store_unusable",
    "source_failed",
    "compiler_error",
    "not_lifted",
    "malformed_input",
    "summary_blank",
    "summary_cut_off",
    "summary_not_smaller",
    "summary_refused",
    "summary_tool_call",
)

HTTP_METHODS = (
    "GET",
    "HEAD",
    "POST",
    "PUT",
    "DELETE",
    "CONNECT",
    "OPTIONS",
    "TRACE",
    "PATCH",
    "QUERY",
)

# What may be shown of a path: the words of the providers' own APIs. All else in a path
# may be an id, a file name or a key, and is shown as `_`.
PATH_WORDS = frozenset(
    """
    v1 v1beta v1alpha api messages batches count_tokens complete chat completions
    responses input_tokens compact cancel embeddings embed embed_content moderations
    models files content images generations edits variations audio speech transcriptions
    translations realtime sessions client_secrets assistants threads runs steps
    vector_stores uploads parts fine_tuning jobs generate tags show ps version pull push
    blobs health props tokenize detokenize slots metrics rerank score cachedContents
    generateContent streamGenerateContent countTokens embedContent batchEmbedContents
    generateAnswer predict conversations items results organizations usage costs
    """.split()  # noqa: SIM905  # A list of seventy strings reads worse.
)
