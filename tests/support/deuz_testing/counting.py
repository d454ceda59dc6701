"""A Prometheus sink for tests, what it counted, and the value of one series."""

from deuz_proxy.observe.events import Event
from deuz_proxy.sinks.families import Bounds
from deuz_proxy.sinks.prometheus import PrometheusSink

ROUTE = {"route": "chat"}
MODEL = {"route": "chat", "model": "gpt-x"}


def make_sink() -> PrometheusSink:
    return PrometheusSink(
        Bounds(
            routes=frozenset({"chat"}),
            sources=frozenset({"docs"}),
            known_model=lambda name: name if name == "gpt-x" else "other",
        )
    )


def counted(*events: Event, by: PrometheusSink | None = None) -> PrometheusSink:
    sink = by or make_sink()
    for event in events:
        sink(event)
    return sink


def value(sink: PrometheusSink, name: str, **labels: str) -> float | None:
    return sink.registry.get_sample_value(name, labels)
