"""Everything public has a line in the docs: fields, metrics, error codes, alerts."""

import inspect
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args

import yaml
from pydantic import BaseModel

import deuz_compiler.errors
import deuz_proxy.errors
from deuz_compiler.errors import CompilerError
from deuz_proxy.config.model import Config
from deuz_proxy.errors import SidecarError
from deuz_proxy.observe import catalog

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"


def read(name: str) -> str:
    path = DOCS / name
    return path.read_text() if path.exists() else ""


def list_models(annotation: Any) -> Iterator[type[BaseModel]]:
    """Yield the models that an annotation names, at any depth."""
    if inspect.isclass(annotation) and issubclass(annotation, BaseModel):
        yield annotation
    for argument in get_args(annotation):
        yield from list_models(argument)


def list_fields(model: type[BaseModel], seen: set[type]) -> Iterator[str]:
    """Yield the names of all fields below a model, each model once."""
    if model in seen:
        return
    seen.add(model)
    for name, field in model.model_fields.items():
        yield field.alias or name
        for inner in list_models(field.annotation):
            yield from list_fields(inner, seen)


def list_codes() -> set[str]:
    modules = (deuz_compiler.errors, deuz_proxy.errors)
    kinds = [
        kind
        for module in modules
        for _, kind in inspect.getmembers(module, inspect.isclass)
    ]
    return {
        kind.code for kind in kinds if issubclass(kind, CompilerError | SidecarError)
    }


def test_every_config_field_has_a_line_in_configuration() -> None:
    text = read("configuration.md")

    missing = [
        name
        for name in list_fields(Config, set())
        if not re.search(rf"\b{name}\b", text)
    ]

    assert missing == [], "run `make docs`"


def test_every_metric_has_a_line_in_metrics() -> None:
    text = read("metrics.md")

    missing = [metric.name for metric in catalog.METRICS if metric.name not in text]

    assert missing == [], "run `make docs`"


def test_every_error_code_has_an_entry_in_errors() -> None:
    text = read("errors.md")

    missing = [code for code in sorted(list_codes()) if f"`{code}`" not in text]

    assert missing == [], "say in docs/errors.md what causes it and what to do"


def test_every_alert_has_an_entry_in_operations() -> None:
    text = read("operations.md")
    rules = ROOT / "dashboards/rules/deuz-sidecar.rules.yaml"
    groups = yaml.safe_load(rules.read_text())["groups"]

    alerts = [r["alert"] for g in groups for r in g["rules"] if "alert" in r]

    missing = [alert for alert in alerts if alert not in text]
    assert missing == [], "say in docs/operations.md what causes it and what to do"


def test_every_relative_link_of_the_docs_leads_somewhere() -> None:
    pages = [*DOCS.rglob("*.md"), ROOT / "README.md", ROOT / "dashboards/README.md"]

    broken = [
        f"{page.relative_to(ROOT)}: {target}"
        for page in pages
        for target in re.findall(r"\]\(([^)#\s]+)[^)]*\)", page.read_text())
        if "://" not in target and not (page.parent / target).exists()
    ]

    assert broken == []


def test_decision_records_are_numbered_without_gaps_and_short() -> None:
    records = sorted((DOCS / "decisions").glob("*.md"))
    numbers = [int(path.name[:4]) for path in records]

    assert numbers == list(range(1, len(records) + 1))
    assert [p.name for p in records if len(p.read_text().splitlines()) > 40] == []


def test_changelog_has_unreleased_changes_on_top() -> None:
    headings = re.findall(r"^## (.+)$", (ROOT / "CHANGELOG.md").read_text(), re.M)

    assert headings[0] == "[Unreleased]"
