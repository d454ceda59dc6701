"""No text of memory leaves by telemetry, a log, an error or a forgotten file."""

import json
import os
import urllib.error
import urllib.request
from collections.abc import Iterator
from typing import Any

import pytest
from anthropic import Anthropic
from tests.repo.test_secrecy import read_admin, wait_for_spans

from deuz_proxy.demo.provider import FakeProvider
from deuz_testing.otlp import running_collector
from deuz_testing.provider import provider_in_thread
from deuz_testing.sidecar_process import Sidecar, running_sidecar
from deuz_testing.waiting import WAIT_SECONDS

pytestmark = pytest.mark.e2e

RECORD, NOTE, REFUSED = "canary1record", "canary2note", "canary3refused"
AGENT, OTHER = "canary4agent", "canary5other"
CONFIG = """\
upstreams:
  anthropic: {{url: "{provider}", wire: anthropic}}
routes:
  - {{path: /v1/messages, upstream: anthropic, mode: compile}}
context:
  refresh: {{deadline_ms: 30000}}
  sources: [{{id: memory, type: store, min_score: 0}}]
ledger: {{url: "sqlite:///{folder}/ledger.db"}}
memory: {{url: "sqlite:///{folder}/memory.db"}}
# A model that binds its thinking gets no working memory.
models: {{claude-sonnet-5-5: {{context_window: 200000, binds_thinking: false}}}}
"""


def call(sidecar: Sidecar, method: str, path: str, body: Any = None) -> Any:
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(sidecar.admin + path, data=data, method=method)
    try:
        with urllib.request.urlopen(request, timeout=WAIT_SECONDS) as reply:
            return json.load(reply)
    except urllib.error.HTTPError as refused:
        with refused:
            return json.load(refused)


def remember(sidecar: Sidecar) -> str:
    """Write each canary; return what was answered to the one that is refused."""
    memory = "/api/v1/memory"
    text = {"text": f"The opening hours are {RECORD}."}
    call(sidecar, "PUT", f"{memory}/default/hours", text)
    other = {"text": f"The opening hours are {OTHER}."}
    call(sidecar, "PUT", f"{memory}/default%2Fben/hours", other)
    patch = {
        "operation_id": "1",
        "expected_revision": 0,
        "writer": "host",
        "operations": [{"op": "set-goal", "text": NOTE}],
    }
    call(sidecar, "PATCH", "/api/v1/working-memory/task", patch)
    tool = {"name": "remember", "arguments": {"text": f"{AGENT} hours", "id": "agent"}}
    message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": tool}
    call(sidecar, "POST", "/mcp", message)
    bad = {"text": f"{REFUSED}\x00", "origin": 7, REFUSED[:3]: REFUSED}
    refused = call(sidecar, "PUT", f"{memory}/default/bad", bad)
    return json.dumps(refused)


def ask(sidecar: Sidecar, turns: int) -> None:
    messages = [{"role": "user", "content": "what are the opening hours?"}]
    for number in range(turns):
        messages.append({"role": "assistant", "content": "See above."})
        messages.append({"role": "user", "content": f"and {number}?"})
    with Anthropic(
        api_key="k",
        base_url=sidecar.url,
        max_retries=0,
        default_headers={"x-deuz-working-memory": "task"},
    ) as client:
        client.messages.create(
            model="claude-sonnet-5-5",
            max_tokens=100,
            messages=messages,  # type: ignore[arg-type]  # Plain JSON is what SDKs send.
        )


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Any]]:
    folder = tmp_path_factory.mktemp("memory")
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
        url = f"http://127.0.0.1:{provider.port}"
        config = CONFIG.format(provider=url, folder=folder)
        with running_sidecar(folder, config, environ) as sidecar:
            refused = remember(sidecar)
            ask(sidecar, 0)
            ask(sidecar, 1)
            ids = {"scope": "default", "ids": ["hours", "agent"]}
            forgotten = call(sidecar, "POST", "/api/v1/forget", ids)
            files = b"".join(path.read_bytes() for path in folder.glob("*.db*"))
            before = len(provider.requests)
            ask(sidecar, 2)
            everything = read_admin(sidecar) | {"refusal": refused}
            wait_for_spans(collector, "deuz.context.compile")
        everything["output"] = sidecar.log.read_text()
        everything["spans"] = "".join(str(request) for request in collector.traces)
        everything["otlp metrics"] = "".join(str(r) for r in collector.metrics)
        bodies = [request.body.decode() for request in provider.requests]
        yield {
            "told": everything,
            "sent": bodies[:before],
            "sent after": bodies[before:],
            "forgotten": forgotten,
            "files": files,
        }


def test_the_records_were_really_placed(told: dict[str, Any]) -> None:
    sent = "".join(told["sent"])

    assert RECORD in sent
    assert AGENT in sent
    assert NOTE in sent


def test_another_scopes_record_was_not(told: dict[str, Any]) -> None:
    assert OTHER not in "".join(told["sent"] + told["sent after"])


@pytest.mark.parametrize("canary", [RECORD, NOTE, REFUSED, AGENT, OTHER])
def test_nothing_is_told_of_a_text(told: dict[str, Any], canary: str) -> None:
    leaks = [place for place, text in told["told"].items() if canary in text]

    assert leaks == []


def test_what_is_forgotten_is_in_no_file_and_in_no_later_request(
    told: dict[str, Any],
) -> None:
    assert told["forgotten"]["forgotten"] == 2
    assert told["forgotten"]["placements_redacted"] >= 1
    assert RECORD not in "".join(told["sent after"])
    assert AGENT not in "".join(told["sent after"])
    assert RECORD.encode() not in told["files"]
    assert AGENT.encode() not in told["files"]
    assert OTHER.encode() in told["files"]


def test_the_break_is_ours_and_meant(told: dict[str, Any]) -> None:
    newest = json.loads(told["told"]["requests"])["requests"][0]

    assert newest["verdict"]["cause"] == "record_forgotten"
    assert newest["verdict"]["owner"] == "sidecar"
    counted = [
        line.rpartition(" ")[2]
        for line in told["told"]["metrics"].splitlines()
        if line.startswith("deuz_prefix_sidecar_mutations_total{")
    ]
    assert {float(value) for value in counted} <= {0.0}


def test_records_and_working_memory_are_shown_where_they_stand(
    told: dict[str, Any],
) -> None:
    requests = json.loads(told["told"]["requests"])["requests"]
    placements = requests[-1]["placements"]

    assert {(p["state"], p["turn"]) for p in placements} == {("placed", 0), ("tail", 0)}
    named = sorted(record for p in placements for record in p["records"])
    assert named == ["memory/agent", "memory/hours", "working-memory/goal"]
    assert all(p["tokens"] > 0 for p in placements)
