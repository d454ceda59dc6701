import gc
import subprocess
import sys
from collections.abc import Callable
from functools import partial

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from prometheus_client.openmetrics.parser import text_string_to_metric_families

from deuz_compiler import Usage, Verdict
from deuz_proxy.observe.catalog import METRICS
from deuz_proxy.observe.events import (
    Compaction,
    EventsLost,
    FaultCaught,
    Overflow,
    SourceOutcome,
    WorkerEnded,
    WorkerStarted,
)
from deuz_proxy.sinks.backlog import MOST_WAITING
from deuz_testing.counting import ROUTE, counted, make_sink, value
from deuz_testing.events import (
    TRACE,
    compiled,
    finished,
    ledger_used,
    overflown,
    started,
)

OPENMETRICS = "application/openmetrics-text; version=1.0.0, text/plain;q=0.5"


def test_in_flight_is_what_started_and_did_not_finish() -> None:
    sink = counted(started(), started(), finished(outcome="client_closed"))

    assert value(sink, "deuz_requests_in_flight", **ROUTE) == 1


def test_in_flight_comes_back_to_zero_on_an_unknown_route() -> None:
    sink = counted(started("secret"), finished(route="secret"))

    assert value(sink, "deuz_requests_in_flight", route="other") == 0


def test_what_ended_with_a_worker_is_not_in_flight_and_counts_as_lost() -> None:
    sink = counted(started(), started(), started("secret"))

    sink(EventsLost(3, (("chat", -2), ("secret", -1))))

    assert value(sink, "deuz_requests_in_flight", **ROUTE) == 0
    assert value(sink, "deuz_requests_in_flight", route="other") == 0
    assert value(sink, "deuz_events_lost_total") == 3


def test_workers_that_serve_and_workers_that_failed_are_counted_apart() -> None:
    sink = counted(
        WorkerStarted(0),
        WorkerStarted(1),
        WorkerEnded(0, is_failure=True),
        WorkerEnded(0, is_failure=True, was_serving=False),
        WorkerStarted(0),
        WorkerEnded(1, is_failure=False),
    )

    assert value(sink, "deuz_workers") == 1
    assert value(sink, "deuz_worker_failures_total") == 2


def test_compile_counts_its_records_tokens_and_sources() -> None:
    sink = counted(finished(compile=compiled(fallback="source-failed")))

    why = {"refresh_reason": "initial", "fallback": "source-failed"}
    record = {"source": "docs", "decision": "excluded", "reason": "expired"}
    query = {"source": "docs", "status": "ok"}
    assert value(sink, "deuz_context_compiles_total", **ROUTE, **why) == 1
    assert value(sink, "deuz_context_records_total", **record) == 1
    assert value(sink, "deuz_context_tokens_sum", **ROUTE) == 300
    assert value(sink, "deuz_source_queries_total", **query) == 1
    assert value(sink, "deuz_source_duration_seconds_count", **query) == 1


def test_skipped_source_has_no_duration() -> None:
    skipped = SourceOutcome("docs", "rag", "skipped", 0.0, 0, 0, 0)

    sink = counted(finished(compile=compiled(sources=(skipped,))))

    query = {"source": "docs", "status": "skipped"}
    assert value(sink, "deuz_source_queries_total", **query) == 1
    assert value(sink, "deuz_source_duration_seconds_count", **query) is None


def test_overflow_and_compaction_are_counted() -> None:
    sink = counted(overflown())

    seen = {"stage": "rejected", "outcome": "recovered"}
    layer = {"layer": "prune-tool-results", "trigger": "overflow"}
    removed = "deuz_compaction_removed_tokens_total"
    assert value(sink, "deuz_overflow_total", **ROUTE, **seen) == 1
    assert value(sink, "deuz_compaction_total", **ROUTE, **layer) == 1
    assert value(sink, removed, **ROUTE, **layer) == 3_500


def test_compaction_that_grew_the_request_removes_nothing() -> None:
    grown = Compaction("summarize", "overflow", 100, 150)

    sink = counted(finished(compactions=(grown,)))

    layer = {"layer": "summarize", "trigger": "overflow"}
    removed = "deuz_compaction_removed_tokens_total"
    assert value(sink, removed, **ROUTE, **layer) == 0


def test_evicted_entries_are_counted_one_by_one_and_reads_by_round_trip() -> None:
    sink = counted(ledger_used("read"), ledger_used("evict"))

    name = "deuz_ledger_operations_total"
    assert value(sink, name, op="read", status="ok") == 1
    assert value(sink, name, op="evict", status="ok") == 3
    assert value(sink, "deuz_ledger_bytes", store="memory") == 9_000
    assert value(sink, "deuz_ledger_entries", store="memory") == 40


def test_a_store_that_is_left_alone_shows_by_operation_until_it_answers() -> None:
    gone = ledger_used("read", status="open", is_available=False)
    sink = counted(gone, ledger_used("load"), ledger_used("save", entries=0, bytes=0))

    name = "deuz_ledger_available"
    assert value(sink, name, store="memory", op="read") == 0
    assert value(sink, name, store="memory", op="load") == 1
    sink(ledger_used("read"))
    assert value(sink, name, store="memory", op="read") == 1
    # The tracker's own operations say nothing of the ledger's size.
    assert value(sink, "deuz_ledger_bytes", store="memory") == 9_000


def test_fault_is_counted() -> None:
    sink = counted(FaultCaught("chat", "recall", "store_failed"))

    labels = {"where": "recall", "code": "store_failed"}
    assert value(sink, "deuz_faults_total", **ROUTE, **labels) == 1


def test_ten_thousand_identities_make_no_series() -> None:
    sink = counted(finished())
    text, _ = sink.render(None)

    for number in range(10_000):
        sink(
            finished(
                request_id=f"r-{number}",
                conversation=f"c-{number}",
                model=f"junk-{number}",
                path=f"/v1/files/{number}",
                upstream=f"u-{number}",
            )
        )

    more, _ = sink.render(None)
    # One new value, `other`, in each metric that has the label `model`.
    assert more.count(b"\n") - text.count(b"\n") < 60


junk = st.text(max_size=20)
maybe_count = st.none() | st.integers(-(10**12), 10**12)


@given(
    words=st.tuples(junk, junk, junk, junk, junk),
    counts=st.tuples(maybe_count, maybe_count, maybe_count, maybe_count),
)
def test_no_event_makes_the_sink_raise(
    words: tuple[str, ...], counts: tuple[int | None, ...]
) -> None:
    first, second, third, fourth, fifth = words
    event = finished(
        route=first,
        wire=second,
        outcome=third,
        model=fourth or None,
        passthrough=fifth,
        usage=Usage(counts[0], counts[1], counts[2], counts[3]),
        usage_status=first,
        stages=(second,),
        stage_seconds=(0.1,),
        verdict=Verdict(third, fourth, fifth, None, None, None, counts[0] or 0),
        compile=compiled(refresh_reason=first, fallback=second, tokens=counts[1] or 0),
        overflows=(Overflow(third, fourth, counts[2], counts[3]),),
        estimated_input_tokens=counts[0],
        sidecar_mutations=counts[0] or 0,
    )

    sink = counted(event, FaultCaught(first, second, third))

    assert sink.render(OPENMETRICS)[0].endswith(b"# EOF\n")


def test_every_metric_of_the_catalogue_is_shown_and_no_other() -> None:
    text, _ = make_sink().render(None)

    shown = {line.split()[2] for line in text.decode().splitlines() if "# HELP" in line}
    assert shown == {metric.name for metric in METRICS}


def test_text_format_is_the_default_and_has_no_creation_times() -> None:
    text, content_type = counted(finished()).render(None)

    assert content_type.startswith("text/plain; version=0.0.4")
    assert b"_created" not in text
    assert b"trace_id" not in text


def test_openmetrics_has_exemplars_with_the_trace_of_a_sampled_request() -> None:
    text, content_type = counted(finished()).render(OPENMETRICS)

    parsed = text_string_to_metric_families(text.decode())  # type: ignore[no-untyped-call]  # Its own.
    families = {family.name: family for family in parsed}
    exemplars = [
        sample.exemplar.labels["trace_id"]
        for sample in families["deuz_request_duration_seconds"].samples
        if sample.exemplar
    ]
    assert content_type.startswith("application/openmetrics-text")
    assert exemplars == [f"{TRACE.trace_id:032x}"]


@pytest.mark.parametrize("trace", [None, replace(TRACE, is_sampled=False)])
def test_request_without_a_kept_trace_has_no_exemplar(trace: object) -> None:
    text, _ = counted(finished(trace=trace)).render(OPENMETRICS)

    assert b"trace_id" not in text


@pytest.mark.needs("prometheus")
def test_promtool_accepts_the_exposition() -> None:
    text, _ = counted(
        started(),
        overflown(compile=compiled()),
        finished(verdict=Verdict("broken", "system", "system_time", "client")),
        finished(model='bad"\n\\name', route="x\ny"),
        ledger_used(),
        FaultCaught("chat", "settle", "store_failed"),
    ).render(None)

    result = subprocess.run(
        ["promtool", "check", "metrics"], input=text, capture_output=True, check=False
    )

    assert result.returncode == 0, result.stderr.decode()
    assert not result.stderr


def test_counting_a_request_is_the_same_work_however_many_were_counted() -> None:
    sink, events = make_sink(), [finished()] * MOST_WAITING
    tell_all = partial(counted, *events, by=sink)
    tell_all()

    first = calls_of(tell_all)
    for _ in range(20):
        tell_all()

    assert calls_of(tell_all) == first


def calls_of(work: Callable[[], object]) -> int:
    """Count the calls that the work makes: what it costs, on any machine."""
    count = 0

    def note(_: object, kind: str, __: object) -> None:
        nonlocal count
        count += kind in ("call", "c_call")

    # A collection in between would be counted too: others have hooks in it.
    gc.disable()
    sys.setprofile(note)
    try:
        work()
    finally:
        sys.setprofile(None)
        gc.enable()
    return count
