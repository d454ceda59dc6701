import pytest
from hypothesis import given
from hypothesis import strategies as st

from deuz_proxy.sources.found import FoundChunk
from deuz_proxy.sources.scores import (
    Fitting,
    digits_in_python,
    load_rounding,
    nine_digits,
    scored_hits,
)

NEAR_TIES = st.tuples(st.integers(0, 10**12), st.floats(-1e-12, 1e-12)).map(
    lambda drawn: max(0.0, (drawn[0] + 0.5) / 1e9 + drawn[1])
)


def fitting(name: str, fit: float, share: float) -> Fitting:
    return fit, share, FoundChunk(1, name, 1, "top", name, f" {name} ", "d")


@given(st.floats(0, 1_000) | NEAR_TIES)
def test_nine_digits_are_those_that_rounding_gives(number: float) -> None:
    assert nine_digits(number) == digits_in_python(number) == round(number, 9)


@pytest.mark.parametrize(
    "number", [-0.3, -1.0, 1e15, 1e300, 7, 0, -0.0, 10_000.0000000005]
)
def test_other_numbers_are_rounded_as_well(number: float) -> None:
    assert nine_digits(number) == round(number, 9)


def test_no_number_is_an_error() -> None:
    with pytest.raises(TypeError):
        nine_digits("1")  # type: ignore[arg-type]  # As said.


def test_where_it_was_not_built_python_rounds() -> None:
    assert nine_digits is not digits_in_python
    assert load_rounding("deuz_proxy.sources.no_such") is digits_in_python


def test_what_fits_better_is_worth_no_less_than_what_has_more_words() -> None:
    found = [fitting("a", 0.6, 0.5), fitting("b", 0.4, 0.8), fitting("c", 0.2, 0.1)]

    hits = scored_hits(found, (), 0.2)

    assert [(hit.name, hit.score) for hit in hits] == [("a", 0.77), ("b", 0.74)]


def test_a_fit_above_the_whole_counts_as_the_whole() -> None:
    (hit,) = scored_hits([fitting("a", 1.2, 1.1)], (), 0.0)

    assert hit.score == 1.0


def test_words_that_hold_a_question_together_change_the_order() -> None:
    found = [fitting("a", 0.6, 0.5), fitting("b", 0.6, 0.5), fitting("c", 0.5, 0.5)]

    hits = scored_hits(found, [(" c ", 0.2)], 0.0)

    assert [hit.name for hit in hits] == ["c", "a", "b"]
    assert hits[0].score == round(0.85 * 0.5 + (1 - 0.85) * 0.7, 9)
