"""No content and no key leaves by telemetry: canaries in every part of a request."""

import json
import os
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest
from anthropic import Anthropic

from deuz_proxy.demo.provider import FakeProvider
from deuz_testing.otlp import Collector, running_collector
from deuz_testing.provider import provider_in_thread
from deuz_testing.sidecar_process import Sidecar, running_sidecar
from deuz_testing.waiting import WAIT_SECONDS

pytestmark = pytest.mark.e2e

CANARIES = {
    "key": "canary-0-key",
    "system": "canary-1-system",
    "user": "canary-2-user",
    "tool description": "canary-3-description",
    "tool argument": "canary-4-argument",
    "tool result": "canary-5-result",
    "document": "canary-6-document",
    "header": "canary-7-header",
    "query": "canary-8-query",
    "unknown path": "canary-9-path",
    "broken body": "canary-10-broken",
}
CONFIG = """\
upstreams:
  anthropic: {{url: "{provider}", wire: anthropic}}
routes:
  - {{path: /v1/messages, upstream: anthropic, mode: compile}}
context:
  refresh: {{deadline_ms: 30000}}
  sources:
    - {{id: docs, kind: rag, type: files, path: "{docs}", min_score: 0}}
"""
QUIET_SECONDS = 60.0


def talk(url: str) -> None:
    """Send each canary, in what is understood and in what is not."""
    call = {
        "type": "tool_use",
        "id": "toolu_1",
        "name": "look",
        "input": {"at": CANARIES["tool argument"]},
    }
    result = {
        "type": "tool_result",
        "tool_use_id": "toolu_1",
        "content": CANARIES["tool result"],
    }
    messages = [
        {"role": "user", "content": f"opening hours {CANARIES['user']}"},
        {"role": "assistant", "content": [call]},
        {"role": "user", "content": [result]},
    ]
    tool = {
        "name": "look",
        "description": CANARIES["tool description"],
        "input_schema": {"type": "object"},
    }
    with Anthropic(
        api_key=CANARIES["key"],
        base_url=url,
        default_headers={"x-note": CANARIES["header"]},
        default_query={"beta": CANARIES["query"]},
        max_retries=0,
    ) as client:
        for count in (1, 3):
            client.messages.create(
                model="claude-sonnet-5-5",
                max_tokens=100,
                system=CANARIES["system"],
                tools=[tool],  # type: ignore[list-item]  # Plain JSON is what SDKs send.
                messages=messages[:count],  # type: ignore[arg-type]  # As above.
            )
    send_raw(f"{url}/v1/files/{CANARIES['unknown path']}", b"")
    broken = f'{{"messages": ["{CANARIES["broken body"]}'
    send_raw(f"{url}/v1/messages", broken.encode())


def send_raw(url: str, body: bytes) -> None:
    request = urllib.request.Request(url, data=body, method="POST")
    try:
        urllib.request.urlopen(request, timeout=WAIT_SECONDS).close()
    except urllib.error.HTTPError as refused:
        refused.close()


def fetch(url: str, accept: str = "*/*") -> str:
    request = urllib.request.Request(url, headers={"Accept": accept})
    with urllib.request.urlopen(request, timeout=WAIT_SECONDS) as reply:
        text: str = reply.read().decode()
        return text


def read_admin(sidecar: Sidecar) -> dict[str, str]:
    """Return all that the admin address tells."""
    api = f"{sidecar.admin}/api/v1"
    told = {
        "metrics": fetch(f"{sidecar.admin}/metrics"),
        "openmetrics": fetch(
            f"{sidecar.admin}/metrics", "application/openmetrics-text; version=1.0.0"
        ),
        "requests": fetch(f"{api}/requests?limit=100"),
        "conversations": fetch(f"{api}/conversations"),
        "config": fetch(f"{api}/config"),
    }
    for request in json.loads(told["requests"])["requests"]:
        told[f"request {request['id']}"] = fetch(f"{api}/requests/{request['id']}")
    return told


def wait_for_spans(collector: Collector, name: str) -> None:
    deadline = time.monotonic() + QUIET_SECONDS
    while name not in {span.name for span in collector.spans()}:
        assert time.monotonic() < deadline, f"no span {name} arrived"
        time.sleep(0.1)


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    folder = tmp_path_factory.mktemp("secrecy")
    (folder / "docs").mkdir()
    text = f"# Opening hours\n\nThe opening hours are {CANARIES['document']}.\n"
    (folder / "docs" / "hours.md").write_text(text)
    with (
        provider_in_thread(FakeProvider()) as provider,
        running_collector() as collector,
    ):
        environ = {
            **os.environ,
            "OTEL_EXPORTER_OTLP_ENDPOINT": collector.endpoint,
            "OTEL_BSP_SCHEDULE_DELAY": "200",
            "OTEL_METRIC_EXPORT_INTERVAL": "500",
        }
        config = CONFIG.format(
            provider=f"http://127.0.0.1:{provider.port}", docs=folder / "docs"
        )
        with running_sidecar(folder, config, environ) as sidecar:
            talk(sidecar.url)
            everything = read_admin(sidecar)
            wait_for_spans(collector, "deuz.context.compile")
        bodies = b"".join(request.body for request in provider.requests)
        everything["output"] = sidecar.log.read_text()
        everything["spans"] = "".join(str(request) for request in collector.traces)
        everything["otlp metrics"] = "".join(str(r) for r in collector.metrics)
        everything["(sent to the provider)"] = bodies.decode()
        yield everything


def test_the_canaries_were_there_to_be_told(told: dict[str, str]) -> None:
    sent = told["(sent to the provider)"]
    inside = {"system", "user", "tool argument", "tool result", "document"}

    assert {what for what in inside if CANARIES[what] in sent} == inside
    assert "deuz.context.compile" in told["spans"]
    assert "deuz_requests_total" in told["metrics"]
    assert told["otlp metrics"]


@pytest.mark.parametrize("what", sorted(CANARIES))
def test_telemetry_admin_address_and_output_hold_no_canary(
    what: str, told: dict[str, str]
) -> None:
    leaks = [
        where
        for where, text in told.items()
        if CANARIES[what] in text and not where.startswith("(")
    ]

    assert leaks == []


def test_no_file_beside_the_log_was_written_by_the_sidecar(
    told: dict[str, str], tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder: Path = next(tmp_path_factory.getbasetemp().glob("secrecy*"))

    assert told
    assert sorted(path.name for path in folder.iterdir()) == [
        "deuz.yaml",
        "docs",
        "sidecar.log",
    ]
