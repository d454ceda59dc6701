import pytest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import (
    ExportMetricsServiceRequest,
)
from opentelemetry.proto.metrics.v1.metrics_pb2 import (
    AggregationTemporality,
    Metric,
)

from deuz_proxy.observe import catalog, names
from deuz_proxy.sinks.families import Bounds
from deuz_proxy.sinks.genai import GenAiSink
from deuz_proxy.sinks.otlp_bytes import Envelope
from deuz_proxy.sinks.otlp_metrics import Snapshot
from deuz_proxy.sinks.prometheus import PrometheusSink
from deuz_testing.events import finished, ledger_used
from deuz_testing.otlp import read_attributes

BOUNDS = Bounds(frozenset({"chat"}), frozenset({"docs"}))
ENVELOPE = Envelope({"service.name": "x"}, names.SCOPE, "1.2")


def taken(snapshot: Snapshot, now_ns: int) -> dict[str, Metric]:
    request = ExportMetricsServiceRequest.FromString(snapshot.take(now_ns))
    (scope,) = request.resource_metrics[0].scope_metrics
    assert len({metric.name for metric in scope.metrics}) == len(scope.metrics)
    return {metric.name: metric for metric in scope.metrics}


def exported() -> dict[str, Metric]:
    sink, genai = PrometheusSink(BOUNDS), GenAiSink(BOUNDS, names.NEWEST)
    for listener in (sink, genai):
        listener(
            finished(duration_seconds=0.3, stages=("admit",), stage_seconds=(0.1,))
        )
        listener(
            finished(duration_seconds=7.0, stages=("admit",), stage_seconds=(0.1,))
        )
        listener(
            finished(duration_seconds=9_000.0, stages=("admit",), stage_seconds=(0.1,))
        )
        listener(ledger_used())
    registered = (sink.registry, catalog.METRICS), (genai.registry, genai.metrics)
    return taken(Snapshot(registered, ENVELOPE, started_ns=5), 9)


def pictures(*, is_delta: bool) -> list[dict[str, Metric]]:
    """Two requests, a picture, one request, a picture, and one of nothing new."""
    sink = PrometheusSink(BOUNDS)
    registered = ((sink.registry, catalog.METRICS),)
    snapshot = Snapshot(registered, ENVELOPE, started_ns=1, is_delta=is_delta)
    sink(finished(duration_seconds=0.3))
    sink(finished(duration_seconds=0.3))
    sink(ledger_used())
    first = taken(snapshot, 10)
    sink(finished(duration_seconds=7.0))
    return [first, taken(snapshot, 20), taken(snapshot, 30)]


def test_counter_is_a_cumulative_sum_with_the_same_labels() -> None:
    metric = exported()["deuz.requests"]

    assert metric.description == catalog.REQUESTS.help
    assert metric.sum.is_monotonic
    assert metric.sum.aggregation_temporality == (
        AggregationTemporality.AGGREGATION_TEMPORALITY_CUMULATIVE
    )
    (point,) = metric.sum.data_points
    assert point.as_double == 3
    assert read_attributes(point.attributes) == {
        "route": "chat",
        "wire": "openai_chat",
        "status": "200",
        "outcome": "ok",
    }
    assert (point.start_time_unix_nano, point.time_unix_nano) == (5, 9)


def test_gauge_stays_a_gauge_without_a_beginning() -> None:
    metric = exported()["deuz.ledger.bytes"]

    assert metric.WhichOneof("data") == "gauge"
    assert metric.unit == "By"
    point = metric.gauge.data_points[-1]
    assert point.as_int == 9_000
    assert (point.start_time_unix_nano, point.time_unix_nano) == (0, 9)


def test_gauge_may_be_below_0() -> None:
    (point,) = exported()["deuz.requests.in_flight"].gauge.data_points

    assert point.as_double == -3


def test_histogram_has_one_count_for_each_bucket_and_one_above() -> None:
    metric = exported()["deuz.request.duration"]

    (point,) = metric.histogram.data_points
    assert point.count == sum(point.bucket_counts) == 3
    assert tuple(point.explicit_bounds) == catalog.DURATION_BUCKETS
    assert len(point.bucket_counts) == len(point.explicit_bounds) + 1
    assert point.bucket_counts[-1] == 1
    assert point.bucket_counts[catalog.DURATION_BUCKETS.index(0.5)] == 1
    assert point.sum == 9_007.3
    # Not measured, which is not 0.
    assert not point.HasField("min")


def test_series_of_one_histogram_are_kept_apart() -> None:
    points = exported()["deuz.overhead"].histogram.data_points

    stages = [read_attributes(point.attributes)["stage"] for point in points]
    assert stages == ["admit", "total"]
    assert [point.count for point in points] == [3, 3]


def test_gen_ai_metrics_have_the_conventions_attributes() -> None:
    points = exported()["gen_ai.client.inference.duration"].histogram.data_points

    # No error: the attribute is left off.
    assert read_attributes(points[0].attributes) == {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": "openai",
        "gen_ai.request.model": "gpt-x",
    }


def test_only_names_of_the_catalogue_leave() -> None:
    known = {metric.otlp for metric in catalog.METRICS}

    names_exported = exported()

    assert {n for n in names_exported if not n.startswith("gen_ai.client.")} <= known
    assert not [name for name in names_exported if name.endswith("_created")]


def test_deltas_are_told_where_they_are_asked() -> None:
    sums = [picture["deuz.requests"].sum for picture in pictures(is_delta=True)]
    counts = pictures(is_delta=True)[1]["deuz.request.duration"].histogram

    delta: int = AggregationTemporality.AGGREGATION_TEMPORALITY_DELTA
    assert [item.data_points[0].as_double for item in sums] == [2, 1, 0]
    assert [item.data_points[0].start_time_unix_nano for item in sums] == [1, 10, 20]
    assert {item.aggregation_temporality for item in sums} == {delta}
    assert counts.aggregation_temporality == delta
    (point,) = counts.data_points
    assert (point.count, point.sum) == (1, 7.0)
    assert point.bucket_counts[catalog.DURATION_BUCKETS.index(10.0)] == 1


@pytest.mark.parametrize("is_delta", [False, True])
def test_gauge_is_no_difference(*, is_delta: bool) -> None:
    gauges = [p["deuz.ledger.entries"].gauge for p in pictures(is_delta=is_delta)]

    assert [gauge.data_points[0].as_int for gauge in gauges] == [40, 40, 40]


def test_cumulative_pictures_only_grow() -> None:
    sums = [picture["deuz.requests"].sum for picture in pictures(is_delta=False)]

    assert [item.data_points[0].as_double for item in sums] == [2, 3, 3]
    assert [item.data_points[0].start_time_unix_nano for item in sums] == [1, 1, 1]
