from deuz_compiler import Estimator, estimator_for
from deuz_proxy.stores.estimates import Estimates


def counting(name: str, counted: list[str]) -> Estimator:
    def count(text: str) -> int:
        counted.append(text)
        return len(text)

    return Estimator(name, count, len)


def test_without_an_answer_an_estimate_stays_as_it_is() -> None:
    assert Estimates().calibrated("m", 1000) == 1000


def test_answers_of_one_model_correct_its_estimates_and_no_others() -> None:
    estimates = Estimates()
    for _ in range(20):
        estimates.learn("m", estimated=10_000, actual=12_000)

    assert 1_100 < estimates.calibrated("m", 1000) <= 1_250
    assert estimates.calibrated("n", 1000) == 1000


def test_the_model_used_the_longest_ago_is_forgotten() -> None:
    estimates = Estimates()
    for _ in range(20):
        estimates.learn("old", estimated=10_000, actual=20_000)
    for number in range(255):
        estimates.learn(f"m{number}", estimated=10, actual=10)
    assert estimates.calibrated("old", 1000) > 1000

    estimates.learn("one more", estimated=10, actual=10)

    assert estimates.calibrated("old", 1000) == 1000
    assert len(estimates._known) == 256


def test_a_text_that_comes_again_is_not_counted_again() -> None:
    estimates, counted = Estimates(), list[str]()
    narrow, broad = counting("narrow", counted), counting("broad", counted)

    tokens = [
        estimates.count_text(estimator, text)
        for estimator in (narrow, broad)
        for text in ("a", "bb", "a", "\ud800", "bb")
    ]

    assert tokens == [1, 2, 1, 1, 2] * 2
    assert counted == ["a", "bb", "\ud800"] * 2


def test_counts_are_those_of_the_estimator() -> None:
    text = "Refunds take 14 days. größer → 42 €"

    for model in ("gpt-4o", "claude-opus-4-5"):
        estimator = estimator_for(model)
        wanted = estimator.count_text(text)
        assert Estimates().count_text(estimator, text) == wanted


def test_no_more_texts_are_known_than_the_bound_says() -> None:
    estimates, counted = Estimates(), list[str]()
    estimator = counting("any", counted)

    for number in range(8_193):
        estimates.count_text(estimator, f"{number}")
    estimates.count_text(estimator, "0")

    assert counted[-1] == "0"
    assert len(counted) == 8_194
