from opentelemetry.sdk.metrics.export import (
    AggregationTemporality,
    Gauge,
    Histogram,
    Metric,
    Sum,
)
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.util.instrumentation import InstrumentationScope

from deuz_proxy.observe import catalog, names
from deuz_proxy.sinks.families import Bounds
from deuz_proxy.sinks.otlp_metrics import Snapshot
from deuz_proxy.sinks.prometheus import PrometheusSink
from deuz_testing.events import finished, ledger_used

DELTA = AggregationTemporality.DELTA


def taken(snapshot: Snapshot, now_ns: int) -> dict[str, Metric]:
    (resource,) = snapshot.take(now_ns).resource_metrics
    return {metric.name: metric for metric in resource.scope_metrics[0].metrics}


def pictures(is_delta: bool) -> list[dict[str, Metric]]:
    """Two requests, a picture, one request, a picture, and one of nothing new."""
    sink = PrometheusSink(Bounds(frozenset({"chat"})))
    snapshot = Snapshot(
        ((sink.registry, catalog.METRICS),),
        Resource({}),
        InstrumentationScope(names.SCOPE),
        started_ns=1,
        is_delta=is_delta,
    )
    sink(finished(duration_seconds=0.3))
    sink(finished(duration_seconds=0.3))
    sink(ledger_used())
    first = taken(snapshot, 10)
    sink(finished(duration_seconds=7.0))
    return [first, taken(snapshot, 20), taken(snapshot, 30)]


def test_sum_tells_what_was_added_since_the_last_picture() -> None:
    data = [picture["deuz.requests"].data for picture in pictures(True)]

    points = [item.data_points[0] for item in data if isinstance(item, Sum)]
    assert [point.value for point in points] == [2, 1, 0]
    assert [point.start_time_unix_nano for point in points] == [1, 10, 20]
    assert {item.aggregation_temporality for item in data if isinstance(item, Sum)} == {
        DELTA
    }


def test_histogram_tells_what_was_added_in_each_bucket() -> None:
    data = pictures(True)[1]["deuz.request.duration"].data

    assert isinstance(data, Histogram)
    assert data.aggregation_temporality is DELTA
    (point,) = data.data_points
    assert (point.count, point.sum) == (1, 7.0)
    assert sum(point.bucket_counts) == 1
    assert point.bucket_counts[list(point.explicit_bounds).index(10.0)] == 1


def test_gauge_stays_as_it_is() -> None:
    for picture in pictures(True):
        data = picture["deuz.ledger.entries"].data
        assert isinstance(data, Gauge)
        assert data.data_points[0].value == 40


def test_cumulative_pictures_only_grow() -> None:
    data = [picture["deuz.requests"].data for picture in pictures(False)]

    points = [item.data_points[0] for item in data if isinstance(item, Sum)]
    assert [point.value for point in points] == [2, 3, 3]
    assert [point.start_time_unix_nano for point in points] == [1, 1, 1]
