"""The listener behind the GenAI client metrics that leave over OTLP.

Rules:
- It exists only where an endpoint is configured: nobody else pays for it.
- One generation of names is counted, the one that the setting chose.
- What was not reported is not counted.
"""

from collections import defaultdict
from collections.abc import Callable, Sequence
from operator import attrgetter
from typing import Any

from prometheus_client import CollectorRegistry

from deuz_compiler import Usage
from deuz_proxy.observe import genai, names, vocabulary
from deuz_proxy.observe.events import Event, RequestFinished, UpstreamCall
from deuz_proxy.sinks.attributes import FIRST_ERROR_STATUS
from deuz_proxy.sinks.backlog import Backlog, Settled
from deuz_proxy.sinks.families import Bounds, Factory

Labels = tuple[str, ...]

# Seldom full at the same request as the one behind `/metrics`, which has 32.
_MOST_WAITING = 40


def _read_alike(event: RequestFinished) -> tuple[Any, ...]:
    return event.path, event.wire, event.model


class GenAiSink:
    """Counts upstream calls by the conventions' names."""

    def __init__(self, bounds: Bounds, conventions: names.Conventions) -> None:
        self.registry = CollectorRegistry(auto_describe=False)
        self.bounds = bounds
        self._backlog = Backlog(
            _read_alike, self._count_alike, most_waiting=_MOST_WAITING
        )
        self.registry.register(Settled(self._backlog))
        make = Factory(self.registry, bounds)
        is_newest = conventions.has_inference_metrics
        self.metrics = genai.NEWEST if is_newest else genai.OLDER
        self._duration = make.histogram(
            genai.DURATION if is_newest else genai.OLDER_DURATION
        )
        self._count_usages, self._observe_first_chunks = (
            _newest_counts(make) if is_newest else _older_counts(make)
        )

    def __call__(self, event: Event) -> None:
        """Count the upstream calls of a finished request, when somebody looks."""
        if type(event) is RequestFinished and event.model is not None:
            self._backlog.add(event)

    def _count_alike(
        self, fields: tuple[Any, ...], events: list[RequestFinished]
    ) -> None:
        path, wire, model = fields
        operation, provider = names.operation_of(path), names.provider_of(wire)
        if operation is None or provider is None:
            return
        common = (operation, provider, self.bounds.known_model(model))
        by_error: defaultdict[str, list[float]] = defaultdict(list)
        usages = [event.usage for event in events if event.usage is not None]
        for event in events:
            for call in event.upstream_calls:
                by_error[_error_of(event, call)].append(call.duration_seconds)
                if call.usage is not None:
                    usages.append(call.usage)
        for error, amounts in by_error.items():
            self._duration[(*common, error)].observe_all(amounts)
        if usages:
            self._count_usages(common, usages)
        waits = [
            event.first_byte_seconds
            for event in events
            if event.is_streamed and event.first_byte_seconds is not None
        ]
        if waits:
            self._observe_first_chunks(common, waits)


Counts = tuple[
    Callable[[Labels, Sequence[Usage]], None], Callable[[Labels, Sequence[float]], None]
]


def _newest_counts(make: Factory) -> Counts:
    by_part = {
        "input_total": (
            make.counter(genai.USAGE_INPUT),
            make.histogram(genai.INPUT_TOKENS),
        ),
        "output": (
            make.counter(genai.USAGE_OUTPUT),
            make.histogram(genai.OUTPUT_TOKENS),
        ),
        "cache_read": (make.counter(genai.USAGE_READ), None),
        "cache_write": (make.counter(genai.USAGE_WRITE), None),
        "reasoning": (make.counter(genai.USAGE_REASONING), None),
    }
    read_parts, instruments = attrgetter(*by_part), tuple(by_part.values())
    first_chunk = make.histogram(genai.FIRST_CHUNK)

    def count(common: Labels, usages: Sequence[Usage]) -> None:
        columns = zip(*map(read_parts, usages), strict=True)
        for (counter, histogram), column in zip(instruments, columns, strict=True):
            tokens = _reported(column)
            if not tokens:
                continue
            counter[(*common, "unknown")].inc(sum(tokens))
            if histogram is not None:
                histogram[common].observe_all(tokens)

    return count, lambda common, seconds: first_chunk[common].observe_all(seconds)


def _older_counts(make: Factory) -> Counts:
    usage_by_type = make.histogram(genai.OLDER_TOKENS)

    def count(common: Labels, usages: Sequence[Usage]) -> None:
        for kind, tokens in (
            ("input", _reported([usage.input_total for usage in usages])),
            ("output", _reported([usage.output for usage in usages])),
        ):
            if tokens:
                usage_by_type[(*common, kind)].observe_all(tokens)

    return count, lambda _common, _seconds: None


def _reported(counts: Sequence[int | None]) -> list[int]:
    known = [count for count in counts if count is not None]
    return known if min(known, default=0) >= 0 else [max(0, count) for count in known]


def _error_of(event: RequestFinished, call: UpstreamCall) -> str:
    if call.error is not None:
        return call.error
    if call is event.answer:
        return vocabulary.NONE if event.outcome == "ok" else event.outcome
    # What went to nobody, as what was rejected ahead of a second try, failed by itself.
    is_rejected = call.status is not None and call.status >= FIRST_ERROR_STATUS
    return "upstream_error" if is_rejected else vocabulary.NONE
