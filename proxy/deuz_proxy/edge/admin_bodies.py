"""What the memory API takes and answers, as models: checked here, described from here.

Rules:
- A body is checked as a whole; every fault is told with its place and what is allowed.
- No fault repeats a value.
"""

from collections.abc import Mapping
from datetime import datetime
from typing import Annotated, Any, Literal

from pydantic import (
    AfterValidator,
    AwareDatetime,
    BaseModel,
    ConfigDict,
    Field,
    ValidationError,
)

from deuz_proxy.edge.admin_words import told_faults
from deuz_proxy.memory.records import (
    MAX_ID_CHARACTERS,
    MAX_ORIGIN_CHARACTERS,
    MAX_SOURCE_KINDS,
    MAX_TEXT_CHARACTERS,
    Draft,
    Record,
    id_fault,
    scope_fault,
    text_fault,
)

MAX_IDS = 1_000
MAX_DRY_TEXT = 1_000_000


class _Model(BaseModel):
    # What checks and writes it is built when it is first used: most are never.
    model_config = ConfigDict(defer_build=True)


class _Body(_Model):
    # Strict: "true" is no switch and "1" no number, whoever wrote it.
    model_config = ConfigDict(
        extra="forbid", frozen=True, strict=True, hide_input_in_errors=True
    )


def _is_text(text: str) -> str:
    if fault := text_fault(text) or (None if text.strip() else "is blank"):
        raise ValueError(fault)
    return text


def _is_id(text: str) -> str:
    if fault := id_fault(text):
        raise ValueError(fault)
    return text


def _is_scope(text: str) -> str:
    if fault := scope_fault(text):
        raise ValueError(fault)
    return text


Id = Annotated[
    str, Field(min_length=1, max_length=MAX_ID_CHARACTERS), AfterValidator(_is_id)
]
Scope = Annotated[
    str,
    Field(description="`tenant` or `tenant/name`", max_length=193),
    AfterValidator(_is_scope),
]


def _is_label(text: str) -> str:
    if fault := text_fault(text):
        raise ValueError(fault)
    return text


Label = Annotated[
    str, Field(max_length=MAX_ORIGIN_CHARACTERS), AfterValidator(_is_label)
]


class RecordBody(_Body):
    """A memory record as its owner gives it."""

    text: Annotated[
        str,
        Field(description="What is to be remembered.", max_length=MAX_TEXT_CHARACTERS),
        AfterValidator(_is_text),
    ]
    mandatory: bool = Field(
        default=False, description="Placed always and in full, or context is refused."
    )
    expires_at: Annotated[float, Field(ge=0, le=1e12)] | AwareDatetime | None = Field(
        default=None,
        description="When it is gone: Unix seconds, or a time with its zone.",
        union_mode="left_to_right",
    )
    origin: Label = Field(default="", description="Where it comes from, for labels.")
    source_kinds: Annotated[list[Label], Field(max_length=MAX_SOURCE_KINDS)] = Field(
        default_factory=list, description="What it was made from."
    )

    def draft(self, record_id: str) -> Draft:
        """Return the record as the store takes it."""
        expires = self.expires_at
        return Draft(
            record_id,
            self.text,
            self.mandatory,
            expires.timestamp() if isinstance(expires, datetime) else expires,
            self.origin,
            tuple(self.source_kinds),
        )


class NamedRecordBody(RecordBody):
    """A record with its id: one line of an export, one of many that are put."""

    id: Id


class RecordsBody(_Body):
    """Many records of one scope."""

    records: Annotated[list[NamedRecordBody], Field(max_length=MAX_IDS)]


class ForgetBody(_Body):
    """Which records are to be forgotten."""

    scope: Scope
    ids: Annotated[list[Id], Field(max_length=MAX_IDS)]


class PatchBody(_Model):
    """A patch of working memory; its operations are checked by the compiler's rules."""

    model_config = ConfigDict(extra="allow")

    operation_id: str = Field(description="Makes a repetition harmless.")
    expected_revision: int = Field(ge=0, description="What the writer has seen.")
    writer: Literal["host", "model"]
    operations: list[dict[str, Any]] = Field(
        min_length=1, max_length=16, description="Each names its `op`."
    )


class DryRunBody(_Body):
    """A question, or a whole request, to be compiled and not sent."""

    scope: Scope = "default"
    text: Annotated[str, Field(max_length=MAX_DRY_TEXT)] | None = Field(
        default=None, description="A question; or else `path` and `body`."
    )
    model: Annotated[str, Field(max_length=256)] = Field(
        default="", description="The model of a question, for its window."
    )
    path: Annotated[str, Field(max_length=2048)] = Field(
        default="/v1/messages", description="Where a request would be sent."
    )
    body: dict[str, Any] | None = Field(default=None, description="A request's body.")


class Kept(_Model):
    """What became of a record."""

    id: str
    revision: int
    digest: str


class Shown(Kept):
    """A record as it is kept; `score` is there for an answer to a query."""

    text: str
    mandatory: bool
    expires_at: float | None = None
    origin: str
    source_kinds: tuple[str, ...]
    score: float | None = None


class KeptList(_Model):
    """What became of many records."""

    records: list[Kept]


class ShownList(_Model):
    """Records; `next_cursor` is there while there are more."""

    records: list[Shown]
    next_cursor: str | None = None


class ForgottenBody(_Model):
    """How many records were there, and from how many placed blocks they were taken."""

    forgotten: int
    placements_redacted: int


class NotesBody(_Model):
    """Working memory under a key."""

    key: str
    scope: str
    revision: int
    working_memory: dict[str, Any]


class PatchedBody(_Model):
    """What became of a patch; `operation` is the place of the one refused."""

    status: Literal["applied", "duplicate", "rejected"]
    revision: int
    reason: str | None = None
    ids: list[str] | None = None
    operation: int | None = None


class Decision(_Model):
    """What was decided on one record, and why."""

    source: str
    id: str
    revision: str
    tokens: int
    is_selected: bool
    reason: str


class DryRun(_Model):
    """What would be added to a request."""

    block: str
    tokens: int
    budget_tokens: int
    fallback: str | None = None
    sources: dict[str, str]
    records: list[Decision]


class Fault(_Model):
    """One fault of a request: where it is, and what is allowed there."""

    where: str
    what: str


class FaultsBody(_Model):
    """Why a request was refused."""

    class Error(_Model):
        """The error itself."""

        code: str
        message: str
        faults: list[Fault] = []

    error: Error


def shown(record: Record, score: float | None = None) -> Shown:
    """Return a record as it is answered."""
    draft = record.draft
    return Shown(
        id=draft.id,
        revision=record.revision,
        digest=record.digest,
        text=draft.text,
        mandatory=draft.mandatory,
        expires_at=draft.expires_at,
        origin=draft.origin,
        source_kinds=draft.source_kinds,
        score=score,
    )


def faults_of(
    error: ValidationError, schema: Mapping[str, Any], *, where: str
) -> list[Fault]:
    """Return every fault of a body, without the values that have them."""
    told = told_faults(error, schema, where=where)
    return [Fault(where=place, what=what) for place, what in told]
