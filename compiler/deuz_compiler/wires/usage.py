"""Token counts of an answer, in one convention for all providers.

Rules:
- The four counts are disjoint: total input is uncached + cache_read + cache_write.
- None is "not reported" and never becomes 0.
- Providers that count cached tokens inside the input are told apart by the shape of
  their answer, not by a model's name.
- Counts in a stream are cumulative: the newest that is not null replaces, field by
  field.
- Which names a report has decides how it is read, and is decided once for reports that
  have the same ones: a server's answers do.
"""

from collections.abc import Mapping
from functools import lru_cache

import msgspec
from msgspec.structs import replace

MAX_COUNT = 1_000_000_000
"""No answer has so many tokens; a larger figure is a fault of the server."""

MAX_DIGITS = 12
"""A longer string of digits is not a count, and slow to convert."""


class Usage(msgspec.Struct, frozen=True, gc=False):
    """Disjoint token counts of one answer. `reasoning` is a part of `output`.

    `is_anomalous` says that a count was negative, too large or none at all, or that the
    parts contradict each other: they are clamped or left out, never trusted.
    """

    input_uncached: int | None = None
    cache_read: int | None = None
    cache_write: int | None = None
    output: int | None = None
    reasoning: int | None = None
    is_anomalous: bool = False

    @property
    def input_total(self) -> int | None:
        """All input tokens, cached ones included; None if nothing was reported."""
        uncached, read, write = self.input_uncached, self.cache_read, self.cache_write
        if uncached is None and read is None and write is None:
            return None
        return (uncached or 0) + (read or 0) + (write or 0)


class Shape(msgspec.Struct, frozen=True, gc=False):
    """Where one family of servers puts its counts; the first name present is taken.

    `marks` tell the family. `includes_cache` says that the input count has the cached
    tokens in it; `extra` is output that the output count leaves out, `extra_input` is
    input that the input count leaves out. Where the output count may leave out the
    reasoning, the `total` of all tells.
    """

    marks: tuple[str, ...]
    input: tuple[str, ...]
    read: tuple[str, ...]
    write: tuple[str, ...]
    output: tuple[str, ...]
    reasoning: tuple[str, ...]
    includes_cache: bool
    extra: tuple[str, ...] = ()
    extra_input: tuple[str, ...] = ()
    total: tuple[str, ...] = ()
    may_leave_out_reasoning: bool = False


CHAT = Shape(
    marks=("prompt_tokens", "completion_tokens"),
    input=("prompt_tokens",),
    read=(
        "prompt_tokens_details.cached_tokens",
        "prompt_cache_hit_tokens",
        "cached_tokens",
        # Older llama.cpp tells the reuse there only, beside an inclusive usage.
        "timings.cache_n",
        "cache_read_input_tokens",
    ),
    write=(
        "prompt_tokens_details.cache_write_tokens",
        "prompt_tokens_details.cache_creation_input_tokens",
        "prompt_tokens_details.cache_creation_tokens",
        "cache_creation_input_tokens",
    ),
    output=("completion_tokens",),
    reasoning=("completion_tokens_details.reasoning_tokens", "reasoning_tokens"),
    includes_cache=True,
    total=("total_tokens",),
    may_leave_out_reasoning=True,
)
RESPONSES = Shape(
    marks=("input_tokens_details",),
    input=("input_tokens",),
    read=("input_tokens_details.cached_tokens",),
    write=("input_tokens_details.cache_write_tokens",),
    output=("output_tokens",),
    reasoning=("output_tokens_details.reasoning_tokens",),
    includes_cache=True,
)
ANTHROPIC = Shape(
    marks=("input_tokens", "output_tokens", "cache_read_input_tokens"),
    input=("input_tokens",),
    read=("cache_read_input_tokens",),
    write=("cache_creation_input_tokens",),
    output=("output_tokens",),
    reasoning=(
        "output_tokens_details.thinking_tokens",
        "output_tokens_details.reasoning_tokens",
    ),
    includes_cache=False,
)
LLAMA_TIMINGS = Shape(
    # `prompt_n` counts what was evaluated, `cache_n` what was found in the slot.
    marks=("timings.prompt_n",),
    input=("timings.prompt_n",),
    read=("timings.cache_n",),
    write=(),
    output=("timings.predicted_n",),
    reasoning=(),
    includes_cache=False,
)
GEMINI = Shape(
    marks=("promptTokenCount", "candidatesTokenCount", "totalTokenCount"),
    input=("promptTokenCount",),
    read=("cachedContentTokenCount",),
    write=(),
    output=("candidatesTokenCount",),
    reasoning=("thoughtsTokenCount",),
    includes_cache=True,
    extra=("thoughtsTokenCount",),
    # What tools of the provider returned, read by the model.
    extra_input=("toolUsePromptTokenCount",),
)
CONVERSE = Shape(
    marks=("inputTokens", "outputTokens"),
    input=("inputTokens",),
    read=("cacheReadInputTokens", "cacheReadInputTokenCount"),
    write=("cacheWriteInputTokens", "cacheWriteInputTokenCount"),
    output=("outputTokens",),
    reasoning=(),
    includes_cache=False,
)
BEDROCK_METRICS = Shape(
    # What Bedrock itself counts beside any model's answer, then the words of its older
    # models.
    marks=(
        "inputTokenCount",
        "outputTokenCount",
        "prompt_token_count",
        "generation_token_count",
        "inputTextTokenCount",
    ),
    input=("inputTokenCount", "prompt_token_count", "inputTextTokenCount"),
    read=("cacheReadInputTokenCount",),
    write=("cacheWriteInputTokenCount",),
    output=("outputTokenCount", "generation_token_count", "tokenCount"),
    reasoning=(),
    includes_cache=False,
)
OLLAMA = Shape(
    # Of a prompt that is in the cache as a whole, the count may be left out.
    marks=("prompt_eval_count", "eval_count"),
    input=("prompt_eval_count",),
    read=(),
    write=(),
    output=("eval_count",),
    reasoning=(),
    includes_cache=True,
)
SHAPES = (
    CHAT,
    RESPONSES,
    ANTHROPIC,
    GEMINI,
    CONVERSE,
    BEDROCK_METRICS,
    OLLAMA,
    LLAMA_TIMINGS,
)


def _known_names() -> dict[str, dict[str, str]]:
    """Return all names of all shapes: what stands in each, by its dotted name."""
    known: dict[str, dict[str, str]] = {}
    for shape in SHAPES:
        for places in msgspec.structs.astuple(shape):
            for name in places if isinstance(places, tuple) else ():
                outer, _, inner = name.partition(".")
                known.setdefault(outer, {}).update({inner: name} if inner else {})
    return known


_NAMES = _known_names()


def merge_counts(known: Mapping[str, object], report: object) -> dict[str, object]:
    """Return the counts with a newer report over them; null and absent change nothing.

    Names that no shape has are left out; members of nested objects are kept under
    dotted names. A report that is no object is none.
    """
    merged = dict(known)
    if type(report) is not dict:  # As JSON is decoded: its names are texts.
        return merged
    for name, value in report.items():
        if value is None or name not in _NAMES:
            continue
        if type(value) is not dict:
            merged[name] = value
            continue
        merged[name] = True
        inside = _NAMES[name]
        for part, count in value.items():
            if count is not None and part in inside:
                merged[inside[part]] = True if type(count) is dict else count
    return merged


def read_usage(counts: Mapping[str, object]) -> Usage | None:
    """Return the disjoint counts, or None where none was reported.

    `counts` is what `merge_counts` made of all reports of one answer.
    """
    shape = _shape_of(frozenset(counts))
    return None if shape is None else _settle(shape, counts)


@lru_cache(maxsize=256)
def _shape_of(names: frozenset[str]) -> Shape | None:
    """Return the shape of a report with these names: of each place what is there."""
    for shape in SHAPES:
        if not names.isdisjoint(shape.marks):
            places = msgspec.structs.asdict(shape)
            return replace(
                shape,
                **{
                    place: tuple([name for name in listed if name in names])
                    for place, listed in places.items()
                    if isinstance(listed, tuple)
                },
            )
    return None


def _settle(shape: Shape, counts: Mapping[str, object]) -> Usage | None:
    taken = _Counts(counts)
    first = taken.first
    # Of the places most reports have a few: what is not there is not asked for.
    total = first(shape.input) if shape.input else None
    if shape.extra_input:
        extra = first(shape.extra_input)
        total = total if extra is None else (total or 0) + extra
    read = first(shape.read) if shape.read else None
    write = first(shape.write) if shape.write else None
    reasoning = first(shape.reasoning) if shape.reasoning else None
    output = first(shape.output) if shape.output else None
    if reasoning or shape.extra:
        output = _all_output(shape, taken, output, total, reasoning)
    is_anomalous = taken.is_anomalous
    if total is None and read is None and write is None and output is None:
        return Usage(is_anomalous=True) if is_anomalous else None
    if shape.includes_cache and total is not None:
        uncached = total - (read or 0) - (write or 0)
        if uncached < 0:
            is_anomalous = True
            read = None if read is None else min(read, total)
            write = None if write is None else min(write, total - (read or 0))
            uncached = total - (read or 0) - (write or 0)
        total = uncached
    return Usage(total, read, write, output, reasoning, is_anomalous)


def _all_output(
    shape: Shape,
    taken: "_Counts",
    output: int | None,
    total: int | None,
    reasoning: int | None,
) -> int | None:
    """Return all output tokens, also those that a server counts apart."""
    extra = taken.first(shape.extra) if shape.extra else None
    if extra is not None:
        return (output or 0) + extra
    if not shape.may_leave_out_reasoning or output is None or not reasoning:
        return output
    # xAI leaves reasoning out of `completion_tokens`; its grand total tells.
    everything = taken.first(shape.total)
    is_apart = everything == (total or 0) + output + reasoning or reasoning > output
    return output + reasoning if is_apart else output


class _Counts:
    """Reads counts by name and remembers whether one of them was odd."""

    __slots__ = ("_values", "is_anomalous")

    def __init__(self, values: Mapping[str, object]) -> None:
        self._values = values
        self.is_anomalous = False

    def first(self, names: tuple[str, ...]) -> int | None:
        """Return the first count that is there, between 0 and `MAX_COUNT`."""
        values = self._values
        for name in names:
            if name in values:
                value = values[name]
                if type(value) is int and 0 <= value <= MAX_COUNT:
                    return value
                return self._clamp(value)
        return None

    def _clamp(self, value: object) -> int | None:
        """Return what an odd value may mean; one that is too large means nothing."""
        self.is_anomalous = True
        count = _as_count(value)
        return None if count is None or count > MAX_COUNT else max(0, count)


def _as_count(value: object) -> int | None:
    """Return a whole number, also from a float or digits in a string."""
    if isinstance(value, bool):
        return None
    if isinstance(value, int):
        return value
    if isinstance(value, float) and abs(value) <= MAX_COUNT:
        return int(value)
    if isinstance(value, str) and len(value) <= MAX_DIGITS:
        digits = value.removeprefix("-")
        return int(value) if digits.isascii() and digits.isdecimal() else None
    return None
