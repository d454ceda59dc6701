import pytest
from hypothesis import given
from hypothesis import strategies as st

from deuz_compiler import (
    BlockRecord,
    Estimator,
    estimator_for,
    render_block,
    render_pieces,
    tokenizer_estimator,
)
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


@given(
    texts=st.lists(
        st.text(st.sampled_from(" .<a0A\n\r\tß你é🙂\x7f&;"), max_size=9), max_size=4
    ),
    model=st.sampled_from(["gpt-5", "other"]),
)
def test_a_block_costs_what_its_pieces_do(texts: list[str], model: str) -> None:
    estimates, estimator = Estimates(), estimator_for(model)
    records = [BlockRecord("s", each, "i", "", each, each) for each in texts]

    counts = [
        estimates.count_pieces(estimator, render_pieces(records[:many]))
        for many in (*range(len(records) + 1), len(records))
    ]

    *fewer, whole = [
        estimator.count_text(render_block(records[:many]))
        for many in range(len(records) + 1)
    ]
    assert counts == [*fewer, whole, whole]


@pytest.mark.parametrize("length", [65_000, 66_000])
def test_of_a_long_block_samples_are_counted(length: int) -> None:
    estimator = estimator_for("other")
    records = [
        BlockRecord("s", "k", "i", "", "", "An odd, long text.\n" * (length // 19))
    ]

    tokens = Estimates().count_pieces(estimator, render_pieces(records))

    assert tokens == estimator.count_text(render_block(records))


def test_pieces_are_counted_whole_by_an_estimator_that_takes_no_pieces() -> None:
    estimator = tokenizer_estimator("one a text", lambda _: "t")

    assert Estimates().count_pieces(estimator, ["a", "b"]) == 1


def test_a_piece_that_comes_again_is_not_counted_again() -> None:
    counted: list[bytes] = []

    def cost_piece(raw: bytes) -> int:
        counted.append(raw)
        return 1_000

    estimates, estimator = Estimates(), Estimator("e", len, len, cost_piece)

    tokens = [estimates.count_pieces(estimator, ["a", "b"]) for _ in range(2)]

    assert tokens == [2, 2]
    assert counted == [b"a", b"b"]
