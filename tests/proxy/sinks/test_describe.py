from typing import Any

from deuz_compiler import Usage
from deuz_proxy.sinks.describe import describe_in_full, describe_request
from deuz_testing.feed_events import agent_session, compiled, finished

SUMMARY_FIELDS = {
    "at",
    "compactions",
    "compile",
    "conversation",
    "error",
    "estimated_input_tokens",
    "id",
    "is_streamed",
    "method",
    "mode",
    "group",
    "model",
    "outcome",
    "overflows",
    "passthrough",
    "path",
    "placements",
    "prediction",
    "route",
    "segments",
    "sidecar_mutations",
    "status",
    "timings",
    "upstream",
    "usage",
    "usage_status",
    "verdict",
    "wire",
}

FULL_FIELDS = SUMMARY_FIELDS | {
    "finish_reason",
    "max_output_tokens",
    "request_bytes",
    "response_bytes",
    "response_id",
    "response_model",
    "server_address",
    "server_port",
    "trace",
    "upstream_calls",
}


def test_only_listed_fields_are_told() -> None:
    event = agent_session()[1]

    assert set(describe_request(event)) == SUMMARY_FIELDS
    assert set(describe_in_full(event)) == FULL_FIELDS


def test_key_in_the_query_of_a_path_is_not_told() -> None:
    event = finished(path="/v1beta/models/gemini-3:generateContent?key=CANARY")

    assert "CANARY" not in str(describe_in_full(event))


def test_model_name_is_cut_and_made_valid_text() -> None:
    described = describe_request(finished(model="\ud800" + "x" * 9_000))

    model: Any = described["model"]
    assert model.startswith("?x")
    assert len(model) == 256


def test_error_that_reads_like_prose_is_not_told() -> None:
    assert describe_request(finished(error="my secret prompt"))["error"] == "_OTHER"


def test_absent_usage_stays_absent() -> None:
    assert describe_request(finished(usage=None))["usage"] is None


def test_input_total_is_the_sum_of_what_was_reported() -> None:
    usage: Any = describe_request(finished(usage=Usage(input_uncached=7)))["usage"]

    assert (usage["input_total"], usage["cache_read"]) == (7, None)


def test_trace_id_is_written_as_trace_viewers_write_it() -> None:
    trace: Any = describe_in_full(agent_session()[1])["trace"]

    assert trace == {"trace_id": "0" * 29 + "abc", "is_sampled": True}


def test_timings_carry_stages_by_name() -> None:
    timings: Any = describe_request(finished(stages=("admit",), stage_seconds=(0.5,)))[
        "timings"
    ]

    assert timings["stages"] == {"admit": 0.5}


def test_summary_keeps_a_compile_but_not_its_lines() -> None:
    summary: Any = describe_request(finished(compile=compiled()))["compile"]

    assert (summary["selected"], len(summary["sources"])) == (2, 2)
    assert not summary["records"]
