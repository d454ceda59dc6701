"""The board: written from code, one question per panel, nothing unknown in it."""

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from deuz_proxy.observe import catalog


@pytest.fixture(scope="module")
def board(root: Path) -> dict[str, Any]:
    text = (root / "dashboards/grafana/deuz-sidecar.json").read_text()
    loaded: dict[str, Any] = json.loads(text)
    return loaded


@pytest.fixture(scope="module")
def panels(board: dict[str, Any]) -> list[dict[str, Any]]:
    return [panel for panel in board["panels"] if panel["type"] != "row"]


def expressions(panels: list[dict[str, Any]]) -> list[str]:
    return [target["expr"] for panel in panels for target in panel["targets"]]


def test_committed_board_is_what_the_code_writes(root: Path) -> None:
    command = [sys.executable, "-m", "dashboards.boards", "--check"]

    done = subprocess.run(
        command, check=False, cwd=root, capture_output=True, text=True
    )

    assert done.returncode == 0, done.stderr


def test_every_panel_says_which_question_it_answers(
    panels: list[dict[str, Any]],
) -> None:
    silent = [panel["title"] for panel in panels if "?" not in panel["description"]]

    assert silent == []


def test_every_row_is_a_question(board: dict[str, Any]) -> None:
    titles = [panel["title"] for panel in board["panels"] if panel["type"] == "row"]

    assert len(titles) >= 5
    assert all(title.endswith("?") for title in titles)


def test_readme_repeats_every_panel_with_its_question(
    root: Path, panels: list[dict[str, Any]]
) -> None:
    readme = (root / "dashboards/README.md").read_text()

    missing = [
        panel["title"]
        for panel in panels
        if f"| {panel['title']} | {panel['description']} |" not in readme
    ]

    assert missing == [], "say in dashboards/README.md what these panels answer"


def test_panels_do_not_overlap_and_fill_at_most_the_width(
    board: dict[str, Any],
) -> None:
    cells = [
        (x, y)
        for panel in board["panels"]
        for place in [panel["gridPos"]]
        for x in range(place["x"], place["x"] + place["w"])
        for y in range(place["y"], place["y"] + place["h"])
    ]

    assert len(cells) == len(set(cells))
    assert max(x for x, _ in cells) < 24


def test_panel_ids_are_distinct(board: dict[str, Any]) -> None:
    ids = [panel["id"] for panel in board["panels"]]

    assert len(ids) == len(set(ids))


def test_every_label_of_a_query_belongs_to_its_metric(
    panels: list[dict[str, Any]],
) -> None:
    labels = {
        metric.name: {label.name for label in metric.labels}
        for metric in catalog.METRICS
    }
    selectors = [
        (name.removesuffix("_bucket"), re.findall(r"(\w+)\s*(?:=~|!~|!=|=)", inside))
        for expr in expressions(panels)
        for name, inside in re.findall(r"(deuz_\w+)\{([^}]*)\}", expr)
    ]

    unknown = [
        (name, label)
        for name, used in selectors
        for label in used
        if label not in labels[name]
    ]

    assert selectors
    assert unknown == []
