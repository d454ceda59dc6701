import itertools

import pytest

from deuz_proxy.observe import catalog, genai
from deuz_proxy.observe.catalog import METRICS, Metric

ALL = (*METRICS, *genai.NEWEST, *genai.OLDER)
BY_CONFIGURATION = {"route", "source", "model", "status"}
SUFFIXES = {"s": "_seconds", "By": "_bytes"}


def prometheus_name(metric: Metric) -> str:
    """Return the name that a collector makes of the OTLP name."""
    name = metric.otlp.replace(".", "_")
    suffix = SUFFIXES.get(metric.unit, "")
    if not name.endswith(suffix):
        name += suffix
    return f"{name}_total" if metric.kind == "counter" else name


@pytest.mark.parametrize("metric", ALL, ids=lambda metric: metric.name)
def test_otlp_name_turns_into_the_prometheus_name(metric: Metric) -> None:
    assert prometheus_name(metric) == metric.name


@pytest.mark.parametrize("metric", ALL, ids=lambda metric: metric.name)
def test_metric_explains_itself(metric: Metric) -> None:
    assert metric.help.endswith(".")
    assert len(metric.help) > 20


@pytest.mark.parametrize("metric", ALL, ids=lambda metric: metric.name)
def test_label_is_a_closed_set_or_bounded_by_the_configuration(metric: Metric) -> None:
    for label in metric.labels:
        assert label.words or label.name in BY_CONFIGURATION


@pytest.mark.parametrize("metric", ALL, ids=lambda metric: metric.name)
def test_only_histograms_have_buckets_and_they_rise(metric: Metric) -> None:
    assert bool(metric.buckets) == (metric.kind == "histogram")
    assert all(lower < upper for lower, upper in itertools.pairwise(metric.buckets))


def test_names_are_unique() -> None:
    assert len({metric.name for metric in ALL}) == len(ALL)
    assert len({metric.otlp for metric in ALL}) == len(ALL)


@pytest.mark.parametrize("seconds", [0.05, 8.0, 45.0, 200.0, 899.0])
@pytest.mark.parametrize("metric", [catalog.DURATION, catalog.FIRST_BYTE])
def test_no_answer_within_a_quarter_of_an_hour_falls_into_the_last_bucket(
    metric: Metric, seconds: float
) -> None:
    assert seconds <= metric.buckets[-1]
    assert any(seconds > bound for bound in metric.buckets)


def test_overhead_is_told_from_fifty_microseconds() -> None:
    assert catalog.OVERHEAD.buckets[0] == 0.000_05


@pytest.mark.parametrize("metric", ALL, ids=lambda metric: metric.name)
def test_bounds_suit_the_unit(metric: Metric) -> None:
    if metric.unit == "s":
        assert metric.buckets[0] < 0.1
        assert metric.buckets[-1] < 10_000
    elif metric.kind == "histogram" and "ratio" not in metric.name:
        assert metric.buckets[0] >= 1
        assert metric.buckets[-1] > 60_000
