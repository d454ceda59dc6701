"""What may be added to a request: budget, refresh, and the sources it comes from.

Rules:
- `kind` picks the budget share; `type` picks the adapter.
- A share is exact (`Decimal`); `Ratio.as_integer_ratio()` gives whole numbers.
"""

from collections.abc import Mapping
from decimal import Decimal
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field, ValidationInfo, field_validator

from deuz_proxy.config.inside import SkillsSource, TranscriptSource
from deuz_proxy.config.memory import StoreSource
from deuz_proxy.config.outside import HttpSource, McpSource
from deuz_proxy.config.section import Kind, Section, id_from_kind
from deuz_proxy.config.values import LastingText, Name, Ratio, Tokens, path_below

FilePattern = Annotated[str, Field(min_length=1, max_length=256)]


def _default_shares() -> Mapping[Kind, Ratio]:
    return {
        "memory": Decimal("0.4"),
        "rag": Decimal("0.4"),
        "transcript": Decimal("0.1"),
        "skills": Decimal("0.1"),
    }


class Budget(Section):
    """How much may be added: min(ratio x free input, max_tokens), split by kind."""

    ratio: Ratio = Field(
        default=Decimal("0.25"),
        description="Share of the free input room that added context may take.",
    )
    max_tokens: Tokens = Field(
        default=8192, description="Ceiling of added context per request, in tokens."
    )
    working_memory_tokens: Tokens = Field(
        default=1024,
        description="Part of the budget that working memory may take.",
    )
    shares: Mapping[Kind, Ratio] = Field(
        default_factory=_default_shares,
        description="Share of the budget per kind; what a kind leaves goes to others.",
    )


class Refresh(Section):
    """When sources are asked again, and how long they may take."""

    min_steps: int = Field(
        default=1,
        ge=1,
        le=1000,
        description="Answers of the assistant from one block to the next.",
    )
    max_passes: int = Field(
        default=8,
        ge=1,
        le=1000,
        description="Blocks of one conversation; then only mandatory records enter.",
    )
    candidates_per_source: int = Field(
        default=20, ge=1, le=1000, description="Candidates a source may offer at once."
    )
    deadline_ms: int = Field(
        default=300,
        ge=1,
        le=30_000,
        description="Time for all sources together, in milliseconds.",
    )
    rest_after: int = Field(
        default=5,
        ge=0,
        le=1000,
        description="Failures in a row after which a source rests; 0: never.",
    )
    rest_seconds: float = Field(
        default=10.0,
        gt=0,
        le=3600,
        allow_inf_nan=False,
        description="Its first rest; each failed try doubles it, up to 16-fold.",
    )


class StaticRecord(Section):
    """One record that stands in the config itself."""

    id: Name = Field(description="Name of the record within its source.")
    text: LastingText = Field(description="The text, fixed: no time, no chance.")
    mandatory: bool = Field(
        default=False, description="Placed always and in full, or context is refused."
    )
    priority: int = Field(
        default=0, ge=-1000, le=1000, description="Higher goes first."
    )
    score: Ratio = Field(
        default=Decimal(1), description="Relevance the record claims, 0 to 1."
    )
    revision: str = Field(
        default="",
        max_length=128,
        description="Version of the record; without it, told from the text.",
    )
    origin: str = Field(
        default="", max_length=256, description="Where the text comes from, for labels."
    )
    source_kinds: tuple[Name, ...] = Field(
        default=(), max_length=16, description="What the text was made from."
    )


class StaticSource(Section):
    """Records written into the config."""

    type: Literal["static"] = Field(description="`static`.")
    kind: Kind = Field(default="memory", description="Which budget share it draws on.")
    id: Name = Field(
        default_factory=id_from_kind, description="Name of the source; default: kind."
    )
    required: bool = Field(
        default=False, description="Whether context is refused when the source fails."
    )
    records: tuple[StaticRecord, ...] = Field(
        max_length=2048, description="The records."
    )


class FilesSource(Section):
    """A folder of Markdown, text or code, searched with BM25."""

    type: Literal["files"] = Field(description="`files`.")
    kind: Kind = Field(default="rag", description="Which budget share it draws on.")
    id: Name = Field(
        default_factory=id_from_kind, description="Name of the source; default: kind."
    )
    required: bool = Field(
        default=False, description="Whether context is refused when the source fails."
    )
    path: Path = Field(
        description="The folder; a relative one starts at the config file's folder."
    )
    ignore: tuple[FilePattern, ...] = Field(
        default=(),
        max_length=256,
        description="Files and folders passed over: names, or paths with a /; * and ?.",
    )
    index: Path | None = Field(
        default=None,
        description="File that keeps the index between starts; default: in memory.",
    )
    min_score: Ratio = Field(
        # Of the questions in tests/proxy/sources/test_ranking.py it keeps the right
        # page of all, and offers something for 2 of 12 that no page answers.
        default=Decimal("0.25"),
        description="Hits below this score, 0 to 1, are not offered.",
    )

    @field_validator("path", "index")
    @classmethod
    def _resolve(cls, path: Path | None, info: ValidationInfo) -> Path | None:
        folder = (info.context or {}).get("folder", Path())
        return None if path is None else path_below(folder, path)


SourceConfig = Annotated[
    StaticSource
    | FilesSource
    | HttpSource
    | StoreSource
    | McpSource
    | TranscriptSource
    | SkillsSource,
    Field(discriminator="type"),
]


class Context(Section):
    """What is added to requests of routes in mode `compile`."""

    budget: Budget = Field(default=Budget(), description="How much may be added.")
    refresh: Refresh = Field(default=Refresh(), description="When sources are asked.")
    holdout: Ratio = Field(
        default=Decimal(0),
        description="Share of conversations measured but left alone, 0 to 1.",
    )
    sources: tuple[SourceConfig, ...] = Field(
        default=(), max_length=128, description="Where candidates come from."
    )
