"""Token counts of an answer, in one convention for all providers.

Rules:
- The four counts are disjoint: total input is uncached + cache_read + cache_write.
- None is "not reported" and never becomes 0.
- Providers that count cached tokens inside the input are told apart by the shape of
  their answer, not by a model's name.
"""

import msgspec


class Usage(msgspec.Struct, frozen=True):
    """Disjoint token counts of one answer. `reasoning` is a part of `output`.

    `is_anomalous` says that a count was negative or that the parts contradict each
    other; such counts are clamped, never trusted.
    """

    input_uncached: int | None = None
    cache_read: int | None = None
    cache_write: int | None = None
    output: int | None = None
    reasoning: int | None = None
    is_anomalous: bool = False

    @property
    def input_total(self) -> int | None:
        """All input tokens, cached ones included; None if nothing was reported."""
        parts = [self.input_uncached, self.cache_read, self.cache_write]
        known = [part for part in parts if part is not None]
        return sum(known) if known else None
