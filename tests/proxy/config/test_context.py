from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from pydantic import TypeAdapter, ValidationError

from deuz_proxy.config.context import (
    Context,
    FilesSource,
    SourceConfig,
    StaticRecord,
    StaticSource,
)
from deuz_proxy.config.inside import SkillsSource, TranscriptSource
from deuz_proxy.config.memory import StoreSource
from deuz_proxy.config.outside import HttpSource, McpSource


def source(**fields: Any) -> SourceConfig:
    made: SourceConfig = TypeAdapter(SourceConfig).validate_python(fields)
    return made


def test_defaults_are_those_of_the_contract() -> None:
    context = Context()

    assert context.budget.ratio == Decimal("0.25")
    assert context.budget.max_tokens == 8192
    assert context.budget.working_memory_tokens == 1024
    assert {kind: float(share) for kind, share in context.budget.shares.items()} == {
        "memory": 0.4,
        "rag": 0.4,
        "transcript": 0.1,
        "skills": 0.1,
    }
    assert context.refresh.model_dump() == {
        "min_steps": 1,
        "max_passes": 8,
        "candidates_per_source": 20,
        "deadline_ms": 300,
        "rest_after": 5,
        "rest_seconds": 10.0,
    }
    assert context.holdout == 0
    assert context.sources == ()


def test_the_type_of_a_source_chooses_its_model() -> None:
    assert isinstance(source(type="static", records=()), StaticSource)
    assert isinstance(source(type="files", path="docs"), FilesSource)
    assert isinstance(source(type="http", url="http://kb"), HttpSource)
    assert isinstance(source(type="store"), StoreSource)
    assert isinstance(source(type="transcript"), TranscriptSource)
    assert isinstance(source(type="skills", path="s"), SkillsSource)
    by_tool = source(type="mcp", url="http://kb", tool="search")
    assert isinstance(by_tool, McpSource)


@pytest.mark.parametrize("kind", ["past", "x"])
def test_source_types_that_are_not_there_are_refused(kind: str) -> None:
    with pytest.raises(ValidationError, match="'static', 'files', 'http'"):
        source(type=kind)


def test_the_id_of_a_source_is_its_kind_by_default() -> None:
    assert source(type="files", path="docs").id == "rag"
    assert source(type="static", records=()).id == "memory"
    assert source(type="files", path="docs", kind="skills").id == "skills"


def test_a_relative_folder_starts_where_the_config_file_is() -> None:
    fields = {"type": "files", "path": "docs", "index": "state/docs.db"}

    made = FilesSource.model_validate(fields, context={"folder": Path("/etc/deuz")})

    assert made.path == Path("/etc/deuz/docs")
    assert made.index == Path("/etc/deuz/state/docs.db")


def test_an_absolute_folder_stays_as_it_is() -> None:
    fields = {"type": "files", "path": "/srv/docs"}

    made = FilesSource.model_validate(fields, context={"folder": Path("/etc/deuz")})

    assert made.path == Path("/srv/docs")
    assert made.index is None


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("min_steps", 0),
        ("max_passes", 0),
        ("candidates_per_source", 0),
        ("deadline_ms", 0),
        ("deadline_ms", 30_001),
        ("rest_after", -1),
        ("rest_seconds", 0),
    ],
)
def test_a_refresh_out_of_its_bounds_is_refused(field: str, value: int) -> None:
    with pytest.raises(ValidationError):
        Context.model_validate({"refresh": {field: value}})


@pytest.mark.parametrize("budget", [{"ratio": 1.5}, {"max_tokens": 1_000_001}])
def test_a_budget_out_of_its_bounds_is_refused(budget: dict[str, float]) -> None:
    with pytest.raises(ValidationError):
        Context.model_validate({"budget": budget})


def test_more_records_or_sources_than_allowed_are_refused() -> None:
    records = [StaticRecord(id=f"r{number}", text="x") for number in range(2049)]

    with pytest.raises(ValidationError, match="at most 2048"):
        StaticSource(type="static", records=tuple(records))
    with pytest.raises(ValidationError, match="at most 128"):
        Context(
            sources=tuple(
                StaticSource(type="static", id=f"s{number}", records=())
                for number in range(129)
            )
        )


def test_values_never_change() -> None:
    with pytest.raises(ValidationError, match="frozen"):
        Context().holdout = Decimal(1)
