"""A memory record, and what it takes to be one.

Rules:
- A record belongs to one scope, `tenant` or `tenant/name`, and is seen in no other one.
- Its revision counts its texts: an equal text keeps it, a changed one raises it.
- Texts are Unicode that every store and provider can carry: no NUL, no half surrogate.
"""

import hashlib
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from deuz_proxy.config.memory import SCOPE_PATTERN

MEMORY_SCOPE = "memory-scope"
"""The provenance of a candidate that is a record of the memory store."""

MAX_TEXT_CHARACTERS = 65_536
MAX_ID_CHARACTERS = 256
MAX_ORIGIN_CHARACTERS = 256
MAX_SOURCE_KINDS = 16

DROPPED_SECONDS = 3600.0
"""How long a drop is known: longer than any request waits for its upstream's head."""

_SCOPE = re.compile(SCOPE_PATTERN)
_CONTROL = re.compile(r"[\x00-\x1f\x7f\ud800-\udfff]")
_UNCARRIED = re.compile(r"[\x00\ud800-\udfff]")


@dataclass(frozen=True, slots=True)
class Draft:
    """A record as its owner gives it. `expires_at` is in Unix seconds."""

    id: str
    text: str
    mandatory: bool = False
    expires_at: float | None = None
    origin: str = ""
    source_kinds: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Record:
    """A record as it is kept; `digest` is of its text."""

    draft: Draft
    revision: int
    digest: str

    @property
    def id(self) -> str:
        """The record's name within its scope."""
        return self.draft.id


@dataclass(frozen=True, slots=True)
class Hit:
    """A record that answers a query; `score` is 0 to 1."""

    record: Record
    score: float


class Records(Protocol):
    """Where records are kept; more than three methods, since it is one memory.

    What has expired by `now`, in Unix seconds, is not there for any method.

    Raises:
        StoreFailed: the store did not answer.
    """

    async def put(self, scope: str, draft: Draft, *, now: float) -> Record:
        """Keep the record; an equal text keeps its revision."""

    async def get(self, scope: str, record_id: str, *, now: float) -> Record | None:
        """Return the record, if it is there."""

    async def page(
        self, scope: str, *, after: str, limit: int, now: float
    ) -> Sequence[Record]:
        """Return records by id, those behind `after` first."""

    async def mandatory(self, scope: str, *, now: float) -> Sequence[Record]:
        """Return the records that must always be placed, by id."""

    async def search(
        self, scope: str, text: str, *, limit: int, now: float
    ) -> Sequence[Hit]:
        """Return what shares words with the text, the best first; never fails by it."""

    async def drop(self, scope: str, ids: Sequence[str], *, now: float) -> int:
        """Remove records so that nothing of them is left; return how many were there.

        Expired ones count. That the ids were dropped is known for an hour.
        """

    async def dropped(
        self, scope: str, ids: Sequence[str], *, since: float
    ) -> Sequence[str]:
        """Return which of the ids were dropped at that time or later."""


class Notes(Protocol):
    """Where working memory is kept: one text for each scope and key.

    Raises:
        StoreFailed: the store did not answer.
    """

    async def load(self, scope: str, key: str) -> bytes | None:
        """Return the text, if there is one."""

    async def has_any(self) -> bool:
        """Tell whether there is any text, of whatever scope."""

    async def swap(
        self, scope: str, key: str, *, old: bytes | None, new: bytes | None
    ) -> bool:
        """Put `new` in the place of `old`; False: it is another one by now."""


def dropped_key(scope: str, record_id: str) -> bytes:
    """Return what is kept of a dropped record: no name, only a way to ask for it."""
    return hashlib.sha256(f"{scope}\0{record_id}".encode()).digest()[:16]


def scope_fault(scope: str) -> str | None:
    """Return what is wrong with a scope's name, None if nothing."""
    if _SCOPE.fullmatch(scope):
        return None
    return (
        "is not a scope (allowed: tenant or tenant/name, percent-encoded in a path; "
        "letters, digits and . _ -, in the name also @ : +)"
    )


def id_fault(record_id: str) -> str | None:
    """Return what is wrong with a record's id, None if nothing."""
    if 0 < len(record_id) <= MAX_ID_CHARACTERS and not _CONTROL.search(record_id):
        return None
    return f"is not an id (allowed: 1 to {MAX_ID_CHARACTERS} printable characters)"


def text_fault(text: str) -> str | None:
    """Return why a text cannot be kept or sent, None if it can."""
    if _UNCARRIED.search(text):
        return "holds a NUL or half a surrogate pair (allowed: Unicode text without)"
    return None
