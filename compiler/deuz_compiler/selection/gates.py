"""Legal before desirable: what a candidate must pass before anything is compared.

Rules:
- The order is scope, freshness, authority, floor; the first "no" counts and is final.
- No score can repair a "no".
- Expiry comes before all of them: it is the author's own word that the record no longer
  applies, so an expired mandatory record leaves the pool and refuses nothing.
"""

from collections.abc import Iterable

import msgspec

from deuz_compiler.records import reasons
from deuz_compiler.records.candidate import ELIGIBLE, Candidate


class Gate(msgspec.Struct, frozen=True, gc=False):
    """A "no" of the gate: its code from the closed list, and the verdict's reason."""

    code: str
    detail: str


def gates_of(candidates: Iterable[Candidate], now: float | None) -> list[Gate | None]:
    """Return the gate of each candidate, in their order; `now` as for `gate_of`."""
    # Nearly all verdicts are the very one that says yes, and need no call.
    return [
        None
        if c.scope is c.freshness is c.authority is ELIGIBLE
        and c.expires_at is None
        and c.form_rank >= c.min_rank
        else gate_of(c, now)
        for c in candidates
    ]


def gate_of(candidate: Candidate, now: float | None) -> Gate | None:
    """Return the first "no", or None for an eligible candidate.

    `now` is in Unix seconds; without it nothing expires.
    """
    expires_at = candidate.expires_at
    if expires_at is not None and now is not None and expires_at <= now:
        return Gate(reasons.EXPIRED, "")
    for code, verdict in (
        (reasons.SCOPE_INELIGIBLE, candidate.scope),
        (reasons.FRESHNESS_INELIGIBLE, candidate.freshness),
        (reasons.AUTHORITY_INELIGIBLE, candidate.authority),
    ):
        if not verdict.is_eligible:
            return Gate(code, verdict.reason)
    return _floor_gate(candidate)


def _floor_gate(candidate: Candidate) -> Gate | None:
    if candidate.form_rank >= candidate.min_rank:
        return None
    detail = f"form_rank {candidate.form_rank} below floor {candidate.min_rank}"
    return Gate(reasons.BELOW_FLOOR, detail)
