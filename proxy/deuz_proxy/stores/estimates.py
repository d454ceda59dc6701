"""What the providers' own counts taught about each model's tokens, and what texts cost.

Rules:
- Bounded: the model that was used the longest ago is forgotten, and so are texts.
- A text is known by its hash: none is kept.
- Used from the loop's thread only.
"""

from collections import OrderedDict
from collections.abc import Sequence
from functools import partial

import xxhash

from deuz_compiler import (
    Calibration,
    Estimator,
    calibrated,
    estimate_pieces,
    observe_usage,
)

_MOST_MODELS = 256
_MOST_TEXTS = 8_192  # Some 150 bytes each.


class Estimates:
    """Calibrations by model name, as requests spell it."""

    def __init__(self) -> None:
        self._known: OrderedDict[str, Calibration] = OrderedDict()
        self._counted: dict[tuple[str, bytes], int] = {}
        self._costs: dict[tuple[str, bytes], int] = {}

    def calibrated(self, model: str, tokens: int) -> int:
        """Return the estimate corrected by what the model's answers reported."""
        state = self._known.get(model)
        return tokens if state is None else calibrated(state, model, tokens)

    def learn(self, model: str, *, estimated: int, actual: int) -> None:
        """Take one answer's own count beside our estimate of what was sent."""
        known = self._known
        state = known.get(model) or Calibration(model)
        known[model] = observe_usage(
            state, model=model, estimated=estimated, actual=actual
        )
        known.move_to_end(model)
        if len(known) > _MOST_MODELS:
            known.popitem(last=False)

    def count_text(self, estimator: Estimator, text: str) -> int:
        """Return the estimate of a text that is likely to come again: a record's."""
        digest = xxhash.xxh3_128_digest(text.encode("utf-8", "surrogatepass"))
        tokens = self._counted.get((estimator.name, digest))
        if tokens is None:
            if len(self._counted) >= _MOST_TEXTS:
                self._counted.clear()
            tokens = estimator.count_text(text)
            self._counted[estimator.name, digest] = tokens
        return tokens

    def count_pieces(self, estimator: Estimator, pieces: Sequence[str]) -> int:
        """Return the estimate of a text of which pieces are likely to come again.

        What `estimate_pieces` asks of them holds for those of a block.
        """
        tokens = None
        if estimator.cost_piece is not None:
            raw = [piece.encode("utf-8", "replace") for piece in pieces]
            tokens = estimate_pieces(raw, partial(self._cost, estimator))
        return estimator.count_text("".join(pieces)) if tokens is None else tokens

    def _cost(self, estimator: Estimator, piece: bytes) -> int:
        key = estimator.name, xxhash.xxh3_128_digest(piece)
        cost = self._costs.get(key)
        if cost is None and estimator.cost_piece is not None:
            if len(self._costs) >= _MOST_TEXTS:
                self._costs.clear()
            cost = self._costs[key] = estimator.cost_piece(piece)
        return cost or 0
