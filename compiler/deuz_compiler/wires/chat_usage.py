"""Token counts as most chat completion servers report them, decoded without a dict.

Rules:
- Only what the general way (`usage`) would take as it stands is read here: a count of
  another type or out of bounds, or a shape without the marks of this one, goes there.
- Both ways give the same counts; this one is several times as fast.
"""

from typing import Annotated

import msgspec

from deuz_compiler.wires.usage import MAX_COUNT, Usage, merge_counts, read_usage

_Count = Annotated[int, msgspec.Meta(ge=0, le=MAX_COUNT)] | None


class _InputDetails(msgspec.Struct, frozen=True, gc=False):
    cached_tokens: _Count = None
    cache_write_tokens: _Count = None
    cache_creation_input_tokens: _Count = None
    cache_creation_tokens: _Count = None


class _OutputDetails(msgspec.Struct, frozen=True, gc=False):
    reasoning_tokens: _Count = None


class ChatReport(msgspec.Struct, frozen=True, gc=False):
    """A report with all names of the shape `CHAT`; null and absent are the same."""

    prompt_tokens: _Count = None
    completion_tokens: _Count = None
    total_tokens: _Count = None
    prompt_tokens_details: _InputDetails | None = None
    completion_tokens_details: _OutputDetails | None = None
    prompt_cache_hit_tokens: _Count = None
    cached_tokens: _Count = None
    cache_read_input_tokens: _Count = None
    cache_creation_input_tokens: _Count = None
    reasoning_tokens: _Count = None
    # llama.cpp's stand beside the usage: inside of it they are left to the general way.
    timings: None = None


_REPORT = msgspec.json.Decoder(ChatReport)

_NOT_CACHED = None, None

Reports = dict[str, object] | ChatReport
"""All reports of one answer: the only one as it came, or what several merged to."""


def decode_report(report: msgspec.Raw) -> object:
    """Return a `ChatReport` where the report is one, else what the JSON says.

    Raises:
        msgspec.DecodeError, RecursionError: it is no JSON, or too deep.
    """
    try:
        found = _REPORT.decode(report)
    except msgspec.ValidationError:
        return msgspec.json.decode(report)
    if found.prompt_tokens is None and found.completion_tokens is None:
        return msgspec.json.decode(report)
    return found


def merge_reports(known: Reports, report: object) -> Reports:
    """Return the reports with a newer one laid over them."""
    if isinstance(report, ChatReport):
        if not known:
            return report
        report = msgspec.to_builtins(report)
    if isinstance(known, ChatReport):
        known = merge_counts({}, msgspec.to_builtins(known))
    return merge_counts(known, report)


def read_reports(reports: Reports) -> Usage | None:
    """Return the disjoint counts, or None where none was reported."""
    if not isinstance(reports, ChatReport):
        return read_usage(reports)
    total, inside = reports.prompt_tokens, reports.prompt_tokens_details
    read, write = _NOT_CACHED if inside is None else _cached(inside)
    if read is None:
        read = _first(
            reports.prompt_cache_hit_tokens,
            reports.cached_tokens,
            reports.cache_read_input_tokens,
        )
    if write is None:
        write = reports.cache_creation_input_tokens
    outside = reports.completion_tokens_details
    reasoning = outside.reasoning_tokens if outside is not None else None
    if reasoning is None:
        reasoning = reports.reasoning_tokens
    cached = (read or 0) + (write or 0)
    if reasoning or (total is not None and cached > total):
        # Reasoning may be counted apart, and parts may contradict their whole: judged
        # in one place.
        return read_usage(merge_counts({}, msgspec.to_builtins(reports)))
    uncached = None if total is None else total - cached
    return Usage(uncached, read, write, reports.completion_tokens, reasoning)


def _cached(inside: _InputDetails) -> tuple[int | None, int | None]:
    """Return what was read and what was written of the cache."""
    write = inside.cache_write_tokens
    if write is None:
        write = inside.cache_creation_input_tokens
    if write is None:
        write = inside.cache_creation_tokens
    return inside.cached_tokens, write


def _first(*counts: int | None) -> int | None:
    for count in counts:
        if count is not None:
            return count
    return None
