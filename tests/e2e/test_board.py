"""The board on a real Prometheus that scrapes a real sidecar under real SDK traffic."""

import contextlib
import json
import math
import re
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from anthropic import Anthropic
from openai import OpenAI

from deuz_proxy.demo.provider import FakeProvider
from deuz_testing.ports import free_port
from deuz_testing.provider import provider_in_thread
from deuz_testing.sidecar_process import running_process, running_sidecar
from deuz_testing.waiting import WAIT_SECONDS

pytestmark = [pytest.mark.e2e, pytest.mark.needs("prometheus")]

ROOT = Path(__file__).resolve().parents[2]
BOARD = json.loads((ROOT / "dashboards/grafana/deuz-sidecar.json").read_text())
PANELS = [panel for panel in BOARD["panels"] if panel["type"] != "row"]
RULES = ROOT / "dashboards/rules/deuz-sidecar.rules.yaml"

START_SECONDS = 60.0
DATA_SECONDS = 30.0
# What Grafana fills in; the windows fit a scrape each second.
VARIABLES = {
    "$__rate_interval": "20s",
    "$__range": "5m",
    "$route": ".*",
    "$model": ".*",
}
WINDOW_TOKENS = 6_000

SIDECAR = """\
upstreams:
  anthropic: {{url: "{provider}", wire: anthropic}}
  openai: {{url: "{provider}", wire: openai}}
routes:
  - {{path: /v1/messages, upstream: anthropic, mode: compile}}
  - {{path: /v1/chat/completions, upstream: openai, mode: shadow}}
context:
  refresh: {{deadline_ms: 30000}}
  holdout: 0.001  # Nobody, as it comes out; but the sides are counted.
  sources:
    - {{id: docs, kind: rag, type: files, path: "{docs}", min_score: 0}}
models:
  claude-sonnet-5-5: {{context_window: {window}, max_output_tokens: 500}}
"""
PROMETHEUS = """\
global: {{scrape_interval: 1s, evaluation_interval: 1s}}
rule_files: ["{rules}"]
scrape_configs:
  - job_name: deuz
    static_configs: [{{targets: ["{target}"]}}]
"""
SYSTEM = "You keep a shop's opening hours. " * 40
TOOL: Any = {
    "name": "read_page",
    "description": "Reads one page of the handbook.",
    "input_schema": {
        "type": "object",
        "properties": {"page": {"type": "integer"}},
        "required": ["page"],
    },
}


@dataclass(frozen=True, slots=True)
class Stack:
    """What runs: where the sidecar listens, and Prometheus' API."""

    sidecar: str
    prometheus: str


def fetch(url: str) -> Any:
    with urllib.request.urlopen(url, timeout=WAIT_SECONDS) as reply:
        return json.loads(reply.read())


def ask(prometheus: str, query: str) -> list[dict[str, Any]]:
    path = urllib.parse.urlencode({"query": query})
    answer = fetch(f"{prometheus}/api/v1/query?{path}")
    found: list[dict[str, Any]] = answer["data"]["result"]
    return found


def fill_in(expr: str) -> str:
    for name, value in VARIABLES.items():
        expr = expr.replace(name, value)
    return expr


def has_numbers(result: list[dict[str, Any]]) -> bool:
    return any(not math.isnan(float(series["value"][1])) for series in result)


def wait_for_prometheus(url: str) -> None:
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline:
        with contextlib.suppress(urllib.error.URLError, OSError):
            urllib.request.urlopen(f"{url}/-/ready", timeout=1).close()
            return
        time.sleep(0.1)
    raise AssertionError("Prometheus is not ready")


def write_documents(folder: Path) -> None:
    folder.mkdir()
    for day in ("Monday", "Tuesday", "Saturday"):
        text = f"# Opening hours on {day}\n\nThe shop opens at nine on {day}.\n"
        (folder / f"{day.lower()}.md").write_text(text)


def talk_to_claude(client: Anthropic, name: str) -> None:
    """Hold a conversation with tools that breaks its prefix once and overflows once."""
    messages: list[Any] = [
        {"role": "user", "content": f"{name} asks: when does the shop open on Monday?"}
    ]

    def send(system: str = SYSTEM) -> None:
        marked: Any = [
            {"type": "text", "text": system, "cache_control": {"type": "ephemeral"}}
        ]
        with client.messages.stream(
            model="claude-sonnet-5-5",
            max_tokens=200,
            system=marked,
            tools=[TOOL],
            messages=messages,
        ) as stream:
            answer = stream.get_final_message()
        messages.append({"role": "assistant", "content": answer.content[0].text})  # type: ignore[union-attr]

    send()
    for turn in range(6):
        call: Any = {
            "type": "tool_use",
            "id": f"toolu_{turn}",
            "name": "read_page",
            "input": {"page": turn},
        }
        result: Any = {
            "type": "tool_result",
            "tool_use_id": call["id"],
            "content": f"Page {turn}. " + "Opening hours of shops. " * 180,
        }
        messages[-1] = {"role": "assistant", "content": [call]}
        messages.append({"role": "user", "content": [result]})
        send(system=SYSTEM if turn != 2 else f"It is 1{turn}:30. {SYSTEM}")
        messages.append(
            {"role": "user", "content": f"{name}: and on Saturday, question {turn}?"}
        )
        send()


def talk_to_gpt(client: OpenAI, name: str) -> None:
    messages: list[Any] = [{"role": "system", "content": SYSTEM}]
    for turn in range(3):
        messages.append({"role": "user", "content": f"{name}, question {turn}?"})
        answer = client.chat.completions.create(model="gpt-5", messages=messages)
        text = answer.choices[0].message.content
        messages.append({"role": "assistant", "content": text})
    client.models.list()


def play(url: str, name: str) -> None:
    with Anthropic(api_key="test", base_url=url, max_retries=0) as claude:
        talk_to_claude(claude, name)
    with OpenAI(api_key="test", base_url=f"{url}/v1", max_retries=0) as gpt:
        talk_to_gpt(gpt, name)


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    folder = tmp_path_factory.mktemp("board")
    write_documents(folder / "docs")
    provider = FakeProvider(
        window_tokens=WINDOW_TOKENS, minimum_cached_tokens=64, cache_step_tokens=16
    )
    with contextlib.ExitStack() as opened:
        opened.enter_context(provider_in_thread(provider))
        config = SIDECAR.format(
            provider=f"http://127.0.0.1:{provider.port}",
            docs=folder / "docs",
            window=WINDOW_TOKENS,
        )
        sidecar = opened.enter_context(running_sidecar(folder, config))
        prometheus = start_prometheus(opened, folder, sidecar.admin)
        # The first round brings the series into being, the second one moves them.
        play(sidecar.url, "Ada")
        wait_for_scrapes(prometheus, 2)
        play(sidecar.url, "Grace")
        wait_for_scrapes(prometheus, 2)
        yield Stack(sidecar.url, prometheus)


def start_prometheus(opened: contextlib.ExitStack, folder: Path, admin: str) -> str:
    config = folder / "prometheus.yaml"
    target = admin.removeprefix("http://")
    config.write_text(PROMETHEUS.format(rules=RULES, target=target))
    address = f"127.0.0.1:{free_port()}"
    command = [
        "prometheus",
        f"--config.file={config}",
        f"--storage.tsdb.path={folder / 'tsdb'}",
        f"--web.listen-address={address}",
        "--log.level=warn",
    ]
    opened.enter_context(running_process(command, folder / "prometheus.log"))
    wait_for_prometheus(f"http://{address}")
    return f"http://{address}"


def wait_for_scrapes(prometheus: str, count: int) -> None:
    """Wait until Prometheus has scraped the sidecar so many times more."""
    query = 'count_over_time(up{job="deuz"}[10m])'

    def scraped() -> float:
        found = ask(prometheus, query)
        return float(found[0]["value"][1]) if found else 0.0

    goal, deadline = scraped() + count, time.monotonic() + START_SECONDS
    while scraped() < goal:
        assert time.monotonic() < deadline, "Prometheus does not scrape the sidecar"
        time.sleep(0.2)


@pytest.mark.parametrize("panel", PANELS, ids=lambda panel: panel["title"])
def test_every_query_of_the_panel_returns_data(
    panel: dict[str, Any], stack: Stack
) -> None:
    queries = [fill_in(target["expr"]) for target in panel["targets"]]

    empty = [
        query for query in queries if not has_numbers(ask(stack.prometheus, query))
    ]

    assert empty == []


def test_every_variable_offers_values(stack: Stack) -> None:
    queries = [
        item["query"] for item in BOARD["templating"]["list"] if item["type"] == "query"
    ]

    offered = {}
    for query in queries:
        metric, label = re.fullmatch(r"label_values\((\w+), (\w+)\)", query).groups()  # type: ignore[union-attr]
        match = urllib.parse.urlencode({"match[]": metric})
        url = f"{stack.prometheus}/api/v1/label/{label}/values?{match}"
        offered[label] = fetch(url)["data"]

    assert set(offered) == {"route", "model"}
    assert all(offered.values())
    assert "claude-sonnet-5-5" in offered["model"]


def test_no_prefix_was_changed_by_the_sidecar(stack: Stack) -> None:
    found = ask(stack.prometheus, "sum(deuz_prefix_sidecar_mutations_total)")

    assert [series["value"][1] for series in found] == ["0"]


def test_the_break_that_the_client_caused_is_told_with_its_owner(stack: Stack) -> None:
    query = 'sum by (segment, cause) (deuz_prefix_breaks_total{owner="client"})'

    told = [series["metric"] for series in ask(stack.prometheus, query)]

    assert {"segment": "system", "cause": "system_time"} in told


def test_prometheus_evaluates_every_rule_and_only_expected_alerts_fire(
    stack: Stack,
) -> None:
    groups = fetch(f"{stack.prometheus}/api/v1/rules")["data"]["groups"]
    rules = [rule for group in groups for rule in group["rules"]]

    firing = {rule["name"] for rule in rules if rule.get("state") == "firing"}

    assert len(rules) == 16
    assert [rule["name"] for rule in rules if rule["health"] == "err"] == []
    assert firing == set()
