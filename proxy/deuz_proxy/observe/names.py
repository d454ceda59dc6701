"""Every span, attribute and span-event name that leaves the sidecar.

Rules:
- Own names start with `deuz.`; `gen_ai.*` names are those of the newest GenAI
  conventions, `http.*` and `error.*` the stable ones.
- The conventions rename things: what had another name before is in `Conventions`, and
  nowhere else. One setting chooses.
- An attribute that is in none of the sets below is not exported.
"""

from dataclasses import dataclass
from functools import lru_cache

SCOPE = "deuz_proxy"

# Spans and span events.
COMPILE_SPAN = "deuz.context.compile"
VERDICT_EVENT = "deuz.prefix.verdict"
OVERFLOW_EVENT = "deuz.overflow"
COMPACTION_EVENT = "deuz.compaction"

# Stable HTTP and general names.
ERROR_TYPE = "error.type"
HTTP_METHOD = "http.request.method"
HTTP_STATUS = "http.response.status_code"
HTTP_REQUEST_BYTES = "http.request.body.size"
HTTP_RESPONSE_BYTES = "http.response.body.size"
HTTP_ROUTE = "http.route"
URL_PATH = "url.path"
URL_SCHEME = "url.scheme"
SERVER_ADDRESS = "server.address"
SERVER_PORT = "server.port"

# Ours, on the server span.
REQUEST_ID = "deuz.request.id"
ROUTE = "deuz.route"
UPSTREAM = "deuz.upstream"
WIRE = "deuz.wire"
MODE = "deuz.mode"
GROUP = "deuz.holdout.group"
OUTCOME = "deuz.outcome"
PASSTHROUGH = "deuz.passthrough"
CONVERSATION = "deuz.conversation.id"
USAGE_STATUS = "deuz.usage.status"
OVERHEAD = "deuz.overhead"
MUTATIONS = "deuz.prefix.sidecar_mutations"
PURPOSE = "deuz.upstream.purpose"

# Ours, on the compile span.
SELECTED = "deuz.context.selected"
EXCLUDED = "deuz.context.excluded"
TOKENS = "deuz.context.tokens"
BUDGET = "deuz.context.budget_tokens"
ESTIMATOR = "deuz.context.estimator"
REFRESH_REASON = "deuz.context.refresh_reason"
FALLBACK = "deuz.context.fallback"
PREFIX_CHANGED = "deuz.context.cache_prefix_changed"
MANIFEST = "deuz.context.manifest_digest"
SOURCE_PREFIX = "deuz.context.source."
SOURCE_PARTS = ("selected", "excluded", "tokens")

# GenAI, on the client span.
OPERATION = "gen_ai.operation.name"
PROVIDER = "gen_ai.provider.name"
CONVERSATION_ID = "gen_ai.conversation.id"
COMPACTED = "gen_ai.conversation.compacted"
REQUEST_MODEL = "gen_ai.request.model"
REQUEST_STREAM = "gen_ai.request.stream"
REQUEST_MAX_TOKENS = "gen_ai.request.max_tokens"
RESPONSE_ID = "gen_ai.response.id"
RESPONSE_MODEL = "gen_ai.response.model"
FINISH_REASONS = "gen_ai.response.finish_reasons"
FIRST_CHUNK = "gen_ai.response.time_to_first_chunk"
INPUT_TOKENS = "gen_ai.usage.input_tokens"
OUTPUT_TOKENS = "gen_ai.usage.output_tokens"
CACHE_READ = "gen_ai.usage.cache_read.input_tokens"
REASONING = "gen_ai.usage.reasoning.output_tokens"
TOKEN_TYPE = "gen_ai.token.type"  # noqa: S105  # Tokens of text, not secrets.
TOKEN_MODALITY = "gen_ai.token.modality"  # noqa: S105  # As above.


@dataclass(frozen=True, slots=True)
class Conventions:
    """One generation of the GenAI conventions; only what differs between them."""

    cache_write: str
    has_inference_metrics: bool


NEWEST = Conventions(
    cache_write="gen_ai.usage.cache_write.input_tokens", has_inference_metrics=True
)
OLDER = Conventions(
    cache_write="gen_ai.usage.cache_creation.input_tokens", has_inference_metrics=False
)

SERVER_ATTRIBUTES = frozenset(
    {
        HTTP_METHOD,
        HTTP_STATUS,
        HTTP_REQUEST_BYTES,
        HTTP_RESPONSE_BYTES,
        HTTP_ROUTE,
        URL_PATH,
        URL_SCHEME,
        ERROR_TYPE,
        REQUEST_ID,
        ROUTE,
        UPSTREAM,
        WIRE,
        MODE,
        OUTCOME,
        PASSTHROUGH,
        CONVERSATION,
        USAGE_STATUS,
        OVERHEAD,
        MUTATIONS,
    }
)
CLIENT_ATTRIBUTES = frozenset(
    {
        HTTP_METHOD,
        HTTP_STATUS,
        ERROR_TYPE,
        SERVER_ADDRESS,
        SERVER_PORT,
        PURPOSE,
        OPERATION,
        PROVIDER,
        CONVERSATION_ID,
        COMPACTED,
        REQUEST_MODEL,
        REQUEST_STREAM,
        REQUEST_MAX_TOKENS,
        RESPONSE_ID,
        RESPONSE_MODEL,
        FINISH_REASONS,
        FIRST_CHUNK,
        INPUT_TOKENS,
        OUTPUT_TOKENS,
        CACHE_READ,
        REASONING,
        NEWEST.cache_write,
        OLDER.cache_write,
    }
)
COMPILE_ATTRIBUTES = frozenset(
    {
        SELECTED,
        EXCLUDED,
        TOKENS,
        BUDGET,
        ESTIMATOR,
        REFRESH_REASON,
        FALLBACK,
        PREFIX_CHANGED,
        MANIFEST,
    }
)
"""Beside these, `SOURCE_PREFIX` + id + one of `SOURCE_PARTS` for each source."""

VERDICT_ATTRIBUTES = (
    "verdict",
    "segment",
    "cause",
    "owner",
    "index",
    "offset",
    "lost_tokens",
)
OVERFLOW_ATTRIBUTES = ("stage", "outcome", "limit_tokens", "requested_tokens")
COMPACTION_ATTRIBUTES = ("layer", "trigger", "tokens_before", "tokens_after")

_PROVIDERS = {
    "anthropic": "anthropic",
    "openai_chat": "openai",
    "openai_responses": "openai",
    "openai": "openai",
    "gemini": "gcp.gemini",
    "ollama": "ollama",
    "ollama_chat": "ollama",
    "ollama_generate": "ollama",
    "bedrock": "aws.bedrock",
    "bedrock_converse": "aws.bedrock",
    "bedrock_invoke": "aws.bedrock",
}
_OPERATIONS = (
    (("/embeddings", "/api/embed", ":embedContent"), "embeddings"),
    ((":generateContent", ":streamGenerateContent"), "generate_content"),
    (("/api/generate",), "text_completion"),
    (("/chat/completions", "/messages", "/responses", "/api/chat"), "chat"),
    (("/converse", "/converse-stream", "/invoke"), "chat"),
    (("/invoke-with-response-stream", ":rawPredict", ":streamRawPredict"), "chat"),
    (("/completions", "/complete"), "text_completion"),
)


def provider_of(wire: str) -> str | None:
    """Return the provider whose format the wire is; None if it is no provider's."""
    return _PROVIDERS.get(wire)


# A few paths come again and again.
@lru_cache(maxsize=256)
def operation_of(path: str) -> str | None:
    """Return the GenAI operation that a path asks for; None for any other call."""
    bare = path.partition("?")[0]
    for endings, operation in _OPERATIONS:
        if bare.endswith(endings):
            return operation
    return None
