"""What a cache that was filled without our blocks tells of one filled with them.

Rules:
- The provider's own count is the ground: only what our blocks change of it is
  estimated, on the provider's scale.
- A block is in the cache where the client's turn behind it is, by more than half: one
  behind a cache marker is not written before a later marker covers it.
- Nothing is claimed where the provider did not say what it read.
"""

from deuz_compiler.pieces import Ours
from deuz_compiler.prefix import Prefix
from deuz_compiler.wires.usage import Usage


def predict_read(
    plain: Prefix,
    tried: Prefix,
    *,
    ours: Ours,
    usage: Usage | None,
    broken_at: int | None = None,
) -> int | None:
    """Return how many tokens would be read from the cache with our blocks in place.

    `plain` is what was sent, `tried` the same with our blocks, which are `ours`. Where
    one of them broke the prefix, nothing is read from the element `broken_at` of the
    history on.
    """
    if usage is None or usage.cache_read is None:
        return None
    total, read = usage.input_total, usage.cache_read
    if not read or not total or not plain.total_tokens:
        return read
    scale = total / plain.total_tokens
    found = read + round(_covered(plain, ours, read / scale) * scale)
    if broken_at is None:
        return found
    ahead = tried.total_tokens - tried.tokens_from(broken_at)
    return min(found, round(ahead * scale))


def _covered(plain: Prefix, ours: Ours, read_tokens: float) -> int:
    """Return the tokens of our blocks that stand within what was read."""
    counts = plain.token_counts()
    seen, turns, added = plain.head_tokens, 0, 0
    for number, (place, tokens) in enumerate(ours.pairs()):
        # Our blocks take places, but are no turns of the client's.
        ahead = place - number
        seen += sum(counts[turns:ahead])
        turns = ahead
        behind = counts[ahead : ahead + 1]
        if not behind or seen + behind[0] / 2 > read_tokens:
            break
        added += tokens
    return added
