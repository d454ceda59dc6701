from typing import Any

from msgspec.structs import replace

from deuz_compiler import Usage, Verdict
from deuz_proxy.observe.events import (
    EventsLost,
    FaultCaught,
    Placement,
    SourceOutcome,
    WorkerEnded,
    WorkerStarted,
)
from deuz_proxy.sinks import tally as tally_module
from deuz_proxy.sinks.tally import Tally, Total
from deuz_testing.feed_events import agent_session, broken, compiled, finished, started

PLACEMENT = Placement(4, ("a", "b"), 300, is_new=True)


def described(*events: Any) -> dict[str, Any]:
    tally = Tally("c1")
    for event in events:
        tally.add(event)
    return tally.describe()


def test_breaks_are_counted_by_cause_and_owner_with_the_tokens_lost() -> None:
    summary = described(
        finished(verdict=broken(lost_tokens=100)),
        finished(verdict=broken(lost_tokens=20)),
        finished(verdict=broken(cause="tool_added", lost_tokens=3)),
    )

    assert summary["breaks"] == [
        {"cause": "system_time", "owner": "client", "count": 2, "lost_tokens": 120},
        {"cause": "tool_added", "owner": "client", "count": 1, "lost_tokens": 3},
    ]
    assert summary["lost_tokens"] == 123


def test_intact_prefix_that_expired_is_a_loss_too() -> None:
    expired = Verdict("extended", cause="ttl_expired", owner="ttl", lost_tokens=70)

    summary = described(finished(verdict=expired))

    assert summary["lost_tokens"] == 70
    assert summary["breaks"][0]["owner"] == "ttl"


def test_break_without_a_known_cause_is_counted_as_unknown() -> None:
    summary = described(finished(verdict=Verdict("broken", lost_tokens=5)))

    assert summary["breaks"] == [
        {"cause": "unknown", "owner": "unknown", "count": 1, "lost_tokens": 5}
    ]


def test_request_without_loss_adds_no_break() -> None:
    assert described(finished(verdict=Verdict("extended")))["breaks"] == []


def test_side_call_leaves_model_verdict_and_surface_as_they_were() -> None:
    summary = described(
        finished(verdict=Verdict("extended"), placements=(PLACEMENT,), model="big"),
        finished(verdict=Verdict("side_call"), model="small", at=99.0),
    )

    assert (summary["model"], summary["verdict"]["verdict"]) == ("big", "extended")
    assert [placement["records"] for placement in summary["placements"]] == [("a", "b")]
    assert (summary["requests"], summary["side_calls"]) == (2, 1)
    assert summary["last_at"] == 99.0


def test_surface_is_what_the_newest_request_had() -> None:
    summary = described(
        finished(placements=(PLACEMENT,)), finished("r2", placements=())
    )

    assert summary["placements"] == ()


def test_block_that_was_only_tried_or_not_accepted_is_not_on_the_surface() -> None:
    tried = replace(PLACEMENT, state="shadow")
    dropped = replace(PLACEMENT, turn=6, state="dropped")

    summary = described(finished(placements=(tried, dropped, PLACEMENT)))

    assert [placement["state"] for placement in summary["placements"]] == ["placed"]


def test_tokens_are_summed_over_what_was_reported() -> None:
    summary = described(
        finished(usage=Usage(input_uncached=5, cache_read=10, cache_write=1, output=2)),
        finished(usage=None),
        finished(usage=Usage(cache_read=100)),
    )

    assert summary["tokens"] == {
        "input": 116,
        "cached": 110,
        "written": 1,
        "output": 2,
    }


def test_total_counts_the_whole_session() -> None:
    total = Total()
    for event in agent_session():
        total.add(event)

    summary = total.describe()

    assert (summary["requests"], summary["breaks"]) == (8, 3)
    assert summary["lost_tokens"] == 1_800 + 6_120 + 6_200


def test_faults_are_counted_by_route_place_and_code() -> None:
    total = Total()
    for code in ("late", "late", "failed"):
        total.add(FaultCaught("/v1/messages", "recall", code))

    assert total.describe()["faults"] == [
        {"route": "/v1/messages", "where": "recall", "code": "late", "count": 2},
        {"route": "/v1/messages", "where": "recall", "code": "failed", "count": 1},
    ]


def test_kinds_of_faults_are_bounded_and_known_kinds_go_on_counting() -> None:
    total = Total()
    for number in range(tally_module.FAULTS_KEPT + 5):
        total.add(FaultCaught("/", "recall", f"code_{number}"))
    total.add(FaultCaught("/", "recall", "code_0"))

    assert len(total.faults) == tally_module.FAULTS_KEPT
    assert total.faults["/", "recall", "code_0"] == 2


def test_what_was_lost_with_a_worker_is_no_more_in_flight() -> None:
    total = Total()
    for number in range(5):
        total.add(started(f"r{number}"))
    total.add(finished())

    total.add(EventsLost(3, (("/a", -2), ("/b", -1))))

    described = total.describe()
    assert described["in_flight"] == 1
    assert described["workers"] == {
        "serving": 0,
        "failures": 0,
        "events_lost": 3,
        "each": [],
    }


def test_workers_are_counted_while_they_serve_and_when_they_end_unasked() -> None:
    total = Total()
    for event in (
        WorkerStarted(0),
        WorkerStarted(1),
        WorkerEnded(0, is_failure=True),
        WorkerEnded(0, is_failure=True, was_serving=False),
    ):
        total.add(event)

    told = {"serving": 1, "failures": 2, "events_lost": 0, "each": [{"worker": 0}]}
    assert total.describe([{"worker": 0}])["workers"] == told


def test_prefix_changes_caused_by_the_sidecar_are_summed() -> None:
    total = Total()
    total.add(finished(sidecar_mutations=2))

    assert total.describe()["sidecar_mutations"] == 2


def asked(*answers: tuple[str, str | None]) -> Any:
    total = Total()
    for status, error in answers:
        outcome = SourceOutcome("kb", "rag", status, 0.1, 0, 0, 0, error)
        total.add(finished(compile=compiled(sources=(outcome,))))
    return total.describe()["sources"]


def test_a_source_is_told_by_its_last_answer_and_its_failures_in_a_row() -> None:
    failed = [("ok", None), ("failed", "status"), ("late", None)]

    assert asked(*failed) == [
        {"id": "kb", "status": "late", "error": None, "failures": 2}
    ]
    assert asked(*failed, ("skipped", "resting"))[0]["failures"] == 2
    assert asked(*failed, ("empty", None))[0]["failures"] == 0


def test_sources_that_are_not_asked_any_more_make_room() -> None:
    total = Total()
    for number in range(tally_module.SOURCES_KEPT + 3):
        outcome = SourceOutcome(f"s{number:03}", "rag", "ok", 0.1, 0, 0, 0)
        total.add(finished(compile=compiled(sources=(outcome,))))

    shown: Any = total.describe()["sources"]

    assert len(shown) == tally_module.SOURCES_KEPT
    assert shown[0]["id"] == "s003"


def test_groups_of_the_holdout_are_summed_apart() -> None:
    total = Total()
    usage = Usage(input_uncached=10, cache_read=90, output=5)
    for group, outcome in (("treated", "ok"), ("held_out", "truncated"), (None, "ok")):
        total.add(started())
        total.add(finished(usage=usage, group=group, outcome=outcome))

    groups: Any = total.describe()["groups"]

    assert sorted(groups) == ["held_out", "treated"]
    assert (groups["treated"]["requests"], groups["treated"]["errors"]) == (1, 0)
    assert (groups["held_out"]["requests"], groups["held_out"]["errors"]) == (1, 1)
    tokens = {"input": 100, "cached": 90, "written": 0, "output": 5}
    assert groups["treated"]["tokens"] == tokens
