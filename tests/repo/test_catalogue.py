"""The metric catalogue, the board and the rules speak of the same metrics."""

import json
import re
from pathlib import Path

import yaml

from deuz_proxy.observe import catalog

ROOT = Path(__file__).resolve().parents[2]
BOARD = ROOT / "dashboards/grafana/deuz-sidecar.json"
RULES = ROOT / "dashboards/rules/deuz-sidecar.rules.yaml"
NAME = re.compile(r"\bdeuz_[a-z0-9_]+")


def find_metrics(expressions: list[str]) -> set[str]:
    histograms = {m.name for m in catalog.METRICS if m.kind == "histogram"}
    names = {name for expr in expressions for name in NAME.findall(expr)}
    return {
        base
        if (base := re.sub(r"_(bucket|sum|count)$", "", name)) in histograms
        else name
        for name in names
    }


def read_board_queries() -> list[str]:
    board = json.loads(BOARD.read_text())
    queries = [
        target["expr"]
        for panel in board["panels"]
        for target in panel.get("targets", ())
    ]
    return queries + [item["query"] for item in board["templating"]["list"]]


def read_rule_queries() -> list[str]:
    groups = yaml.safe_load(RULES.read_text())["groups"]
    return [rule["expr"] for group in groups for rule in group["rules"]]


def test_every_metric_of_the_board_and_the_rules_is_in_the_catalogue() -> None:
    used = find_metrics(read_board_queries() + read_rule_queries())

    unknown = used - {metric.name for metric in catalog.METRICS}

    assert used
    assert unknown == set()


def test_every_metric_of_the_catalogue_is_on_the_board() -> None:
    known = {metric.name for metric in catalog.METRICS}

    unseen = known - find_metrics(read_board_queries())

    assert unseen == set(), (
        "show these on the board, in the row whose question they answer"
    )


def test_every_recorded_series_is_used() -> None:
    groups = yaml.safe_load(RULES.read_text())["groups"]
    rules = [rule for group in groups for rule in group["rules"]]
    recorded = {rule["record"] for rule in rules if "record" in rule}

    used = {
        name
        for rule in rules
        for name in re.findall(r"\bdeuz:[a-z0-9_:]+", rule["expr"])
    }

    assert used == recorded
