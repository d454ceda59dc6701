"""What became of the provider's cached prefix, told as one verdict.

Rules:
- `verdict` is `first`, `extended`, `unchanged`, `shortened`, `returned`, `broken` or
  `side_call`; only a loss has a segment, a cause and an owner.
- Structure is judged on what was forwarded. If the client's own bytes continue there,
  end, or change only later, the break is the sidecar's.
- Usage is the second witness: an intact prefix that was not read from the cache keeps
  its verdict, and its loss is owned by `ttl` or `provider`.
- Owners: `client`, `sidecar`, `ttl`, `provider`, `parameter`, `unknown`.
"""

from collections.abc import Callable, Sequence

import msgspec

from deuz_compiler.causes import system_cause, tools_cause, turn_cause
from deuz_compiler.prefix import (
    Difference,
    Prefix,
    common_bytes,
    first_difference,
    without,
)
from deuz_compiler.wires.usage import Usage

# A miss below this is rounding: providers count cached tokens in steps of 128.
_SLACK_TOKENS = 128
_SLACK_PERCENT = 5
OWNERS = ("client", "sidecar", "ttl", "provider", "parameter", "unknown")


class Verdict(msgspec.Struct, frozen=True, gc=False):
    """One request against its conversation's baselines.

    `segment` is `model`, `params`, `tools`, `system` or `turn`; `index` the turn's or
    tool's place; `offset` the first differing byte in the body. `lost_tokens` are the
    tokens behind the break that the cache held and that are sent again.
    `expected_tokens` is what the prefix let one expect to be read from the cache,
    `missed_tokens` what of it was not; None when unknown.
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


class Baseline(msgspec.Struct, frozen=True, gc=False):
    """A prefix the provider has seen: as the client sent it and as it was forwarded.

    `plain` is the client's, or the places of what we added to it in `outbound`, which
    tell it: thousands of conversations are remembered, and few are asked for it.
    `frontier_tokens` is how much of it the provider said it holds in its cache, None if
    it did not say. `at` is Unix time, in seconds, of the request that sent it. With
    `is_ledger_lost` it went without what the ledger holds, which may come back. `tried`
    is what would have been forwarded, where adding to it was only tried. `entries` are
    the turns of which the ledger held something, `held` is the digest of that: None
    where nothing may be added.
    """

    plain: Prefix | bytes
    outbound: Prefix
    at: float
    ttl_seconds: float
    frontier_tokens: int | None = None
    is_ledger_lost: bool = False
    tried: Prefix | None = None
    entries: int = 0
    held: int | None = None

    @property
    def inbound(self) -> Prefix:
        """As the client sent it."""
        plain = self.plain
        return without(self.outbound, plain) if isinstance(plain, bytes) else plain

    def turns_ahead(self, element: int) -> int | None:
        """Return how many of the client's turns stand ahead of a forwarded element.

        None where some were condensed: one element stands for several of them.
        """
        plain, ahead, turn = self.inbound.elements, 0, 0
        for place, digest in enumerate(self.outbound.elements):
            if place == element:
                ahead = turn
            turn += plain[turn : turn + 1] == (digest,)
        return ahead if turn == len(plain) else None


_UNCHANGED, _EXTENDED = Verdict("unchanged"), Verdict("extended")

# Gives the kept text of a segment by its digest, or None.
KeptText = Callable[[bytes], bytes | None]


def judge(
    baselines: Sequence[Baseline],
    current: Baseline,
    *,
    body: bytes,
    kept: KeptText,
    own_cause: str | None = None,
) -> Verdict:
    """Compare the current request with the latest baseline, then with the others.

    `baselines` has the latest one first; `own_cause` names a deliberate change of ours.
    """
    if not baselines:
        return Verdict("first")
    latest = baselines[0]
    difference = first_difference(latest.outbound, current.outbound)
    if difference is None:
        old, new = latest.outbound, current.outbound
        return _UNCHANGED if len(old.digests) == len(new.digests) else _EXTENDED
    if _is_end(difference, current):
        return Verdict("shortened")
    if any(_is_intact(other, current) for other in baselines[1:]):
        return Verdict("returned")
    return _explain_break(
        latest, current, difference, body=body, kept=kept, own_cause=own_cause
    )


def _is_intact(old: Baseline, new: Baseline) -> bool:
    difference = first_difference(old.outbound, new.outbound)
    return difference is None or _is_end(difference, new)


def _is_end(difference: Difference, new: Baseline) -> bool:
    """Tell whether all that there is stood there before, and more."""
    return difference.segment == "turn" and difference.index == new.outbound.count


def _explain_break(
    latest: Baseline,
    current: Baseline,
    difference: Difference,
    *,
    body: bytes,
    kept: KeptText,
    own_cause: str | None,
) -> Verdict:
    lost = _lost_tokens(latest, current.outbound, difference)
    if _is_ours(latest, current, difference):
        return Verdict(
            "broken",
            difference.segment,
            own_cause or "sidecar_changed",
            "sidecar",
            difference.index,
            lost_tokens=lost,
        )
    cause, index, offset = _client_cause(latest, current, difference, body, kept)
    owner = "parameter" if difference.segment == "params" else "client"
    return Verdict(
        "broken", difference.segment, cause, owner, index, offset, lost_tokens=lost
    )


def _is_ours(latest: Baseline, current: Baseline, difference: Difference) -> bool:
    """Tell whether what the client sent is no reason to differ there."""
    inner = first_difference(latest.inbound, current.inbound)
    if inner is None:
        return True
    if inner.segment != "turn":
        return False
    if inner.index == current.inbound.count:
        return True
    ahead = latest.turns_ahead(difference.index)
    return ahead is not None and ahead < inner.index


def _lost_tokens(latest: Baseline, new: Prefix, difference: Difference) -> int:
    """Return what stood behind the break, is sent again, and was in the cache.

    Without a word of the provider all that was sent may have been in its cache.
    """
    old = latest.outbound
    order = (*old.order, "turn")
    behind = order[order.index(difference.segment) :]
    names = [name for name in behind if name != "turn"]
    lost = sum(min(old.head(name).tokens, new.head(name).tokens) for name in names)
    index = difference.index if difference.segment == "turn" else 0
    lost += min(old.tokens_from(index), new.tokens_from(index))
    if latest.frontier_tokens is None:
        return lost
    ahead = old.total_tokens - old.tokens_from(index)
    ahead -= sum(old.head(name).tokens for name in names)
    return min(lost, max(0, latest.frontier_tokens - ahead))


def _client_cause(
    latest: Baseline,
    current: Baseline,
    difference: Difference,
    body: bytes,
    kept: KeptText,
) -> tuple[str, int | None, int | None]:
    """Return cause, index and byte offset of a break the client made."""
    name = difference.segment
    if name == "turn":
        inner = first_difference(latest.inbound, current.inbound)
        index = inner.index if inner and inner.segment == "turn" else difference.index
        return turn_cause(latest.inbound, current.inbound, index), index, None
    segment = current.outbound.head(name)
    is_gone = segment.end == 0
    if name in ("model", "params"):
        word = "model_changed" if name == "model" else "parameter_changed"
        return word, None, segment.start or None
    old = latest.outbound.head(name)
    # A segment that was not there has the empty digest and the empty text.
    old_text = kept(old.digest) if old.digest else b""
    new_text = body[segment.start : segment.end]
    start = common_bytes(old_text, new_text) if old_text else 0
    offset = None if is_gone else segment.start + start
    if name == "system":
        return system_cause(old_text, new_text), None, offset
    cause, tool = tools_cause(old_text, new_text)
    return cause, tool, offset


def matching_baseline(
    baselines: Sequence[Baseline], current: Baseline, verdict: Verdict
) -> Baseline | None:
    """Return the baseline that the request goes on from, or else the latest.

    `verdict` is the request's own, judged by these baselines.
    """
    if verdict.verdict == "returned":
        return next(b for b in baselines[1:] if _is_intact(b, current))
    return baselines[0] if baselines else None


def weigh_usage(
    verdict: Verdict, latest: Baseline | None, usage: Usage | None, *, now: float
) -> Verdict:
    """Add what the cache was expected to give and, if it did not, whose loss it is."""
    expected = _expected_tokens(verdict, latest)
    if expected is None or usage is None or usage.cache_read is None or latest is None:
        return verdict
    missed = expected - usage.cache_read
    missed = missed if missed > 0 else 0
    is_small = missed <= _SLACK_TOKENS or (missed <= expected * _SLACK_PERCENT // 100)
    if verdict.verdict == "broken" or is_small:
        return msgspec.structs.replace(
            verdict, expected_tokens=expected, missed_tokens=missed
        )
    is_late = now - latest.at > latest.ttl_seconds
    return msgspec.structs.replace(
        verdict,
        segment="turn",
        cause="ttl_expired" if is_late else "provider_miss",
        owner="ttl" if is_late else "provider",
        lost_tokens=missed,
        expected_tokens=expected,
        missed_tokens=missed,
    )


def _expected_tokens(verdict: Verdict, latest: Baseline | None) -> int | None:
    """Return how many tokens the provider should read; None if it cannot be told."""
    if latest is None or latest.frontier_tokens is None:
        return None
    if verdict.verdict in ("extended", "unchanged"):
        return latest.frontier_tokens
    return None
