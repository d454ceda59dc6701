"""What the providers' own counts taught about each model's tokens.

Rules:
- Bounded: the model that was used the longest ago is forgotten.
- Used from the loop's thread only.
"""

from collections import OrderedDict

from deuz_compiler import Calibration, calibrated, observe_usage

_MOST_MODELS = 256


class Estimates:
    """Calibrations by model name, as requests spell it."""

    def __init__(self) -> None:
        self._known: OrderedDict[str, Calibration] = OrderedDict()

    def calibrated(self, model: str, tokens: int) -> int:
        """Return the estimate corrected by what the model's answers reported."""
        state = self._known.get(model)
        return tokens if state is None else calibrated(state, model, tokens)

    def learn(self, model: str, *, estimated: int, actual: int) -> None:
        """Take one answer's own count beside our estimate of what was sent."""
        state = self._known.get(model) or Calibration(model)
        self._known[model] = observe_usage(
            state, model=model, estimated=estimated, actual=actual
        )
        self._known.move_to_end(model)
        while len(self._known) > _MOST_MODELS:
            self._known.popitem(last=False)
