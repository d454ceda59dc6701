"""What makes one record malformed, looked at by itself.

Rules:
- A problem names fields and numbers, never content.
- Every name that reaches a manifest must be text, and an id must stand in one line.
- Counts are whole numbers from 0. Ranges are written so that a NaN fails them.
"""

from deuz_compiler.records.candidate import REQUIREMENTS, Candidate
from deuz_compiler.records.loading import HALF_PAIR, UNPRINTABLE

MAX_ID_LENGTH = 256
MAX_PRIORITY = 1_000


def problems_of_record(candidate: Candidate, key: str) -> list[str]:
    """Return what is wrong with a record, given its key."""
    # Filled by calls, not made of generators: every record comes by here.
    found: list[str] = []
    if not 0 < len(candidate.record_id) <= MAX_ID_LENGTH:
        found.append(f"id is not 1 to {MAX_ID_LENGTH} characters long")
    if not key.isprintable() and UNPRINTABLE.search(key):
        found.append("id holds a control character")
    if isinstance(candidate.depends_on, str):
        # Its characters would be taken for keys.
        found.append("depends_on is no list of keys")
    if isinstance(candidate.coverage_keys, str):
        found.append("coverage_keys is no list of keys")
    named = f"{candidate.kind}{candidate.revision}{candidate.digest}"
    if candidate.depends_on:
        named += "".join(candidate.depends_on)
    if not named.isascii():
        _note_half_pairs(candidate, found)
    _note_numbers(candidate, found)
    return found


def _note_numbers(candidate: Candidate, found: list[str]) -> None:
    tokens = candidate.tokens
    # Spelt out for the one count that most records have.
    if tokens is not None and (type(tokens) is not int or tokens < 0):
        _note_count("tokens", tokens, found)
    if candidate.label_tokens is not None:
        _note_count("label_tokens", candidate.label_tokens, found)
    if candidate.projection_tokens is not None:
        _note_count("projection_tokens", candidate.projection_tokens, found)
    requirement = candidate.requirement
    # The usual one first: it stands last among them.
    if requirement != "discretionary" and requirement not in REQUIREMENTS:
        found.append(f"requirement is not one of {', '.join(REQUIREMENTS)}")
    if not 0.0 <= candidate.score <= 1.0:
        found.append(f"score {candidate.score} is outside 0 to 1")
    priority = candidate.priority
    if priority != 0 and not -MAX_PRIORITY <= priority <= MAX_PRIORITY:
        found.append(f"priority {candidate.priority} is outside -1000 to 1000")


def _note_half_pairs(candidate: Candidate, found: list[str]) -> None:
    for field, name in (
        ("kind", candidate.kind),
        ("revision", candidate.revision),
        ("digest", candidate.digest),
        ("depends_on", "".join(candidate.depends_on)),
    ):
        if HALF_PAIR.search(name):
            found.append(f"{field} holds half a surrogate pair")


def _note_count(name: str, count: int, found: list[str]) -> None:
    if not isinstance(count, int):
        found.append(f"{name} is not a whole number")
    elif count < 0:
        found.append(f"{name} {count} is negative")
