import sqlite3

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deuz_proxy.sources.words import (
    KeptWords,
    distinct_in_python,
    load_parter,
    words_of,
)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("Refunds take 14 days.", ["refund", "take", "14", "day"]),
        ("policies boss status analysis", ["policy", "boss", "status", "analysis"]),
        ("gas is his", ["gas", "is", "his"]),
        ("café CAFE Ünïcode", ["cafe", "cafe", "unicode"]),
        ("snake_case-word", ["snake", "case", "word"]),
        ("getUserName", ["getusername", "get", "user", "name"]),
        ("HTTPServer", ["httpserver", "http", "server"]),
        ("Straße ½ ﬁne", ["strasse", "1", "2", "fine"]),
        ("東京都", ["東京", "京都"]),
        ("京", ["京"]),
        ("GPT模型2", ["gpt", "2", "模型"]),
        ("서울시", ["서울", "울시"]),
        ("a" * 65, []),
        ("\ud800 x", ["x"]),
        ('"NEAR( * ^ :-', ["near"]),
        ("", []),
    ],
)
def test_text_becomes_search_words(text: str, words: list[str]) -> None:
    assert list(words_of(text)) == words


@given(st.text(st.characters(codec=None), max_size=60))
def test_a_word_is_letters_and_digits_that_no_index_takes_for_syntax(text: str) -> None:
    index = sqlite3.connect(":memory:")
    index.execute("CREATE VIRTUAL TABLE w USING fts5(body)")

    words = list(words_of(text))
    asked = " OR ".join(f'"{word}"' for word in words) or '"none"'
    index.execute("SELECT * FROM w WHERE w MATCH ?", (asked,)).fetchall()

    assert [word for word in words if not word.isalnum()] == []
    index.close()


@given(st.text(max_size=60))
def test_words_of_words_are_the_same_words(text: str) -> None:
    once = list(words_of(text))

    assert list(words_of(" ".join(once)))[: len(once)] or not once
    for word in once:
        assert next(iter(words_of(word)))


@given(st.lists(st.text(st.characters(codec=None), max_size=80), max_size=4))
def test_kept_words_are_the_words(texts: list[str]) -> None:
    kept = KeptWords()

    for text in texts * 2:
        assert kept.join(text).split() == list(words_of(text))


def test_kept_words_stay_right_when_more_were_met_than_are_kept() -> None:
    kept = KeptWords()

    for first in range(0, 150_000, 1_000):
        text = " ".join(
            f"getUser{n}s snake_{n} days" for n in range(first, first + 999)
        )
        assert kept.join(text).split() == list(words_of(text))
    assert kept.join("getUser7s days") == "getuser7 get user7 day"


@given(st.lists(st.text(st.characters(codec=None), max_size=80), max_size=4))
def test_distinct_words_are_the_words_once(texts: list[str]) -> None:
    kept = KeptWords()

    for text in texts * 2:
        words = list(dict.fromkeys(words_of(text)))
        assert kept.distinct(text) == words
        assert kept.distinct_known(text, 0) in (words, None)


@pytest.mark.parametrize(
    ("text", "most", "is_told"),
    [("abc abc de", 5, True), ("abc abc de", 4, False), ("", 0, True)],
)
def test_as_much_is_told_apart_as_was_not_met_before(
    text: str, most: int, is_told: bool
) -> None:
    kept = KeptWords()

    told = kept.distinct_known(text, most)

    assert (told is not None) is is_told
    assert kept.distinct_known("abc", 3) == ["abc"]
    assert kept.distinct_known("abc", 0) == ["abc"]


@given(
    st.binary(max_size=60)
    | st.text("ab_9 \n\u00e9\u6771\x00", max_size=200).map(str.encode)
    | st.lists(st.integers(0, 40).map(str)).map(" ".join).map(str.encode)
)
def test_runs_are_told_apart_as_without_what_is_built(text: bytes) -> None:
    built = load_parter()

    assert built is not distinct_in_python
    assert built(text) == distinct_in_python(text)


def test_runs_that_fall_into_one_place_are_told_apart_all_the_same() -> None:
    def place(run: bytes) -> int:
        number = 2166136261
        for byte in run:
            number = (number ^ byte) * 16777619 % 2**32
        return (number ^ number >> 15) % 4096

    letters = [chr(code).encode() for code in range(0x10000, 0x30000)]
    text = b" ".join(sorted(letters, key=place)[:600]) + b"! \xf0 \xf0"

    assert load_parter()(text * 2) == distinct_in_python(text * 2)
    assert load_parter()(text) == distinct_in_python(text)


def test_without_what_is_built_runs_are_told_apart_all_the_same() -> None:
    assert load_parter("deuz_proxy.sources._not_built") is distinct_in_python
