from prometheus_client import CollectorRegistry

from deuz_compiler import Usage
from deuz_proxy.observe.events import Prediction, RequestFinished, UpstreamCall
from deuz_proxy.sinks.families import Bounds, Factory
from deuz_proxy.sinks.groups import Groups
from deuz_testing.events import finished

LABELS = {"route": "chat"}


def counted(*events: RequestFinished) -> CollectorRegistry:
    registry = CollectorRegistry()
    groups = Groups(Factory(registry, Bounds(routes=frozenset({"chat"}))))
    for event in events:
        groups.count(event)
    return registry


def value(registry: CollectorRegistry, name: str, **labels: str) -> float | None:
    return registry.get_sample_value(name, LABELS | labels)


def test_requests_count_in_their_group_by_outcome() -> None:
    registry = counted(
        finished(group="treated"),
        finished(group="held_out"),
        finished(group="held_out", outcome="upstream_error"),
    )

    name = "deuz_holdout_requests_total"
    assert value(registry, name, group="treated", outcome="ok") == 1
    assert value(registry, name, group="held_out", outcome="ok") == 1
    assert value(registry, name, group="held_out", outcome="upstream_error") == 1


def test_tokens_count_by_type_with_what_a_summary_used() -> None:
    usage = Usage(input_uncached=7, output=3)
    summary = UpstreamCall(1.0, 1.0, 200, None, purpose="summarize", usage=usage)

    registry = counted(finished(group="treated", upstream_calls=(summary,)))

    name = "deuz_holdout_tokens_total"
    for kind, tokens in (("input_uncached", 107), ("cache_read", 900), ("output", 53)):
        assert value(registry, name, group="treated", type=kind) == tokens


def test_what_was_not_reported_is_no_series() -> None:
    registry = counted(finished(group="held_out", usage=Usage(output=1)))

    name = "deuz_holdout_tokens_total"
    assert value(registry, name, group="held_out", type="output") == 1
    assert value(registry, name, group="held_out", type="cache_read") is None


def test_without_a_group_nothing_is_counted() -> None:
    assert next(iter(counted(finished()).collect())).samples == []


def test_an_unknown_group_is_other() -> None:
    registry = counted(finished(group="made up"))

    name = "deuz_holdout_requests_total"
    assert value(registry, name, group="other", outcome="ok") == 1


def test_what_was_predicted_of_a_try_counts_with_and_without_a_group() -> None:
    kept = Prediction("kept", "extended", None, 240, 3_330, 3_000)
    unknown = Prediction("broken_by_client", "broken", "system_time", 10, 99, None)

    registry = counted(
        finished(prediction=kept),
        finished(prediction=kept, group="held_out"),
        finished(prediction=unknown),
        finished(),
    )

    requests, tokens = "deuz_shadow_requests_total", "deuz_shadow_tokens_total"
    assert value(registry, requests, prefix="kept") == 2
    assert value(registry, requests, prefix="broken_by_client") == 1
    assert value(registry, requests, prefix="broken_by_sidecar") is None
    assert value(registry, tokens, type="added") == 490
    assert value(registry, tokens, type="cache_read") == 6_000
