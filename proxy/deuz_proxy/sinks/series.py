"""Time series that are cheap to move, shown through prometheus-client.

Rules:
- Moving a series is plain arithmetic: one thread at a time writes it, others read whole
  numbers that may be a moment old.
- What is shown is a `Collector` over them: text, OpenMetrics and exemplars stay the
  library's business. (Its own instruments lock and walk their buckets at each move: a
  tenth of the sidecar's time.)
"""

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator, Sequence
from typing import Generic, NamedTuple, Protocol, TypeVar

from prometheus_client.metrics_core import Metric as Samples
from prometheus_client.registry import Collector
from prometheus_client.samples import Exemplar as Shown
from prometheus_client.utils import floatToGoString


class Exemplar(NamedTuple):
    """The trace behind a move of a series, and when it was: Unix time in seconds."""

    trace_id: int
    at: float


_Kept = tuple[Exemplar, float]
ExemplarAt = Callable[[int], Exemplar | None]


class Counter:
    """A sum that only grows; what is not positive does not move it."""

    __slots__ = ("exemplar", "value")

    def __init__(self) -> None:
        self.value = 0.0
        self.exemplar: _Kept | None = None

    def inc(self, amount: float = 1, exemplar: Exemplar | None = None) -> None:
        """Add to the sum."""
        if amount > 0:
            self.value += amount
            self.illustrate(amount, exemplar)

    def illustrate(self, amount: float, exemplar: Exemplar | None) -> None:
        """Keep the trace behind the newest move, if it has one."""
        if exemplar is not None:
            self.exemplar = (exemplar, amount)

    def show(self, family: Samples, labels: dict[str, str]) -> None:
        """Add the samples of this series to its family."""
        family.add_sample(
            f"{family.name}_total", labels, self.value, None, _shown(self.exemplar)
        )


class Gauge:
    """A value that goes up and down."""

    __slots__ = ("value",)

    def __init__(self) -> None:
        self.value = 0.0

    def inc(self) -> None:
        """Add one."""
        self.value += 1

    def dec(self) -> None:
        """Take one away."""
        self.value -= 1

    def set(self, value: float) -> None:
        """Take the value."""
        self.value = value

    def show(self, family: Samples, labels: dict[str, str]) -> None:
        """Add the sample of this series to its family."""
        family.add_sample(family.name, labels, self.value)


class Histogram:
    """Observations counted by bucket; `bounds` are upper bounds, infinity left out."""

    __slots__ = ("_bounds", "_counts", "_exemplars", "_sum")

    def __init__(self, bounds: Sequence[float]) -> None:
        self._bounds = bounds
        self._counts = [0] * (len(bounds) + 1)
        self._exemplars: dict[int, _Kept] = {}
        self._sum = 0.0

    def observe(self, amount: float, exemplar: Exemplar | None = None) -> None:
        """Count one observation."""
        slot = bisect_left(self._bounds, amount)
        self._counts[slot] += 1
        self._sum += amount
        if exemplar is not None:
            self._exemplars[slot] = (exemplar, amount)

    def observe_all(
        self, amounts: Sequence[float], exemplar_at: ExemplarAt | None = None
    ) -> None:
        """Count observations: one look for each bucket, not one for each of them.

        `exemplar_at` tells the trace behind the one at an index.
        """
        if not amounts:
            return
        in_order, bounds = sorted(amounts), self._bounds
        last = bisect_left(bounds, in_order[-1])
        below, touched = 0, 1
        # Most that come together are near to each other: in a bucket or two.
        for slot in range(bisect_left(bounds, in_order[0]), last):
            upto = bisect_right(in_order, bounds[slot])
            self._counts[slot] += upto - below
            touched += upto > below
            below = upto
        self._counts[last] += len(in_order) - below
        self._sum = sum(amounts, self._sum)
        if exemplar_at is not None:
            self._illustrate(amounts, exemplar_at, touched)

    def _illustrate(
        self, amounts: Sequence[float], exemplar_at: ExemplarAt, touched: int
    ) -> None:
        """Keep the newest trace of each bucket that was touched."""
        kept: set[int] = set()
        for index in range(len(amounts) - 1, -1, -1):
            slot = bisect_left(self._bounds, amounts[index])
            if slot not in kept and (exemplar := exemplar_at(index)) is not None:
                self._exemplars[slot] = (exemplar, amounts[index])
                kept.add(slot)
                if len(kept) == touched:
                    return

    def show(self, family: Samples, labels: dict[str, str]) -> None:
        """Add the samples of this series to its family: buckets, count and sum."""
        counts, total = list(self._counts), 0
        for slot, bound in enumerate((*self._bounds, float("inf"))):
            total += counts[slot]
            written = floatToGoString(bound)  # type: ignore[no-untyped-call]  # Theirs.
            family.add_sample(
                f"{family.name}_bucket",
                {**labels, "le": written},
                total,
                None,
                _shown(self._exemplars.get(slot)),
            )
        family.add_sample(f"{family.name}_count", labels, total)
        family.add_sample(f"{family.name}_sum", labels, self._sum)


class Series(Protocol):
    """One time series of any kind."""

    def show(self, family: Samples, labels: dict[str, str]) -> None:
        """Add the samples of this series to its family."""


Kind = TypeVar("Kind", bound=Series)


class FamilyCollector(Collector, Generic[Kind]):
    """All series of one metric. `kind` is `counter`, `gauge` or `histogram`."""

    def __init__(
        self,
        name: str,
        *,
        text: str,
        kind: str,
        labels: Sequence[str],
        make: Callable[[], Kind],
    ) -> None:
        # Sample names have the suffix, the family has not: the library's convention.
        self._name = name.removesuffix("_total") if kind == "counter" else name
        self._text = text
        self._kind = kind
        self._labels = tuple(labels)
        self._make = make
        self._series: dict[tuple[str, ...], Kind] = {}

    def series(self, values: tuple[str, ...]) -> Kind:
        """Return the series of these label values, made at its first use."""
        found = self._series.get(values)
        if found is None:
            found = self._series[values] = self._make()
        return found

    def collect(self) -> Iterator[Samples]:
        """Show all series as they are now."""
        family = Samples(self._name, self._text, self._kind)
        for values, series in list(self._series.items()):
            series.show(family, dict(zip(self._labels, values, strict=True)))
        yield family


def _shown(kept: _Kept | None) -> Shown | None:
    if kept is None:
        return None
    (trace_id, at), amount = kept
    return Shown({"trace_id": f"{trace_id:032x}"}, amount, at)
