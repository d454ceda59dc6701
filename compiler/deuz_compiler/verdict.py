"""What became of the provider's cached prefix, told as one verdict.

Rules:
- `verdict` is `first`, `extended`, `unchanged`, `shortened`, `returned`, `broken` or
  `side_call`; only a break has a segment, a cause and an owner.
- Owners: `client`, `sidecar`, `ttl`, `provider`, `parameter`, `unknown`.
"""

import msgspec


class Verdict(msgspec.Struct, frozen=True):
    """One request against its conversation's baselines.

    `segment` is `model`, `params`, `tools`, `system` or `turn`; `index` the turn's or
    tool's place; `offset` the first differing byte in the body. `lost_tokens` are the
    reusable tokens behind the break. `expected_tokens` is what the prefix let one expect
    to be read from the cache, `missed_tokens` what of it was not; None when unknown.
    """

    verdict: str
    segment: str | None = None
    cause: str | None = None
    owner: str | None = None
    index: int | None = None
    offset: int | None = None
    lost_tokens: int = 0
    expected_tokens: int | None = None
    missed_tokens: int | None = None


class SegmentShare(msgspec.Struct, frozen=True):
    """Estimated tokens of one prefix segment: reused, lost to a break, or new."""

    segment: str
    reused_tokens: int
    lost_tokens: int
    new_tokens: int
