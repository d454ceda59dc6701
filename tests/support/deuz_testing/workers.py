"""A sidecar of several processes: its config, what it tells, and its processes."""

import json
import subprocess
import urllib.request
from typing import Any

from prometheus_client.parser import text_string_to_metric_families

from deuz_testing.sidecar_process import Sidecar
from deuz_testing.waiting import WAIT_SECONDS

CONFIG = """
upstreams:
  anthropic: {{url: "{url}", wire: anthropic}}
  openai: {{url: "{url}", wire: openai}}
routes:
  - {{path: /v1/chat/completions, mode: {mode}, name: chat}}
limits: {{drain_seconds: {drain}}}
"""
BODY = json.dumps({"model": "gpt-5", "messages": [{"role": "user", "content": "hi"}]})


def config(url: str, mode: str = "observe", drain: float = 5) -> str:
    return CONFIG.format(url=url, mode=mode, drain=drain)


def read(url: str, accept: str = "*/*") -> str:
    request = urllib.request.Request(url, headers={"Accept": accept})
    with urllib.request.urlopen(request, timeout=WAIT_SECONDS) as answer:
        text: str = answer.read().decode()
        return text


def told(sidecar: Sidecar, path: str) -> Any:
    return json.loads(read(f"{sidecar.admin}{path}"))


def counted(sidecar: Sidecar, name: str) -> float:
    text = read(f"{sidecar.admin}/metrics")
    return sum(
        sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
        if sample.name == name
    )


def workers_of(sidecar: Sidecar) -> list[int]:
    found = subprocess.run(
        ["pgrep", "-P", str(sidecar.process.pid)], capture_output=True, check=False
    )
    return [int(line) for line in found.stdout.split()]
