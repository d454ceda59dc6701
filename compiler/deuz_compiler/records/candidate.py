"""One representation of one piece of information, with all that is needed to judge it.

Rules:
- Only `source`, `kind`, `record_id` and `text` must be given; every default is neutral.
- `key` names a candidate in the whole pool; `depends_on` holds keys.
- Verdicts (`scope`, `freshness`, `authority`) are inputs: enforced here, never derived.
- A required group is one source's own: no source can tie its records to another's.
- Candidates of one `content_identity` are forms of the same thing; one at most is used.
"""

from collections.abc import Iterable
from typing import Literal

import msgspec

Requirement = Literal["mandatory", "required", "preferred", "discretionary"]

REQUIREMENTS: tuple[Requirement, ...] = (
    "mandatory",
    "required",
    "preferred",
    "discretionary",
)


class Eligibility(msgspec.Struct, frozen=True, gc=False, forbid_unknown_fields=True):
    """A verdict given from outside, and why."""

    is_eligible: bool = True
    reason: str = ""


ELIGIBLE = Eligibility()


class Candidate(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """One record a source offers.

    `digest` is `sha256:` and the hex of the text; empty means "not declared" and it is
    computed. `tokens` is what the text costs by itself; None means "estimate it", a
    number is trusted. `label_tokens` is what rendering adds; None: as the policy says
    for all. `score` is 0 to 1, `priority` -1000 to 1000. `expires_at` is in
    Unix seconds. `projection` is a smaller text for when the full one does not fit.
    """

    source: str
    kind: str
    record_id: str
    text: str
    revision: str = ""
    digest: str = ""
    tokens: int | None = None
    label_tokens: int | None = None
    score: float = 0.0
    requirement: Requirement = "discretionary"
    priority: int = 0
    content_identity: str = ""
    representation: str = "full"
    form_rank: int = 0
    min_rank: int = 0
    role: str = ""
    scope: Eligibility = ELIGIBLE
    freshness: Eligibility = ELIGIBLE
    authority: Eligibility = ELIGIBLE
    depends_on: tuple[str, ...] = ()
    group_id: str | None = None
    is_group_required: bool = False
    coverage_keys: tuple[str, ...] = ()
    expires_at: float | None = None
    projection: str | None = None
    projection_tokens: int | None = None
    origin: str = ""
    source_kinds: tuple[str, ...] = ()
    provenance: tuple[tuple[str, str], ...] = ()

    @property
    def key(self) -> str:
        """The candidate's name in the pool: `source/record_id`, or the id alone."""
        return f"{self.source}/{self.record_id}" if self.source else self.record_id

    @property
    def is_mandatory(self) -> bool:
        """Whether the record may never be left out or shortened."""
        return self.requirement == "mandatory"


def keys_of(candidates: Iterable[Candidate]) -> list[str]:
    """Return the keys of candidates, in their order."""
    # As `key` has it, spelt out: a call for each record of a large pool adds up.
    return [
        f"{c.source}/{c.record_id}" if c.source else c.record_id for c in candidates
    ]
