from itertools import product

import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families

from deuz_compiler import Usage, Verdict
from deuz_proxy.observe.events import RequestFinished
from deuz_proxy.sinks.alike import Alike, read_alike
from deuz_proxy.sinks.prometheus import PrometheusSink
from deuz_testing.counting import MODEL, ROUTE, counted, make_sink, value
from deuz_testing.events import finished, overflown

OPEN_METRICS = "application/openmetrics-text"


def samples_of(sink: PrometheusSink) -> dict[str, float]:
    text = sink.render(OPEN_METRICS)[0].decode()
    return {
        f"{sample.name}{sorted(sample.labels.items())}{sample.exemplar}": sample.value
        for family in text_string_to_metric_families(text)  # type: ignore[no-untyped-call]
        for sample in family.samples
    }


def tokens(sink: PrometheusSink, kind: str) -> float | None:
    return value(sink, "deuz_tokens_total", **MODEL, type=kind)


@pytest.mark.parametrize("event", [finished(), overflown()])
def test_what_is_alike_is_read_in_the_order_of_its_names(
    event: RequestFinished,
) -> None:
    alike = Alike(*read_alike(event))

    assert alike._asdict() == {name: getattr(event, name) for name in Alike._fields}


def test_requests_alike_are_counted_as_each_by_itself() -> None:
    missed = Verdict("extended", "turn", "provider_miss", "provider", lost_tokens=9)
    broken = Verdict("broken", "tools", "tool_added", "client", lost_tokens=-4)
    usages = Usage(5, 7, None, 2), Usage(None, None, 3, None), Usage(-1, 2, 4, 6), None
    events = [
        finished(
            request_id=str(number),
            verdict=verdict,
            usage=usage,
            sidecar_mutations=number % 3,
            estimated_input_tokens=number % 4 or None,
        )
        for number, (verdict, usage) in enumerate(
            product((missed, broken, None, Verdict("first")), usages)
        )
    ]
    at_once, one_by_one = counted(*events), make_sink()
    for event in events:
        one_by_one(event)
        one_by_one.render(None)

    # The last digit of a sum depends on how it is made.
    assert samples_of(at_once) == pytest.approx(samples_of(one_by_one))


def test_finished_request_is_counted_once_with_its_status_and_outcome() -> None:
    sink = counted(finished(status=502, outcome="upstream_error"))

    labels = {"wire": "openai_chat", "status": "502", "outcome": "upstream_error"}
    assert value(sink, "deuz_requests_total", **ROUTE, **labels) == 1


def test_token_types_are_disjoint() -> None:
    # Turn 1 writes, turn 2 reads, turn 3 reads a little and writes a lot.
    turns = [(0, 50_000), (50_000, 0), (5_000, 45_000)]

    sink = counted(
        *(
            finished(usage=Usage(input_uncached=10, cache_read=r, cache_write=w))
            for r, w in turns
        )
    )

    assert tokens(sink, "input_uncached") == 30
    assert tokens(sink, "cache_read") == 55_000
    assert tokens(sink, "cache_write") == 95_000


def test_absent_usage_is_told_and_leaves_the_counters_alone() -> None:
    sink = counted(finished(usage=None, usage_status="absent"))

    assert tokens(sink, "output") is None
    assert value(sink, "deuz_usage_reports_total", **ROUTE, status="absent") == 1
    assert value(sink, "deuz_usage_reports_total", **ROUTE, status="reported") == 0


def test_count_that_was_not_reported_makes_no_series() -> None:
    sink = counted(finished(usage=Usage(input_uncached=7)))

    assert tokens(sink, "input_uncached") == 7
    assert tokens(sink, "cache_read") is None


def test_negative_count_is_left_out() -> None:
    sink = counted(
        finished(
            usage=Usage(input_uncached=-50, output=5, is_anomalous=True),
            usage_status="anomalous",
        )
    )

    assert tokens(sink, "input_uncached") == 0
    assert tokens(sink, "output") == 5


def test_summary_s_tokens_are_counted_with_its_own_model() -> None:
    sink = counted(overflown())

    labels = {"route": "chat", "model": "other", "type": "output"}
    assert value(sink, "deuz_tokens_total", **labels) == 70
    assert tokens(sink, "output") == 50


def test_break_is_counted_by_segment_cause_and_owner() -> None:
    verdict = Verdict("broken", "tools", "tool_added", "client", lost_tokens=4_000)

    sink = counted(finished(verdict=verdict))

    labels = {"segment": "tools", "cause": "tool_added", "owner": "client"}
    assert value(sink, "deuz_prefix_breaks_total", **ROUTE, **labels) == 1
    assert value(sink, "deuz_prefix_lost_tokens_total", **ROUTE, **labels) == 4_000
    assert value(sink, "deuz_prefix_requests_total", **MODEL, verdict="broken") == 1


def test_intact_prefix_that_was_not_read_is_a_loss_with_an_owner() -> None:
    verdict = Verdict(
        "extended",
        "turn",
        "ttl_expired",
        "ttl",
        lost_tokens=900,
        expected_tokens=1_000,
        missed_tokens=900,
    )

    sink = counted(finished(verdict=verdict))

    labels = {"segment": "turn", "cause": "ttl_expired", "owner": "ttl"}
    assert value(sink, "deuz_prefix_lost_tokens_total", **ROUTE, **labels) == 900
    assert value(sink, "deuz_cache_expected_tokens_total", **MODEL) == 1_000
    assert value(sink, "deuz_cache_missed_tokens_total", **MODEL) == 900


def test_extended_prefix_is_no_break() -> None:
    sink = counted(finished())

    text, _ = sink.render(None)
    assert b"deuz_prefix_breaks_total{" not in text


def test_mutation_counter_exists_before_it_counts() -> None:
    name = "deuz_prefix_sidecar_mutations_total"

    assert value(make_sink(), name, **ROUTE) == 0
    assert value(counted(finished(sidecar_mutations=2)), name, **ROUTE) == 2


def test_overhead_is_told_by_stage_and_in_total() -> None:
    sink = counted(finished(stages=("admit", "compile"), stage_seconds=(0.25, 0.5)))

    name = "deuz_overhead_seconds_sum"
    assert value(sink, name, **ROUTE, stage="compile") == 0.5
    assert value(sink, name, **ROUTE, stage="total") == 0.75


def test_measured_total_goes_before_the_sum_of_the_stages() -> None:
    sink = counted(finished(stages=("admit", "total"), stage_seconds=(0.25, 0.5)))

    assert value(sink, "deuz_overhead_seconds_sum", **ROUTE, stage="total") == 0.5


def test_estimate_ratio_is_actual_by_estimated() -> None:
    sink = counted(finished(estimated_input_tokens=500))

    assert value(sink, "deuz_estimate_ratio_sum", model="gpt-x") == 2.0


@pytest.mark.parametrize(
    "changes",
    [
        {"estimated_input_tokens": 0},
        {"estimated_input_tokens": None},
        {"usage": Usage(output=1)},
        {"usage_status": "anomalous"},
    ],
)
def test_estimate_is_not_judged_without_both_counts(changes: dict[str, object]) -> None:
    sink = counted(finished(**changes))

    assert value(sink, "deuz_estimate_ratio_count", model="gpt-x") is None


def test_passthrough_is_counted_with_its_reason() -> None:
    sink = counted(finished(passthrough="not_json"))

    assert value(sink, "deuz_passthrough_total", **ROUTE, reason="not_json") == 1
    assert value(sink, "deuz_passthrough_total", **ROUTE, reason="fault") == 0
