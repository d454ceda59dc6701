"""An answer from outside, taken apart: what of it is a record, and what is not.

Rules:
- The answer as a whole is well-formed, or it is a failure with a reason.
- A record is well-formed, or it is left out; it cannot spoil the others. An answer of
  which nothing is left although it had records is a failure: somebody should look.
- A record that names another scope than the one asked for is left out.
- No record from outside is mandatory: what must hold belongs to a source of your own.
- What is refused is counted; it is never quoted.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Final

import msgspec

from deuz_compiler import Candidate
from deuz_proxy.errors import SourceFailed
from deuz_proxy.ports import Query
from deuz_proxy.sources.static import text_digest

MOST_RECORDS: Final = 1_000
"""Looked at in one answer; a source is asked for far fewer."""
MOST_TEXT_CHARACTERS: Final = 65_536
MOST_ID_CHARACTERS: Final = 256

_SURROGATE = re.compile("[\ud800-\udfff]")
# A label with a line break could pass for another line wherever it is shown.
_UNPRINTABLE = re.compile("[\x00-\x1f\x7f-\x9f\ud800-\udfff]")
_Id = Annotated[str, msgspec.Meta(min_length=1, max_length=MOST_ID_CHARACTERS)]
_Text = Annotated[str, msgspec.Meta(min_length=1, max_length=MOST_TEXT_CHARACTERS)]


class Record(msgspec.Struct, frozen=True):
    """One record as it stands in an answer; other members are passed over."""

    id: _Id
    text: _Text
    score: Annotated[float, msgspec.Meta(ge=0, le=1)] | None = None
    revision: Annotated[str, msgspec.Meta(max_length=128)] = ""
    digest: Annotated[str, msgspec.Meta(pattern="^(sha256:[0-9a-f]{64})?$")] = ""
    expires_at: float | None = None
    origin: Annotated[str, msgspec.Meta(max_length=256)] = ""
    priority: Annotated[int, msgspec.Meta(ge=-1000, le=1000)] = 0
    source_kinds: Annotated[
        tuple[Annotated[str, msgspec.Meta(max_length=64)], ...],
        msgspec.Meta(max_length=16),
    ] = ()
    scope: str | None = None


class _Answer(msgspec.Struct, frozen=True):
    records: list[msgspec.Raw]


_answer: Final = msgspec.json.Decoder(_Answer)
_record: Final = msgspec.json.Decoder(Record)
# What is too deep for the decoder is a `RecursionError`.
_UNREADABLE: Final = (msgspec.MsgspecError, RecursionError, UnicodeError)


@dataclass(frozen=True, slots=True)
class Taken:
    """What was taken from an answer, and how many records were left out."""

    candidates: tuple[Candidate, ...]
    refused: int = 0


def read_answer(body: bytes, *, source: str, kind: str, query: Query) -> Taken:
    """Return the candidates of an answer in JSON, in the answer's own order.

    Raises:
        SourceFailed: it is no answer, or none of its records is one.
    """
    try:
        raw = _answer.decode(body).records[:MOST_RECORDS]
    except msgspec.ValidationError as fault:
        raise SourceFailed(source=source, reason="wrong_shape") from fault
    except _UNREADABLE as fault:
        raise SourceFailed(source=source, reason="not_json") from fault
    records = [_decoded(each) for each in raw]
    return take_records(records, source=source, kind=kind, query=query)


def take_records(
    records: Sequence[Record | None], *, source: str, kind: str, query: Query
) -> Taken:
    """Return the well-formed records as candidates; None stands for one that is not.

    Raises:
        SourceFailed: there were records, and none is well-formed.
    """
    kept = [
        _candidate(record, place, source=source, kind=kind)
        for place, record in enumerate(records)
        if record is not None and _is_usable(record, query)
    ]
    if records and not kept:
        raise SourceFailed(source=source, reason="no_record")
    return Taken(tuple(kept), len(records) - len(kept))


def checked_record(**members: object) -> Record | None:
    """Return a record made of these members; None where they are none."""
    try:
        return msgspec.convert(members, Record)
    except _UNREADABLE:
        return None


def _decoded(raw: msgspec.Raw) -> Record | None:
    try:
        return _record.decode(raw)
    except _UNREADABLE:
        return None


def _is_usable(record: Record, query: Query) -> bool:
    if record.scope is not None and record.scope != query.scope:
        return False
    labels = (record.id, record.revision, record.origin, *record.source_kinds)
    if not record.text.strip() or any(map(_UNPRINTABLE.search, labels)):
        return False
    if _SURROGATE.search(record.text):
        return False
    return record.digest in ("", text_digest(record.text))


def _candidate(record: Record, place: int, *, source: str, kind: str) -> Candidate:
    digest = text_digest(record.text)
    # Without a score the answer's order is one: 1, 1/2, 1/3, ...
    score = 1 / (1 + place) if record.score is None else record.score
    return Candidate(
        source=source,
        kind=kind,
        record_id=record.id,
        text=record.text,
        revision=record.revision or digest.removeprefix("sha256:")[:12],
        digest=digest,
        score=round(score, 9),
        priority=record.priority,
        expires_at=record.expires_at,
        origin=record.origin,
        source_kinds=record.source_kinds,
    )
