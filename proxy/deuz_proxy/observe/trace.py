"""The ids that tie a request to its caller's trace.

Rules:
- A malformed `traceparent` is ignored: the request starts a trace of its own.
- The caller's sampling flag is respected unless the configured sampler says otherwise.
- Ids come from the maker that is handed in; an id is never 0.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass

from deuz_proxy.observe.events import Trace

NewId = Callable[[int], int]
"""Returns a random whole number of at most that many bits."""

# The sampled bit is the only flag that means something to us.
_TRACEPARENT = re.compile(
    r"([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-.*)?"
)
_FIRST_VERSION = "00"
_FORBIDDEN_VERSION = "ff"
_SAMPLED = 0x01
_LOW_64_BITS = (1 << 64) - 1


@dataclass(frozen=True, slots=True)
class Parent:
    """The caller's span, as its header tells it."""

    trace_id: int
    span_id: int
    is_sampled: bool


Sampler = Callable[[Parent | None, int], bool]
"""Decides for a parent (or none) and a trace id whether spans are kept."""


def parse_traceparent(value: str) -> Parent | None:
    """Return the caller's span, or None for anything that W3C calls invalid."""
    found = _TRACEPARENT.fullmatch(value.strip(" \t"))
    if found is None:
        return None
    version, trace_id, span_id, flags, rest = found.groups()
    # A later version may append fields, the first one may not.
    if version == _FORBIDDEN_VERSION or (version == _FIRST_VERSION and rest):
        return None
    parent = Parent(int(trace_id, 16), int(span_id, 16), bool(int(flags, 16) & 1))
    return parent if parent.trace_id and parent.span_id else None


def make_trace(traceparent: str | None, new_id: NewId, sampler: Sampler) -> Trace:
    """Return the ids of a request's spans: in the caller's trace, or in a new one."""
    parent = parse_traceparent(traceparent) if traceparent else None
    trace_id = parent.trace_id if parent else nonzero_id(new_id, 128)
    # In the order of its fields: by name, each is looked for among all of them.
    return Trace(
        trace_id,
        parent.span_id if parent else 0,
        sampler(parent, trace_id),
        new_id(64) or nonzero_id(new_id, 64),
        new_id(64) or nonzero_id(new_id, 64),
    )


def format_traceparent(trace: Trace) -> str:
    """Return the header for the upstream: our client span as its parent."""
    flags = _SAMPLED if trace.is_sampled else 0
    return f"00-{trace.trace_id:032x}-{trace.client_span_id:016x}-{flags:02x}"


def sampler_named(name: str, argument: str = "") -> Sampler:
    """Return the sampler that `OTEL_TRACES_SAMPLER` and its argument name.

    An unknown name means `parentbased_always_on`, an unreadable ratio means 1.
    """
    roots: dict[str, Sampler] = {
        "always_on": lambda _parent, _trace_id: True,
        "always_off": lambda _parent, _trace_id: False,
        "traceidratio": _ratio_sampler(argument),
    }
    if name in roots:
        return roots[name]
    root = roots.get(name.removeprefix("parentbased_"), roots["always_on"])
    if root is roots["always_on"]:
        return lambda parent, _trace_id: parent is None or parent.is_sampled
    return lambda parent, trace_id: (
        parent.is_sampled if parent else root(parent, trace_id)
    )


def _ratio_sampler(argument: str) -> Sampler:
    try:
        ratio = min(max(float(argument), 0.0), 1.0)
    except ValueError:
        ratio = 1.0
    # The same rule as the SDKs', so that services agree on which traces are kept.
    bound = round(ratio * (_LOW_64_BITS + 1))
    return lambda _parent, trace_id: (trace_id & _LOW_64_BITS) < bound


def nonzero_id(new_id: NewId, bits: int) -> int:
    """Return an id that is not 0: zero means "no id" everywhere."""
    while True:
        if made := new_id(bits):
            return made
