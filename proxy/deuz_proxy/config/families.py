"""Windows of well-known models: a starting point; a provider's own error text wins.

Rules:
- `total_tokens` is what input and output share; `input_tokens` is a limit of its own.
- One entry per family; `windows` knows dated ids, aliases and provider prefixes.
- A family that is not sure is not here: a guessed window costs more than none.
"""

from collections.abc import Mapping
from typing import NamedTuple

_MILLION = 1_000_000
_MEBI = 1_048_576


class Family(NamedTuple):
    """What one family of models takes and gives; None where it is not known."""

    total_tokens: int | None = None
    input_tokens: int | None = None
    max_output_tokens: int | None = None
    long_total_tokens: int | None = None
    """The window with the provider's long-context beta switched on."""


_CLAUDE_LONG = Family(_MILLION, max_output_tokens=128_000)
_CLAUDE_BETA = Family(200_000, max_output_tokens=64_000, long_total_tokens=_MILLION)
_CLAUDE_3_5 = Family(200_000, max_output_tokens=8_192)
_CLAUDE_3 = Family(200_000, max_output_tokens=4_096)
_GPT_6 = Family(input_tokens=922_000, max_output_tokens=128_000)
_GPT_5 = Family(input_tokens=272_000, max_output_tokens=128_000)
_GPT_4_1 = Family(1_047_576, max_output_tokens=32_768)
_GPT_4O = Family(128_000, max_output_tokens=16_384)
_O_SERIES = Family(200_000, max_output_tokens=100_000)
_GEMINI = Family(input_tokens=_MEBI, max_output_tokens=65_536)

FAMILIES: Mapping[str, Family] = {
    "claude-fable-5": _CLAUDE_LONG,
    "claude-fable-5-1": _CLAUDE_LONG,
    "claude-mythos": Family(_MILLION),
    "claude-opus-5": _CLAUDE_LONG,
    "claude-opus-5-5": _CLAUDE_LONG,
    "claude-sonnet-5": _CLAUDE_LONG,
    "claude-sonnet-5-5": _CLAUDE_LONG,
    "claude-haiku-5-5": _CLAUDE_LONG,
    "claude-opus-4-8": _CLAUDE_LONG,
    "claude-opus-4-7": _CLAUDE_LONG,
    "claude-opus-4-6": _CLAUDE_LONG,
    "claude-sonnet-4-6": Family(_MILLION, max_output_tokens=64_000),
    "claude-opus-4-5": Family(200_000, max_output_tokens=64_000),
    "claude-sonnet-4-5": _CLAUDE_BETA,
    "claude-haiku-4-5": Family(200_000, max_output_tokens=64_000),
    "claude-opus-4-1": Family(200_000, max_output_tokens=32_000),
    "claude-opus-4": Family(200_000, max_output_tokens=32_000),
    "claude-sonnet-4": _CLAUDE_BETA,
    "claude-3-7-sonnet": Family(200_000, max_output_tokens=64_000),
    "claude-3-5-sonnet": _CLAUDE_3_5,
    "claude-3-5-haiku": _CLAUDE_3_5,
    "claude-3-opus": _CLAUDE_3,
    "claude-3-haiku": _CLAUDE_3,
    "gpt-6-astra": _GPT_6,
    "gpt-6-sol": _GPT_6,
    "gpt-6-luna": _GPT_6,
    "gpt-5.6": _GPT_6,
    "gpt-5.5": Family(1_050_000, max_output_tokens=128_000),
    "gpt-5.4": Family(1_050_000, max_output_tokens=128_000),
    "gpt-5.2": _GPT_5,
    "gpt-5.1": _GPT_5,
    "gpt-5.1-codex": _GPT_5,
    "gpt-5": _GPT_5,
    "gpt-5-mini": _GPT_5,
    "gpt-5-nano": _GPT_5,
    "gpt-5-codex": _GPT_5,
    "gpt-4.1": _GPT_4_1,
    "gpt-4.1-mini": _GPT_4_1,
    "gpt-4.1-nano": _GPT_4_1,
    "gpt-4o": _GPT_4O,
    "gpt-4o-mini": _GPT_4O,
    "chatgpt-4o": _GPT_4O,
    "gpt-4-turbo": Family(128_000, max_output_tokens=4_096),
    "gpt-4": Family(8_192, max_output_tokens=8_192),
    "gpt-3.5-turbo": Family(16_385, max_output_tokens=4_096),
    "o1": _O_SERIES,
    "o3": _O_SERIES,
    "o3-mini": _O_SERIES,
    "o4-mini": _O_SERIES,
    "gpt-oss-120b": Family(131_072),
    "gpt-oss-20b": Family(131_072),
    "gemini-3-pro": _GEMINI,
    "gemini-3-flash": _GEMINI,
    "gemini-3.1-pro": _GEMINI,
    "gemini-3.1-flash": _GEMINI,
    "gemini-3.1-flash-lite": _GEMINI,
    "gemini-2.5-pro": _GEMINI,
    "gemini-2.5-flash": _GEMINI,
    "gemini-2.5-flash-lite": _GEMINI,
    "gemini-2.0-flash": Family(input_tokens=_MEBI, max_output_tokens=8_192),
    "grok-4.5": Family(500_000),
    "grok-4.3": Family(_MILLION),
    "deepseek-v4-pro": Family(_MEBI, max_output_tokens=393_216),
    "deepseek-chat": Family(131_072),
    "kimi-k2.6": Family(262_144),
    "kimi-k3": Family(_MEBI),
    "glm-5.2": Family(_MILLION),
    # 1,000,000 nominal; the smaller number is enforced at one host at least.
    "minimax-m3": Family(524_287),
    "mistral-large": Family(262_144),
    "qwen3-max": Family(258_048),
    "sonar-pro": Family(200_000),
    "command-a": Family(256_000),
}

# These void a replayed thinking block when any byte before it changed.
THINKING_BINDING: tuple[str, ...] = (
    "claude-fable-5-1",
    "claude-opus-5-5",
    "claude-sonnet-5-5",
    "claude-haiku-5-5",
)
