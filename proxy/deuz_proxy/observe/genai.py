"""The GenAI conventions' client metrics, newest and older; they leave over OTLP only.

Rules:
- `/metrics` does not repeat them: its own names tell the same and more.
- Only one generation is exported, or every token would be counted twice.
- Input tokens include cached ones here, as the conventions demand.
"""

from deuz_proxy.observe import names, vocabulary
from deuz_proxy.observe.catalog import (
    GEN_AI_SECONDS_BUCKETS,
    GEN_AI_TOKEN_BUCKETS,
    Label,
    Metric,
)

_OPERATIONS = ("chat", "text_completion", "generate_content", "embeddings")
_PROVIDERS = ("openai", "anthropic", "gcp.gemini", "ollama")

OPERATION = Label("gen_ai_operation_name", _OPERATIONS, names.OPERATION)
PROVIDER = Label("gen_ai_provider_name", _PROVIDERS, names.PROVIDER)
MODEL = Label("model", None, names.REQUEST_MODEL)
MODALITY = Label("gen_ai_token_modality", ("unknown",), names.TOKEN_MODALITY)
TOKEN_TYPE = Label("gen_ai_token_type", ("input", "output"), names.TOKEN_TYPE)
ERROR = Label(
    "error_type",
    (vocabulary.NONE, *vocabulary.OUTCOMES[1:], *vocabulary.FAULT_CODES),
    names.ERROR_TYPE,
)

COMMON = (OPERATION, PROVIDER, MODEL)


def _usage(part: str, text: str) -> Metric:
    otlp = f"gen_ai.client.inference.usage.{part}"
    name = f"{otlp.replace('.', '_')}_total"
    return Metric(name, otlp, "counter", text, (*COMMON, MODALITY), "{token}")


def _histogram(otlp: str, text: str, labels: tuple[Label, ...], unit: str) -> Metric:
    suffix = "_seconds" if unit == "s" else ""
    buckets = GEN_AI_SECONDS_BUCKETS if unit == "s" else GEN_AI_TOKEN_BUCKETS
    name = f"{otlp.replace('.', '_')}{suffix}"
    return Metric(name, otlp, "histogram", text, labels, unit, buckets)


USAGE_INPUT = _usage("input_tokens", "Input tokens, cached ones included.")
USAGE_OUTPUT = _usage("output_tokens", "Output tokens, reasoning included.")
USAGE_READ = _usage("cache_read.input_tokens", "Input tokens read from a cache.")
USAGE_WRITE = _usage("cache_write.input_tokens", "Input tokens written to a cache.")
USAGE_REASONING = _usage("reasoning.output_tokens", "Output tokens of reasoning.")
INPUT_TOKENS = _histogram(
    "gen_ai.client.inference.operation.input_tokens",
    "Input tokens of one call.",
    COMMON,
    "{token}",
)
OUTPUT_TOKENS = _histogram(
    "gen_ai.client.inference.operation.output_tokens",
    "Output tokens of one call.",
    COMMON,
    "{token}",
)
DURATION = _histogram(
    "gen_ai.client.inference.duration",
    "Duration of one call.",
    (*COMMON, ERROR),
    "s",
)
FIRST_CHUNK = _histogram(
    "gen_ai.client.inference.time_to_first_chunk",
    "Time to the first chunk of a streamed answer.",
    COMMON,
    "s",
)
OLDER_TOKENS = _histogram(
    "gen_ai.client.token.usage",
    "Tokens of one call by type.",
    (*COMMON, TOKEN_TYPE),
    "{token}",
)
OLDER_DURATION = _histogram(
    "gen_ai.client.operation.duration",
    "Duration of one call.",
    (*COMMON, ERROR),
    "s",
)

NEWEST = (
    USAGE_INPUT,
    USAGE_OUTPUT,
    USAGE_READ,
    USAGE_WRITE,
    USAGE_REASONING,
    INPUT_TOKENS,
    OUTPUT_TOKENS,
    DURATION,
    FIRST_CHUNK,
)
OLDER = (OLDER_TOKENS, OLDER_DURATION)
