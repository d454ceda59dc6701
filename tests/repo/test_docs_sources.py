"""Every source has a page: its config, and what each outcome means."""

import re
from pathlib import Path
from typing import get_args

import pytest
import yaml

from deuz_proxy.config.context import SourceConfig
from deuz_proxy.errors import SourceFailed, StoreFailed

PAGES = Path(__file__).resolve().parents[2] / "docs/sources"
TYPES = sorted(
    get_args(kind.model_fields["type"].annotation)[0]
    for kind in get_args(get_args(SourceConfig)[0])
)
TOLD = ("late", "fail", "empty", "huge", "hostile")


def read(name: str) -> str:
    return (PAGES / f"{name}.md").read_text()


def test_every_type_of_source_has_a_page_and_every_page_is_of_one() -> None:
    pages = {page.stem for page in PAGES.glob("*.md")}

    assert pages == {*TYPES, "index"}
    assert [name for name in TYPES if f"]({name}.md)" not in read("index")] == []


@pytest.mark.parametrize("name", TYPES)
def test_page_begins_with_a_whole_config_of_its_source(name: str) -> None:
    first = re.findall(r"^```yaml config\n(.*?)^```$", read(name), re.M | re.S)[0]

    config = yaml.safe_load(first)

    assert [source["type"] for source in config["context"]["sources"]] == [name]
    assert config["routes"], "a config without a route in mode compile adds nothing"


@pytest.mark.parametrize("name", TYPES)
def test_page_says_what_each_outcome_means_whose_records_and_at_what_cost(
    name: str,
) -> None:
    outcomes = read(name).partition("## Outcomes")[2].lower()
    rows = "\n".join(re.findall(r"^\|.*\|$", outcomes, re.M))

    assert [word for word in TOLD if word not in rows] == []
    assert "[required](index.md#required-and-optional)" in outcomes
    assert "rests" in outcomes
    assert "**scope.**" in outcomes
    assert "**cost.**" in outcomes


def test_every_reason_for_a_failure_is_on_a_page() -> None:
    pages = "\n".join(page.read_text() for page in PAGES.glob("*.md"))
    # A source is closed only when its sidecar ends.
    known = {*SourceFailed.REASONS, StoreFailed.code} - {"closed"}

    told = set(re.findall(r"reason `(\w+)`", pages))

    assert told == known
