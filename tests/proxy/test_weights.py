import pytest
from hypothesis import given
from hypothesis import strategies as st

from deuz_proxy.sources.words import words_of
from deuz_proxy.weights import FUNCTION_WORDS, counted_unknown, telling, word_weight


def test_function_words_are_written_as_searches_fold_them() -> None:
    odd = [word for word in sorted(FUNCTION_WORDS) if list(words_of(word)) != [word]]

    assert odd == []


@pytest.mark.parametrize(
    ("question", "words"),
    [
        ("How do refunds work?", ["refund"]),
        ("What does this mean, and why has it been so?", []),
        ("Wie funktioniert die Erstattung?", ["funktioniert", "erstattung"]),
        ("Где находится база данных?", ["находится", "база", "данных"]),
        ("Comment annuler la commande?", ["annuler", "commande"]),
        ("refund refunds REFUND", ["refund"]),
    ],
)
def test_what_a_question_is_about_is_left_of_it(
    question: str, words: list[str]
) -> None:
    assert telling(words_of(question)) == words


@given(st.integers(1, 10_000), st.data())
def test_a_word_weighs_more_the_fewer_texts_have_it(
    texts: int, data: st.DataObject
) -> None:
    holding = data.draw(st.integers(1, texts))

    assert word_weight(texts, holding - 1) > word_weight(texts, holding) > 0


def test_a_word_that_is_everywhere_weighs_little_except_where_little_is() -> None:
    shares = [word_weight(n, n) / word_weight(n, 0) for n in (1, 5, 50, 5_000)]

    assert shares == sorted(shares, reverse=True)
    assert shares[0] > 0.5
    assert shares[1] < 0.25
    assert shares[3] < 0.001


@pytest.mark.parametrize(
    ("words", "counted"), [(0, 0), (1, 1), (4, 4), (12, 4), (13, 1), (500, 1)]
)
def test_more_unknown_words_than_a_question_has_count_as_one(
    words: int, counted: int
) -> None:
    assert counted_unknown(words, 4) == counted
