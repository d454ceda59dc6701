"""Prometheus instruments built from the catalogue, with bounded and cheap labels.

Rules:
- A label's value is clamped before a series exists: traffic cannot add one.
- Series that were used once are found by one look into a dict.
- Nothing is created at import; every sink has a registry of its own.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from prometheus_client import CollectorRegistry

from deuz_proxy.observe.catalog import Label, Metric
from deuz_proxy.observe.vocabulary import OTHER
from deuz_proxy.sinks.series import Counter, FamilyCollector, Gauge, Histogram, Series

Child = TypeVar("Child", bound=Series)
Clamp = Callable[[str], str]

_STATUS_CODES = frozenset(str(code) for code in range(100, 600))


def _same(name: str) -> str:
    return name


@dataclass(slots=True)
class Bounds:
    """The names that the configuration allows; its owner replaces them on a reload.

    `known_model` returns a known model's name, or `other`.
    """

    routes: frozenset[str] = frozenset()
    sources: frozenset[str] = frozenset()
    known_model: Clamp = field(default=_same)

    def clamp(self, label: Label) -> Clamp:
        """Return what turns any value into one that the label may take."""
        if label.words is not None:
            return _clamp_to(frozenset(label.words))
        # Late look-ups: the sets may be replaced after this.
        named: dict[str, Clamp] = {
            "route": lambda value: value if value in self.routes else OTHER,
            "source": lambda value: value if value in self.sources else OTHER,
            "model": self._clamp_model,
            "status": _clamp_to(_STATUS_CODES),
        }
        return named[label.name]

    def _clamp_model(self, value: str) -> str:
        return self.known_model(value)


class Family(dict[tuple[str, ...], Child], Generic[Child]):
    """One metric; `family[values]` is its series for these label values.

    A dict, since nearly each look finds what is there: that takes no call of ours.
    """

    __slots__ = ("_clamps", "_parent")

    def __init__(
        self, parent: FamilyCollector[Child], clamps: tuple[Clamp, ...]
    ) -> None:
        super().__init__()
        self._parent = parent
        self._clamps = clamps

    def __missing__(self, values: tuple[str, ...]) -> Child:
        """Return the series, created at its first use."""
        # Only clamped values are remembered: unknown ones would fill the memory.
        clamped = tuple(
            clamp(value) for clamp, value in zip(self._clamps, values, strict=True)
        )
        found = self.get(clamped)
        if found is None:
            found = self[clamped] = self._parent.series(clamped)
        return found


@dataclass(frozen=True, slots=True)
class Factory:
    """Makes families in one registry under one set of bounds."""

    registry: CollectorRegistry
    bounds: Bounds

    def counter(self, metric: Metric) -> Family[Counter]:
        """Return the counter that the catalogue describes."""
        return self._family(metric, "counter", Counter)

    def gauge(self, metric: Metric) -> Family[Gauge]:
        """Return the gauge that the catalogue describes."""
        return self._family(metric, "gauge", Gauge)

    def histogram(self, metric: Metric) -> Family[Histogram]:
        """Return the histogram that the catalogue describes."""
        bounds = tuple(metric.buckets)
        return self._family(metric, "histogram", lambda: Histogram(bounds))

    def _family(
        self, metric: Metric, kind: str, make: Callable[[], Child]
    ) -> Family[Child]:
        parent = FamilyCollector(
            metric.name,
            text=metric.help,
            kind=kind,
            labels=_label_names(metric),
            make=make,
        )
        self.registry.register(parent)
        return Family(parent, self._clamps(metric))

    def _clamps(self, metric: Metric) -> tuple[Clamp, ...]:
        return tuple(self.bounds.clamp(label) for label in metric.labels)


def _label_names(metric: Metric) -> tuple[str, ...]:
    return tuple(label.name for label in metric.labels)


def _clamp_to(words: frozenset[str]) -> Clamp:
    return lambda value: value if value in words else OTHER
