"""What makes one record malformed, looked at by itself.

Rules:
- A problem names fields and numbers, never content.
- Every name that reaches a manifest must be text, and an id must stand in one line.
- Counts are whole numbers from 0. Ranges are written so that a NaN fails them.
"""

from collections.abc import Iterator

from deuz_compiler.records.candidate import REQUIREMENTS, Candidate
from deuz_compiler.records.loading import HALF_PAIR, UNPRINTABLE

MAX_ID_LENGTH = 256
MAX_PRIORITY = 1_000


def problems_of_record(candidate: Candidate, key: str) -> list[str]:
    """Return what is wrong with a record, given its key."""
    return [
        *_id_problems(candidate, key),
        *_name_problems(candidate),
        *_count_problems(candidate),
        *_range_problems(candidate),
    ]


def _id_problems(candidate: Candidate, key: str) -> Iterator[str]:
    if not 0 < len(candidate.record_id) <= MAX_ID_LENGTH:
        yield f"id is not 1 to {MAX_ID_LENGTH} characters long"
    if not key.isprintable() and UNPRINTABLE.search(key):
        yield "id holds a control character"


def _name_problems(candidate: Candidate) -> Iterator[str]:
    if isinstance(candidate.depends_on, str):
        # Its characters would be taken for keys.
        yield "depends_on is no list of keys"
    if isinstance(candidate.coverage_keys, str):
        yield "coverage_keys is no list of keys"
    names = (candidate.kind, candidate.revision, candidate.digest)
    if "".join((*names, *candidate.depends_on)).isascii():
        return
    fields = zip(("kind", "revision", "digest"), names, strict=True)
    for field, name in (*fields, ("depends_on", "".join(candidate.depends_on))):
        if HALF_PAIR.search(name):
            yield f"{field} holds half a surrogate pair"


def _count_problems(candidate: Candidate) -> Iterator[str]:
    for name, count in (
        ("tokens", candidate.tokens),
        ("label_tokens", candidate.label_tokens),
        ("projection_tokens", candidate.projection_tokens),
    ):
        if count is None:
            continue
        if not isinstance(count, int):
            yield f"{name} is not a whole number"
        elif count < 0:
            yield f"{name} {count} is negative"


def _range_problems(candidate: Candidate) -> Iterator[str]:
    if candidate.requirement not in REQUIREMENTS:
        yield f"requirement is not one of {', '.join(REQUIREMENTS)}"
    if not 0.0 <= candidate.score <= 1.0:
        yield f"score {candidate.score} is outside 0 to 1"
    if not -MAX_PRIORITY <= candidate.priority <= MAX_PRIORITY:
        yield f"priority {candidate.priority} is outside -1000 to 1000"
