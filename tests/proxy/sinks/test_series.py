import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry
from prometheus_client.exposition import generate_latest
from prometheus_client.metrics_core import Metric as Samples

from deuz_proxy.sinks.series import Counter, Exemplar, FamilyCollector, Gauge, Histogram

TRACE = Exemplar(2, 100.0)


def shown(series: Counter | Gauge | Histogram, kind: str) -> dict[str, float]:
    family = Samples("m", "help", kind)
    series.show(family, {"a": "b"})
    return {
        s.name + (f" {s.labels['le']}" if "le" in s.labels else ""): s.value
        for s in family.samples
    }


def test_a_counter_only_grows() -> None:
    counter = Counter()

    counter.inc()
    counter.inc(2)
    counter.inc(-5)
    counter.inc(0)

    assert shown(counter, "counter") == {"m_total": 3}


def test_a_gauge_goes_up_and_down() -> None:
    gauge = Gauge()

    gauge.inc()
    gauge.inc()
    gauge.dec()
    assert shown(gauge, "gauge") == {"m": 1}

    gauge.set(7)
    assert shown(gauge, "gauge") == {"m": 7}


def test_a_bound_belongs_to_its_own_bucket() -> None:
    histogram = Histogram((0.5, 1.0))

    for amount in (0.5, 0.6, 1.0, 9.0):
        histogram.observe(amount)

    assert shown(histogram, "histogram") == {
        "m_bucket 0.5": 1,
        "m_bucket 1.0": 3,
        "m_bucket +Inf": 4,
        "m_count": 4,
        "m_sum": pytest.approx(11.1),
    }


amounts = st.sampled_from((0.0, 0.1, 0.5, 0.7, 1.0, 1.5, 2.0, 99.0)) | st.floats(0, 9)


@given(st.lists(st.tuples(amounts, st.none() | st.integers(1, 9)), max_size=30))
def test_many_observations_at_once_are_as_one_by_one(
    observed: list[tuple[float, int | None]],
) -> None:
    one_by_one, at_once = Histogram((0.5, 1.0, 2.0)), Histogram((0.5, 1.0, 2.0))
    traces = [Exemplar(trace, 1.0) if trace else None for _, trace in observed]

    for (amount, _), trace in zip(observed, traces, strict=True):
        one_by_one.observe(amount, trace)
    at_once.observe_all([amount for amount, _ in observed], traces.__getitem__)

    # The last digit of a sum depends on how it is made.
    sums = [value for name, _, value, _ in told(one_by_one) if name == "m_sum"]
    assert [pytest.approx(each) for each in sums] == [
        value for name, _, value, _ in told(at_once) if name == "m_sum"
    ]
    assert [each for each in told(at_once) if each[0] != "m_sum"] == [
        each for each in told(one_by_one) if each[0] != "m_sum"
    ]


Told = tuple[str, dict[str, str], float, object]


def told(histogram: Histogram) -> list[Told]:
    family = Samples("m", "help", "histogram")
    histogram.show(family, {})
    return [(s.name, s.labels, s.value, s.exemplar) for s in family.samples]


def test_observations_without_traces_keep_the_exemplars_of_before() -> None:
    histogram = Histogram((1.0,))
    histogram.observe(0.1, TRACE)
    before = told(histogram)[0]

    histogram.observe_all([0.2])

    assert told(histogram)[0] == (*before[:2], 2, before[3])


def test_exemplars_are_of_the_newest_move_of_their_bucket() -> None:
    counter, histogram = Counter(), Histogram((1.0,))
    counter.inc(1, TRACE)
    histogram.observe(0.1, Exemplar(1, 90.0))
    histogram.observe(0.2, TRACE)
    family = Samples("m", "help", "unknown")

    counter.show(family, {})
    histogram.show(family, {})

    told = [s.exemplar for s in family.samples if s.exemplar is not None]
    shown = {"trace_id": f"{TRACE.trace_id:032x}"}
    assert [(e.labels, e.value, e.timestamp) for e in told] == [
        (shown, 1, TRACE.at),
        (shown, 0.2, TRACE.at),
    ]


def test_a_family_shows_each_of_its_series_once() -> None:
    registry = CollectorRegistry()
    family = FamilyCollector(
        "seen_total",
        text="What was seen.",
        kind="counter",
        labels=("who",),
        make=Counter,
    )
    registry.register(family)

    family.series(("me",)).inc()
    family.series(("me",)).inc()
    family.series(("you",)).inc()

    text = generate_latest(registry).decode()
    assert 'seen_total{who="me"} 2.0' in text
    assert 'seen_total{who="you"} 1.0' in text
    assert text.count("# TYPE seen_total counter") == 1
    assert "_created" not in text
