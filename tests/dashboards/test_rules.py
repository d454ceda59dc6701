"""The alert rules, judged by promtool; and the rule tests, judged by broken rules."""

import copy
import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[2]
RULES = ROOT / "dashboards/rules/deuz-sidecar.rules.yaml"
TESTS = ROOT / "dashboards/rules/tests/deuz-sidecar.test.yaml"

GROUPS: list[dict[str, Any]] = yaml.safe_load(RULES.read_text())["groups"]
ALERTS = {
    rule["alert"]: rule
    for group in GROUPS
    for rule in group["rules"]
    if "alert" in rule
}


def run_promtool(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = ["promtool", *arguments]
    return subprocess.run(command, check=False, capture_output=True, text=True)


@pytest.mark.needs("prometheus")
def test_promtool_accepts_the_rules() -> None:
    done = run_promtool("check", "rules", "--lint-fatal", str(RULES))

    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.needs("prometheus")
def test_alerts_fire_and_stay_silent_as_their_tests_say() -> None:
    done = run_promtool("test", "rules", str(TESTS))

    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.needs("prometheus")
@pytest.mark.parametrize("broken", ["vector(0) > 1", "vector(1)"])
def test_rule_tests_notice_every_alert_that_never_or_always_fires(
    broken: str, tmp_path: Path
) -> None:
    groups = copy.deepcopy(GROUPS)
    for rule in [rule for group in groups for rule in group["rules"]]:
        if "alert" in rule:
            rule["expr"] = broken
    shutil.copytree(TESTS.parent, tmp_path / "tests")
    (tmp_path / RULES.name).write_text(yaml.safe_dump({"groups": groups}))

    done = run_promtool("test", "rules", str(tmp_path / "tests" / TESTS.name))

    # One block of the output for each expectation that failed.
    noticed = set(re.findall(r"alertname: (\w+)", done.stdout + done.stderr))
    assert noticed == set(ALERTS)


@pytest.mark.parametrize("alert", sorted(ALERTS))
def test_alert_says_what_happened_and_names_a_panel_of_the_board(alert: str) -> None:
    board = json.loads((ROOT / "dashboards/grafana/deuz-sidecar.json").read_text())
    titles = {panel["title"] for panel in board["panels"]}

    annotations = ALERTS[alert]["annotations"]

    assert {"summary", "description", "panel"} <= set(annotations)
    assert annotations["panel"] in titles


@pytest.mark.parametrize("alert", sorted(ALERTS))
def test_alert_stands_in_the_readme_with_its_severity(alert: str) -> None:
    readme = (ROOT / "dashboards/README.md").read_text()

    severity = ALERTS[alert]["labels"]["severity"]

    assert f"| {alert} | {severity} |" in readme
