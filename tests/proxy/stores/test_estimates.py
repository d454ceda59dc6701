from deuz_proxy.stores.estimates import Estimates


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
