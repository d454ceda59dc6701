"""The collector's config, by our own rules: no collector can be run here."""

from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
import yaml

# Of the core distribution, as far as we use or might use them.
CORE = {
    "receivers": {"otlp", "prometheus"},
    "processors": {"memory_limiter", "batch", "attributes", "filter"},
    "exporters": {"otlp", "otlphttp", "debug", "prometheus", "file"},
}


@pytest.fixture(scope="module")
def collector(deploy: Path) -> dict[str, Any]:
    loaded: dict[str, Any] = yaml.safe_load(
        (deploy / "otel-collector.yaml").read_text()
    )
    return loaded


def pipelines(collector: dict[str, Any]) -> dict[str, dict[str, list[str]]]:
    found: dict[str, dict[str, list[str]]] = collector["service"]["pipelines"]
    return found


def test_both_signals_that_the_sidecar_sends_have_a_pipeline(
    collector: dict[str, Any],
) -> None:
    assert set(pipelines(collector)) == {"traces", "metrics"}


@pytest.mark.parametrize("kind", sorted(CORE))
def test_every_component_is_known_declared_and_used(
    kind: str, collector: dict[str, Any]
) -> None:
    declared = set(collector[kind])
    used = {name for pipe in pipelines(collector).values() for name in pipe[kind]}

    assert declared == used
    assert {name.partition("/")[0] for name in declared} <= CORE[kind]


def test_memory_is_guarded_before_anything_is_gathered(
    collector: dict[str, Any],
) -> None:
    for pipe in pipelines(collector).values():
        assert pipe["processors"][0] == "memory_limiter"


def test_receiver_listens_where_the_sidecar_is_told_to_send(
    deploy: Path, collector: dict[str, Any]
) -> None:
    text = (deploy / "otel-collector.yaml").read_text()
    hint = next(line for line in text.splitlines() if "telemetry:" in line)
    endpoint = yaml.safe_load(hint.lstrip("# "))["telemetry"]["otlp"]["endpoint"]

    protocols = collector["receivers"]["otlp"]["protocols"]

    assert urlsplit(endpoint).netloc == protocols["http"]["endpoint"]
    assert protocols["grpc"]["endpoint"].endswith(":4317")
