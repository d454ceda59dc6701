"""Learn from reported usage how far a model's own count is from the estimate.

Rules:
- A pure state for one model: a new model starts anew, nothing carries over.
- The factor is in thousandths and bounded; a sample can move it, never break it.
- The first sample is believed at once, later ones by the share that keeps the mean of
  the newest few. So a constant ratio is met within eight samples, and one odd answer is
  forgotten as fast.
- Usage far below the estimate means that the server cut the prompt. It says nothing of
  the tokenizer and is not learnt from.
"""

import msgspec

NEUTRAL = 1000
LOWEST, HIGHEST = 250, 4000
# A fifth: no tokenizer in use is that far below the estimate on mixed text.
_CUT_PERMILLE = 200
_LEAST_SHARE = 3  # One third: the newest sample's weight once some are known.


class Calibration(msgspec.Struct, frozen=True, gc=False):
    """What is known of one model: thousandths to multiply by, and samples seen."""

    model: str = ""
    factor_permille: int = NEUTRAL
    samples: int = 0

    @property
    def is_calibrated(self) -> bool:
        """Tell whether real usage has been seen."""
        return self.samples > 0


def observe_usage(
    state: Calibration, *, model: str, estimated: int, actual: int
) -> Calibration:
    """Return the state after one answer.

    `estimated` is the plain estimate of what was sent, without the factor; `actual` all
    input tokens that the provider reports, cached ones included.
    """
    if model != state.model:
        state = Calibration(model)
    if estimated <= 0 or actual <= 0:
        return state
    ratio = actual * NEUTRAL // estimated
    if ratio < _CUT_PERMILLE:
        return state
    samples, factor = state.samples + 1, state.factor_permille
    # Written out: each of these is asked for every answer, and a call takes longer.
    if ratio < LOWEST:
        ratio = LOWEST
    elif ratio > HIGHEST:
        ratio = HIGHEST
    difference = ratio - factor
    if difference:
        share = samples if samples < _LEAST_SHARE else _LEAST_SHARE
        factor += _rounded(difference, share)
    return Calibration(model, factor, samples)


def calibrated(state: Calibration, model: str, tokens: int) -> int:
    """Return the estimate corrected for the model; as it is for any other model."""
    if model != state.model:
        return tokens
    return -(-tokens * state.factor_permille // NEUTRAL)


def _rounded(difference: int, share: int) -> int:
    """Divide towards a step of at least one, so that a factor never stops short."""
    step = abs(difference) // share or 1
    return step if difference > 0 else -step
