from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deuz_compiler.records.policy import Share
from deuz_compiler.selection.budget import (
    AddedBudget,
    Window,
    added_budget,
    exact_ratio,
    weigh,
)

WINDOW = Window(1_000, 200)


def test_share_is_taken_from_what_is_still_free() -> None:
    assert added_budget(WINDOW, used_tokens=600).context_tokens == 50


def test_public_example_prints_the_maximum() -> None:
    window = Window(200_000, 8_000)

    assert added_budget(window, used_tokens=12) == AddedBudget(8_192, 191_988)


def test_mandatory_content_may_take_all_that_is_free() -> None:
    assert added_budget(WINDOW, used_tokens=600).ceiling_tokens == 200


@pytest.mark.parametrize("used", [800, 801, 5_000])
def test_full_request_leaves_no_room_and_no_debt(used: int) -> None:
    assert added_budget(WINDOW, used_tokens=used) == AddedBudget(0, 0)


def test_reservation_larger_than_the_window_leaves_no_input() -> None:
    assert Window(100, 200).input_tokens == 0


def test_ratio_is_exact_where_a_float_is_not() -> None:
    assert int(0.29 * 100) == 28
    ratio = exact_ratio(0.29)

    assert added_budget(Window(100, 0), used_tokens=0, ratio=ratio).context_tokens == 29


def test_budget_is_a_whole_number_and_never_more_than_what_is_free() -> None:
    third = added_budget(Window(100, 0), used_tokens=0, ratio=Fraction(1, 3))
    twice = added_budget(Window(100, 0), used_tokens=0, ratio=Fraction(2))

    assert repr(third.context_tokens) == "33"
    assert twice.context_tokens == 100


def test_working_memory_takes_its_part_first() -> None:
    budget = AddedBudget(100, 150)

    assert budget.less(30) == AddedBudget(70, 120)
    assert budget.less(120) == AddedBudget(0, 30)
    assert budget.less(150) == AddedBudget(0, 0)


def test_shares_become_whole_weights() -> None:
    weights = weigh({"memory": 0.4, "rag": 0.4, "transcript": 0.1, "skills": 0.1})

    assert weights == (
        Share("memory", 4),
        Share("rag", 4),
        Share("transcript", 1),
        Share("skills", 1),
    )


@given(
    st.integers(0, 10**6),
    st.integers(0, 10**6),
    st.integers(0, 10**6),
    st.fractions(0, 1),
    st.integers(0, 10**5),
)
def test_budget_never_passes_its_bounds(
    window: int, output: int, used: int, ratio: Fraction, most: int
) -> None:
    budget = added_budget(
        Window(window, output), used_tokens=used, ratio=ratio, max_tokens=most
    )

    assert 0 <= budget.context_tokens <= min(most, budget.ceiling_tokens)
    assert budget.ceiling_tokens == max(0, max(0, window - output) - used)
