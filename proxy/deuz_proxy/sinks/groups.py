"""The holdout's two groups side by side, and what was only tried: requests, tokens.

Rules:
- A request without a group counts in neither.
- What a summary of ours used is a cost of the treatment, and counts with it.
"""

from deuz_compiler import Usage
from deuz_proxy.observe import catalog
from deuz_proxy.observe.events import Prediction, RequestFinished
from deuz_proxy.sinks.families import Factory


class Groups:
    """What became of requests that were treated, and of those held out."""

    def __init__(self, make: Factory) -> None:
        self._requests = make.counter(catalog.HOLDOUT_REQUESTS)
        self._tokens = make.counter(catalog.HOLDOUT_TOKENS)
        self._tried = make.counter(catalog.SHADOW_REQUESTS)
        self._tried_tokens = make.counter(catalog.SHADOW_TOKENS)

    def count(self, event: RequestFinished) -> None:
        """Count one request in its group, and what was predicted, if there is such."""
        if event.prediction is not None:
            self._count_tried(event.route, event.prediction)
        if event.group is None:
            return
        self._requests[event.route, event.group, event.outcome].inc()
        for usage in (event.usage, *[call.usage for call in event.upstream_calls]):
            if usage is not None:
                self._count_usage(event.route, event.group, usage)

    def _count_tried(self, route: str, prediction: Prediction) -> None:
        self._tried[route, prediction.prefix].inc()
        self._tried_tokens[route, "added"].inc(prediction.added_tokens)
        if prediction.cache_read_tokens is not None:
            read = prediction.cache_read_tokens
            self._tried_tokens[route, "cache_read"].inc(read)

    def _count_usage(self, route: str, group: str, usage: Usage) -> None:
        counts = (
            ("input_uncached", usage.input_uncached),
            ("cache_read", usage.cache_read),
            ("cache_write", usage.cache_write),
            ("output", usage.output),
        )
        for kind, count in counts:
            if count is not None:
                self._tokens[route, group, kind].inc(count)
