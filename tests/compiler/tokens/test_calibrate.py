import pytest
from hypothesis import given
from hypothesis import strategies as st

from deuz_compiler.tokens.calibrate import (
    HIGHEST,
    LOWEST,
    NEUTRAL,
    Calibration,
    calibrated,
    observe_usage,
)


def learnt(*samples: tuple[int, int], model: str = "m") -> Calibration:
    state = Calibration(model)
    for estimated, actual in samples:
        state = observe_usage(state, model=model, estimated=estimated, actual=actual)
    return state


@given(
    start=st.integers(LOWEST, HIGHEST),
    ratio=st.integers(LOWEST, HIGHEST),
    base=st.integers(1_000, 500_000),
)
def test_constant_ratio_is_met_within_eight_samples(
    start: int, ratio: int, base: int
) -> None:
    state = Calibration("m", start, samples=9)
    for _ in range(8):
        state = observe_usage(
            state, model="m", estimated=base, actual=base * ratio // NEUTRAL
        )

    miss = abs(state.factor_permille - ratio)
    # From anywhere within the bounds, a 26th of the first distance is left.
    assert miss <= abs(start - ratio) // 25 + 4


@pytest.mark.parametrize("ratio", [250, 500, 900, 1_300, 2_000, 4_000])
def test_fresh_state_is_within_five_percent_after_eight_samples(ratio: int) -> None:
    state = learnt(*[(1_000, ratio)] * 8)

    assert abs(calibrated(state, "m", 10_000) / (10 * ratio) - 1) < 0.05


@given(st.lists(st.tuples(st.integers(-9, 10**6), st.integers(-9, 10**8))))
def test_factor_never_leaves_its_bounds(samples: list[tuple[int, int]]) -> None:
    assert LOWEST <= learnt(*samples).factor_permille <= HIGHEST


@pytest.mark.parametrize("sample", [(0, 100), (100, 0), (-5, 100), (100, -5)])
def test_sample_without_tokens_teaches_nothing(sample: tuple[int, int]) -> None:
    before = learnt((100, 150))

    after = observe_usage(before, model="m", estimated=sample[0], actual=sample[1])

    assert after == before


def test_silently_cut_prompt_teaches_nothing() -> None:
    before = learnt((1_000, 1_100))

    assert observe_usage(before, model="m", estimated=40_000, actual=2_051) == before


def test_one_odd_sample_is_forgotten() -> None:
    state = learnt((1_000, 1_000), (1_000, 4_000), *[(1_000, 1_000)] * 8)

    assert abs(state.factor_permille - NEUTRAL) < 75


def test_new_model_starts_anew() -> None:
    state = observe_usage(learnt((100, 200)), model="n", estimated=100, actual=110)

    assert state == Calibration("n", 1_100, 1)
    assert calibrated(state, "m", 70) == 70
    assert calibrated(state, "n", 100) == 110


def test_only_real_usage_makes_it_calibrated() -> None:
    assert not Calibration("m").is_calibrated
    assert learnt((100, 100)).is_calibrated
