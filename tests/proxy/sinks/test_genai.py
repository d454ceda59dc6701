import pytest

from deuz_compiler import Usage
from deuz_proxy.observe import names
from deuz_proxy.observe.events import Event, Overflow, UpstreamCall
from deuz_proxy.sinks.families import Bounds
from deuz_proxy.sinks.genai import GenAiSink
from deuz_testing.events import STARTED_AT, finished, overflown, started

BOUNDS = Bounds(known_model=lambda name: name if name == "gpt-x" else "other")
COMMON = {
    "gen_ai_operation_name": "chat",
    "gen_ai_provider_name": "openai",
    "model": "gpt-x",
}
USAGE = "gen_ai_client_inference_usage_"


def counted(*events: Event, conventions: names.Conventions = names.NEWEST) -> GenAiSink:
    sink = GenAiSink(BOUNDS, conventions)
    for event in events:
        sink(event)
    return sink


def value(sink: GenAiSink, name: str, **labels: str) -> float | None:
    return sink.registry.get_sample_value(name, {**COMMON, **labels})


def usage(sink: GenAiSink, part: str) -> float | None:
    return value(sink, f"{USAGE}{part}_total", gen_ai_token_modality="unknown")


def test_input_includes_cached_tokens_which_are_also_told_apart() -> None:
    sink = counted(finished(usage=Usage(input_uncached=100, cache_read=900, output=50)))

    assert usage(sink, "input_tokens") == 1_000
    assert usage(sink, "cache_read_input_tokens") == 900
    assert usage(sink, "output_tokens") == 50


def test_absent_usage_is_not_counted() -> None:
    sink = counted(finished(usage=None))

    assert usage(sink, "input_tokens") is None
    assert usage(sink, "output_tokens") is None


def test_negative_usage_does_not_raise() -> None:
    assert usage(counted(finished(usage=Usage(output=-5))), "output_tokens") == 0


def test_each_call_has_a_duration_with_its_error() -> None:
    sink = counted(overflown(), finished(outcome="truncated"))

    name = "gen_ai_client_inference_duration_seconds_count"
    assert value(sink, name, error_type="none") == 2
    assert value(sink, name, error_type="upstream_error") == 1
    assert value(sink, name, error_type="truncated") == 1


def test_first_chunk_is_timed_for_streams_only() -> None:
    sink = counted(finished(), finished(is_streamed=False))

    assert value(sink, "gen_ai_client_inference_time_to_first_chunk_seconds_count") == 1


@pytest.mark.parametrize(
    "event",
    [
        started(),
        finished(model=None),
        finished(path="/v1/models"),
        finished(wire="none"),
    ],
)
def test_what_is_no_inference_is_not_counted(event: Event) -> None:
    sink = counted(event)

    samples = [s for family in sink.registry.collect() for s in family.samples]
    assert samples == []


def test_older_names_are_counted_instead_of_the_newest() -> None:
    sink = counted(finished(), conventions=names.OLDER)

    name = "gen_ai_client_token_usage_sum"
    assert value(sink, name, gen_ai_token_type="input") == 1_000
    assert value(sink, name, gen_ai_token_type="output") == 50
    assert value(
        sink, "gen_ai_client_operation_duration_seconds_count", error_type="none"
    )
    assert usage(sink, "input_tokens") is None


def test_call_that_failed_by_itself_has_its_own_error() -> None:
    call = UpstreamCall(STARTED_AT, 1.0, None, "upstream_broken")

    sink = counted(finished(upstream_calls=(call,), outcome="upstream_error"))

    name = "gen_ai_client_inference_duration_seconds_count"
    assert value(sink, name, error_type="upstream_broken") == 1


@pytest.mark.parametrize(
    ("outcome", "status", "failed"), [("recovered", 200, 1), ("surfaced", 400, 2)]
)
def test_each_call_that_was_rejected_has_failed(
    outcome: str, status: int, failed: int
) -> None:
    seen = (Overflow("rejected", outcome, None, None),)
    calls = (
        UpstreamCall(STARTED_AT, 1.0, 400, None),
        UpstreamCall(STARTED_AT, 1.0, status, None, "retry"),
    )
    ended = "ok" if outcome == "recovered" else "upstream_error"

    sink = counted(finished(overflows=seen, upstream_calls=calls, outcome=ended))

    name = "gen_ai_client_inference_duration_seconds_count"
    assert value(sink, name, error_type="upstream_error") == failed
    assert (value(sink, name, error_type="none") or 0) == 2 - failed


def test_model_names_are_clamped() -> None:
    sink = counted(*(finished(model=f"junk-{number}") for number in range(50)))

    labels = {"model": "other", "gen_ai_token_modality": "unknown"}
    assert value(sink, f"{USAGE}output_tokens_total", **labels) == 2_500
