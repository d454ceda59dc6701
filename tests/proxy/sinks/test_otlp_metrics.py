from opentelemetry.sdk.metrics.export import Gauge, Histogram, Metric, Sum
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.util.instrumentation import InstrumentationScope

from deuz_proxy.observe import catalog, names
from deuz_proxy.sinks.families import Bounds
from deuz_proxy.sinks.genai import GenAiSink
from deuz_proxy.sinks.otlp_metrics import Snapshot
from deuz_proxy.sinks.prometheus import PrometheusSink
from deuz_testing.events import finished, ledger_used

BOUNDS = Bounds(frozenset({"chat"}), frozenset({"docs"}))


def exported() -> dict[str, Metric]:
    sink, genai = PrometheusSink(BOUNDS), GenAiSink(BOUNDS, names.NEWEST)
    for listener in (sink, genai):
        listener(finished(duration_seconds=0.3, stages=(("admit", 0.1),)))
        listener(finished(duration_seconds=7.0, stages=(("admit", 0.1),)))
        listener(finished(duration_seconds=9_000.0, stages=(("admit", 0.1),)))
        listener(ledger_used())
    snapshot = Snapshot(
        ((sink.registry, catalog.METRICS), (genai.registry, genai.metrics)),
        Resource({}),
        InstrumentationScope(names.SCOPE),
        started_ns=5,
    )
    scopes = snapshot.take(9).resource_metrics[0].scope_metrics
    return {metric.name: metric for metric in scopes[0].metrics}


def test_counter_is_a_cumulative_sum_with_the_same_labels() -> None:
    metric = exported()["deuz.requests"]

    assert isinstance(metric.data, Sum)
    assert metric.data.is_monotonic
    (point,) = metric.data.data_points
    assert point.value == 3
    assert point.attributes == {
        "route": "chat",
        "wire": "openai_chat",
        "status": "200",
        "outcome": "ok",
    }
    assert (point.start_time_unix_nano, point.time_unix_nano) == (5, 9)


def test_gauge_stays_a_gauge() -> None:
    metric = exported()["deuz.ledger.bytes"]

    assert isinstance(metric.data, Gauge)
    assert metric.unit == "By"
    assert [point.value for point in metric.data.data_points][-1] == 9_000


def test_histogram_has_one_count_for_each_bucket_and_one_above() -> None:
    metric = exported()["deuz.request.duration"]

    assert isinstance(metric.data, Histogram)
    (point,) = metric.data.data_points
    assert point.count == sum(point.bucket_counts) == 3
    assert len(point.bucket_counts) == len(point.explicit_bounds) + 1
    assert point.bucket_counts[-1] == 1
    assert point.bucket_counts[list(point.explicit_bounds).index(0.5)] == 1
    assert point.sum == 9_007.3


def test_series_of_one_histogram_are_kept_apart() -> None:
    metric = exported()["deuz.overhead"]

    assert isinstance(metric.data, Histogram)
    stages = [(point.attributes or {})["stage"] for point in metric.data.data_points]
    assert stages == ["admit", "total"]
    assert [point.count for point in metric.data.data_points] == [3, 3]


def test_gen_ai_metrics_have_the_conventions_attributes() -> None:
    metric = exported()["gen_ai.client.inference.duration"]

    assert isinstance(metric.data, Histogram)
    # No error: the attribute is left off.
    assert metric.data.data_points[0].attributes == {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": "openai",
        "gen_ai.request.model": "gpt-x",
    }


def test_only_names_of_the_catalogue_leave() -> None:
    known = {metric.otlp for metric in catalog.METRICS}

    names_exported = exported()

    assert {n for n in names_exported if not n.startswith("gen_ai.client.")} <= known
    assert not [name for name in names_exported if name.endswith("_created")]
