"""The listener behind the GenAI client metrics that leave over OTLP.

Rules:
- It exists only where an endpoint is configured: nobody else pays for it.
- One generation of names is counted, the one that the setting chose.
- What was not reported is not counted.
"""

from collections.abc import Callable

from prometheus_client import CollectorRegistry

from deuz_compiler import Usage
from deuz_proxy.observe import genai, names, vocabulary
from deuz_proxy.observe.events import Event, RequestFinished, UpstreamCall
from deuz_proxy.sinks.families import Bounds, Factory

Labels = tuple[str, ...]


class GenAiSink:
    """Counts upstream calls by the conventions' names."""

    def __init__(self, bounds: Bounds, conventions: names.Conventions) -> None:
        self.registry = CollectorRegistry(auto_describe=False)
        self.bounds = bounds
        make = Factory(self.registry, bounds)
        is_newest = conventions.has_inference_metrics
        self.metrics = genai.NEWEST if is_newest else genai.OLDER
        self._duration = make.histogram(
            genai.DURATION if is_newest else genai.OLDER_DURATION
        )
        self._count_usage, self._observe_first_chunk = (
            _newest_counts(make) if is_newest else _older_counts(make)
        )

    def __call__(self, event: Event) -> None:
        """Count the upstream calls of a finished request."""
        if not isinstance(event, RequestFinished) or event.model is None:
            return
        operation = names.operation_of(event.path)
        provider = names.provider_of(event.wire)
        if operation is None or provider is None:
            return
        common = (operation, provider, self.bounds.known_model(event.model))
        for call in event.upstream_calls:
            self._duration[(*common, _error_of(event, call))].observe(
                call.duration_seconds
            )
            if call.usage is not None:
                self._count_usage(common, call.usage)
        if event.usage is not None:
            self._count_usage(common, event.usage)
        if event.is_streamed and event.first_byte_seconds is not None:
            self._observe_first_chunk(common, event.first_byte_seconds)


Counts = tuple[Callable[[Labels, Usage], None], Callable[[Labels, float], None]]


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
    first_chunk = make.histogram(genai.FIRST_CHUNK)

    def count(common: Labels, usage: Usage) -> None:
        for part, (counter, histogram) in by_part.items():
            tokens: int | None = getattr(usage, part)
            if tokens is None:
                continue
            counter[(*common, "unknown")].inc(tokens)
            if histogram is not None:
                histogram[common].observe(max(0, tokens))

    return count, lambda common, seconds: first_chunk[common].observe(seconds)


def _older_counts(make: Factory) -> Counts:
    usage_by_type = make.histogram(genai.OLDER_TOKENS)

    def count(common: Labels, usage: Usage) -> None:
        for kind, tokens in (("input", usage.input_total), ("output", usage.output)):
            if tokens is not None:
                usage_by_type[(*common, kind)].observe(max(0, tokens))

    return count, lambda _common, _seconds: None


def _error_of(event: RequestFinished, call: UpstreamCall) -> str:
    if call.error is not None:
        return call.error
    is_last = call is event.upstream_calls[-1]
    return event.outcome if is_last and event.outcome != "ok" else vocabulary.NONE
