"""What a board says, apart from how Grafana wants it written.

Rules:
- A row is a question; every panel's `answers` says which part of it the panel answers.
- Queries use only metrics of `deuz_proxy.observe.catalog`, no recording rules: the
  board works with a bare Prometheus.
- Filters are `$route` and `$model`; a metric without such a label is not filtered.
"""

from dataclasses import dataclass
from typing import Literal

ROUTE = 'route=~"$route"'
ROUTE_MODEL = 'route=~"$route", model=~"$model"'

Kind = Literal["lines", "areas", "number", "bars"]
"""Lines over time, stacked areas over time, one number, bars of totals."""


@dataclass(frozen=True, slots=True)
class Query:
    """One PromQL expression and the legend of its series."""

    expr: str
    legend: str = ""


@dataclass(frozen=True, slots=True)
class Panel:
    """One panel; `bad_from` colours a number red from that value on."""

    title: str
    answers: str
    queries: tuple[Query, ...]
    kind: Kind = "lines"
    unit: str = "short"
    width: int = 8
    bad_from: float | None = None


@dataclass(frozen=True, slots=True)
class Row:
    """A question, and the panels that answer it."""

    question: str
    panels: tuple[Panel, ...]


def rate_by(labels: str, metric: str, matchers: str) -> str:
    """Return the rate per second of a counter, summed by labels."""
    return f"sum by ({labels}) (rate({metric}{{{matchers}}}[$__rate_interval]))"


def total_by(labels: str, metric: str, matchers: str) -> str:
    """Return what a counter counted in the shown time, summed by labels."""
    return _sum_up(f"sum by ({labels})", f"{metric}{{{matchers}}}")


def total(metric: str, matchers: str) -> str:
    """Return what a counter counted in the shown time."""
    return _sum_up("sum", f"{metric}{{{matchers}}}")


def _sum_up(operator: str, series: str) -> str:
    # increase() leaves out the value with which a series begins: the first break of a
    # cause would show as 0. What began within the shown time is added.
    increase = f"increase({series}[$__range])"
    begun = f"(min_over_time({series}[$__range]) unless {series} offset $__range)"
    return f"{operator} ({increase}) + {operator} ({begun} or {increase} * 0)"


def quantiles(labels: str, metric: str, matchers: str) -> tuple[Query, ...]:
    """Return the median and the 99th percentile of a histogram, by labels."""
    by = f"le, {labels}" if labels else "le"
    buckets = f"sum by ({by}) (rate({metric}_bucket{{{matchers}}}[$__rate_interval]))"
    legend = f"{{{{{labels}}}}} " if labels else ""
    return tuple(
        Query(f"histogram_quantile({quantile}, {buckets})", f"{legend}{name}")
        for quantile, name in (("0.5", "p50"), ("0.99", "p99"))
    )
