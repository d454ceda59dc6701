"""Sources this process makes itself: of what was said, and of skills in a folder."""

from decimal import Decimal
from pathlib import Path
from typing import Literal

from pydantic import Field, ValidationInfo, field_validator

from deuz_proxy.config.memory import IN_PROCESS, SQLITE
from deuz_proxy.config.section import Kind, Section, id_from_kind
from deuz_proxy.config.values import Name, Ratio, path_below


class TranscriptSource(Section):
    """Past conversations of the same scope. It keeps text of requests."""

    type: Literal["transcript"] = Field(description="`transcript`.")
    kind: Kind = Field(
        default="transcript", description="Which budget share it draws on."
    )
    id: Name = Field(
        default_factory=id_from_kind, description="Name of the source; default: kind."
    )
    required: bool = Field(
        default=False, description="Whether context is refused when the source fails."
    )
    url: str = Field(
        default=IN_PROCESS,
        description="`memory://`: in this process, until a reload; or "
        "`sqlite:///FILE`.",
    )
    ttl_seconds: float = Field(
        default=2_592_000.0,
        gt=0,
        allow_inf_nan=False,
        description="How long an exchange is kept.",
    )
    max_records: int = Field(
        default=10_000,
        ge=1,
        le=1_000_000,
        description="Exchanges kept in all; the oldest go.",
    )
    max_records_per_scope: int = Field(
        default=1_000,
        ge=1,
        le=1_000_000,
        description="Exchanges kept of one scope; the oldest go.",
    )
    min_score: Ratio = Field(
        # Exchanges are long: by chance they have more of a question than records do.
        default=Decimal("0.3"),
        description="Exchanges below this score, 0 to 1, are not offered.",
    )

    @field_validator("url")
    @classmethod
    def _supported(cls, url: str, info: ValidationInfo) -> str:
        if url == IN_PROCESS:
            return url
        file = url.removeprefix(SQLITE)
        if file == url or not file:
            raise ValueError(
                "is not a transcript store (allowed: memory://, sqlite:///FILE)"
            )
        folder = Path((info.context or {}).get("folder", Path()))
        return f"{SQLITE}{path_below(folder, Path(file))}"


class SkillsSource(Section):
    """A folder of skills: a line of each, and those that a conversation has loaded."""

    type: Literal["skills"] = Field(description="`skills`.")
    kind: Kind = Field(default="skills", description="Which budget share it draws on.")
    id: Name = Field(
        default_factory=id_from_kind, description="Name of the source; default: kind."
    )
    required: bool = Field(
        default=False, description="Whether context is refused when the source fails."
    )
    path: Path = Field(description="The folder; below it, each SKILL.md is a skill.")

    @field_validator("path")
    @classmethod
    def _resolve(cls, path: Path, info: ValidationInfo) -> Path:
        folder = (info.context or {}).get("folder", Path())
        return path_below(folder, path)
