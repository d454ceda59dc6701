"""How much context may be added to a request.

Rules:
- Input tokens are the window less the output reservation; free is what the request
  leaves of them, never negative.
- The budget is a share of what is free, with a maximum; so a long conversation shrinks
  what is added before it overflows.
- Mandatory content may pass the budget up to all that is free.
- Shares are exact: 0.29 of 100 is 29, which it is not with floats.
"""

from collections.abc import Mapping
from fractions import Fraction
from math import lcm

import msgspec

from deuz_compiler.records.policy import Share

DEFAULT_RATIO = Fraction(1, 4)
# The one number of the public design's page that can be inferred from its example.
DEFAULT_MAX_TOKENS = 8_192


class Window(msgspec.Struct, frozen=True, gc=False):
    """A model's context window, and what of it is kept for the answer."""

    context_tokens: int
    output_tokens: int

    @property
    def input_tokens(self) -> int:
        """Tokens that a request may take."""
        return max(0, self.context_tokens - self.output_tokens)


class AddedBudget(msgspec.Struct, frozen=True, gc=False):
    """Room for added context: `context_tokens`, and for mandatory `ceiling_tokens`."""

    context_tokens: int
    ceiling_tokens: int

    def less(self, tokens: int) -> "AddedBudget":
        """Return what working memory leaves when it has taken its part first."""
        return AddedBudget(
            max(0, self.context_tokens - tokens), max(0, self.ceiling_tokens - tokens)
        )


def added_budget(
    window: Window,
    *,
    used_tokens: int,
    ratio: Fraction = DEFAULT_RATIO,
    max_tokens: int = DEFAULT_MAX_TOKENS,
) -> AddedBudget:
    """Return the room for added context beside a request of `used_tokens`."""
    free = max(0, window.input_tokens - used_tokens)
    share = free * ratio.numerator // ratio.denominator
    return AddedBudget(min(share, max_tokens, free), free)


def exact_ratio(number: float | str) -> Fraction:
    """Return the fraction that a decimal number in a config means."""
    return Fraction(str(number))


def weigh(shares: Mapping[str, float]) -> tuple[Share, ...]:
    """Return shares as whole weights that stand to each other as the numbers do."""
    exact = {kind: exact_ratio(number) for kind, number in shares.items()}
    whole = lcm(*[ratio.denominator for ratio in exact.values()])
    return tuple([Share(kind, int(ratio * whole)) for kind, ratio in exact.items()])
