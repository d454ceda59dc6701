"""How the tokens of a request fall to its segments: reused, lost to a break, or new.

Rules:
- Shares are told by the baseline that the request goes on from, or else the latest.
- What the sidecar added is told apart from what the client wrote.
"""

from collections.abc import Sequence

import msgspec

from deuz_compiler.pieces import Ours
from deuz_compiler.prefix import DIGEST_BYTES, Difference, Prefix, first_difference
from deuz_compiler.verdict import Baseline, Verdict, matching_baseline
from deuz_compiler.wires.turns import sum_tokens

_NONE = Ours()


class SegmentShare(msgspec.Struct, frozen=True, gc=False):
    """Estimated tokens of one prefix segment: reused, lost to a break, or new."""

    segment: str
    reused_tokens: int
    lost_tokens: int
    new_tokens: int


def judged_shares(
    verdict: Verdict,
    baselines: Sequence[Baseline],
    current: Baseline,
    ours: Ours = _NONE,
) -> tuple[SegmentShare, ...]:
    """Return the shares of a request by the baseline that it goes on from.

    `verdict` is the request's own, judged by these baselines.
    """
    if verdict.verdict not in ("extended", "unchanged"):
        reference = matching_baseline(baselines, current, verdict)
        return segment_shares(reference, current.outbound, ours)
    old, new, plain = baselines[0].outbound, current.outbound, current.inbound
    if not (count := ours.count):
        return _kept_shares(old, new, 0, 0)
    # Nearly always all that we added stood there before, and nothing was replaced.
    is_in_place = ours.first >= 0 and ours.last * DIGEST_BYTES < len(old.digests)
    is_more = len(new.digests) == len(plain.digests) + count * DIGEST_BYTES
    if is_in_place and is_more:
        return _kept_shares(old, new, new.history_tokens - plain.history_tokens, 0)
    return segment_shares(baselines[0], new, ours)


def segment_shares(
    latest: Baseline | None, current: Prefix, ours: Ours = _NONE
) -> tuple[SegmentShare, ...]:
    """Split the request's tokens by segment into reused, lost and new.

    Lost is what stood in the baseline too, but behind the break; `ours` is what the
    sidecar added to the history.
    """
    if latest is None:
        return _all_new(current, ours)
    old = latest.outbound
    difference = first_difference(old, current)
    if difference is None:
        reused = _added_tokens(ours, 0, old.count)
        new = _added_tokens(ours, old.count, current.count)
        return _kept_shares(old, current, reused, new)
    shares = []
    for name in ("tools", "system"):
        segment = current.head(name)
        is_reused = _is_before(name, difference, current)
        lost = 0 if is_reused else min(segment.tokens, old.head(name).tokens)
        reused = segment.tokens if is_reused else 0
        new = segment.tokens - reused - lost
        shares.append(SegmentShare(name, reused, lost, new))
    reused_end = difference.index if difference.segment == "turn" else 0
    known = min(old.count, current.count)
    return (*shares, *_history_shares(current, reused_end, known, ours))


def _kept_shares(
    old: Prefix, current: Prefix, own_reused: int, own_new: int
) -> tuple[SegmentShare, ...]:
    """Split the tokens of a prefix that goes on from an old one; `own` are ours."""
    if current.tokens.startswith(old.tokens):
        new = current.history_tokens - old.history_tokens
    else:
        # A marker that is gone changes what a turn takes, but not what it says.
        new = sum_tokens(current.tokens[len(old.tokens) :])
    reused = current.history_tokens - new
    return (
        SegmentShare("tools", current.tools.tokens, 0, 0),
        SegmentShare("system", current.system.tokens, 0, 0),
        SegmentShare("turn", reused - own_reused, 0, new - own_new),
        SegmentShare("context", own_reused, 0, own_new),
    )


def _all_new(current: Prefix, ours: Ours) -> tuple[SegmentShare, ...]:
    added = _added_tokens(ours, 0, current.count)
    return (
        SegmentShare("tools", 0, 0, current.tools.tokens),
        SegmentShare("system", 0, 0, current.system.tokens),
        SegmentShare("turn", 0, 0, current.history_tokens - added),
        SegmentShare("context", 0, 0, added),
    )


def _is_before(name: str, difference: Difference, prefix: Prefix) -> bool:
    order = (*prefix.order, "turn")
    return order.index(name) < order.index(difference.segment)


def _history_shares(
    current: Prefix, reused_end: int, known: int, ours: Ours
) -> tuple[SegmentShare, ...]:
    """Split a history that is reused up to one element, and known up to another."""
    # New and lost are few as a rule: what is reused is the rest, however long.
    new = current.tokens_from(known)
    lost = current.tokens_between(reused_end, known)
    reused = current.history_tokens - new - lost
    if not ours.count:
        turns = SegmentShare("turn", reused, lost, new)
        return (turns, SegmentShare("context", 0, 0, 0))
    context = (
        _added_tokens(ours, 0, reused_end),
        _added_tokens(ours, reused_end, known),
        _added_tokens(ours, known, current.count),
    )
    whole = (reused, lost, new)
    own = (total - added for total, added in zip(whole, context, strict=True))
    return (SegmentShare("turn", *own), SegmentShare("context", *context))


def _added_tokens(ours: Ours, start: int, end: int) -> int:
    """Sum the tokens of what the sidecar added from `start` to `end`."""
    return sum([tokens for place, tokens in ours.pairs() if start <= place < end])
