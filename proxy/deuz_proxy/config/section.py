"""What all parts of the config share: their strictness, and the kinds of context."""

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict

Kind = Literal["memory", "rag", "transcript", "skills"]


class Section(BaseModel):
    """A part of the config: unknown keys are mistakes, values never change."""

    model_config = ConfigDict(extra="forbid", frozen=True, hide_input_in_errors=True)


def id_from_kind(validated: dict[str, Any]) -> str:
    """Return the id of a source that names none."""
    return str(validated["kind"])
