import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deuz_compiler.tokens.estimate import estimate_bytes, estimate_text, traits_of
from deuz_compiler.tokens.weights import CURRENT, Weights

ENGLISH = (Path(__file__).parent / "samples/english.txt").read_text("utf-8")
CHINESE = (Path(__file__).parent / "samples/chinese.txt").read_text("utf-8")


@given(st.text(max_size=200))
def test_any_text_has_an_estimate_and_only_nothing_costs_nothing(text: str) -> None:
    assert (estimate_text(text) == 0) == (text == "")


@given(st.binary(max_size=300))
def test_any_bytes_have_an_estimate(raw: bytes) -> None:
    assert (estimate_bytes(raw) == 0) == (raw == b"")


@given(st.text(max_size=80), st.text(max_size=80))
def test_two_texts_cost_about_as_much_as_their_sum(first: str, second: str) -> None:
    apart = estimate_text(first) + estimate_text(second)

    assert abs(estimate_text(first + second) - apart) <= 5


def test_lone_surrogates_are_counted_not_refused() -> None:
    assert estimate_text("a\ud800") >= 1


def named(text: str) -> dict[str, int]:
    traits = traits_of(text.encode())
    return dict(zip(Weights._fields, traits, strict=len(traits) == len(CURRENT)))


def test_traits_of_ascii_text_are_counted() -> None:
    assert named("The fooBar = 1234;\n  XYZ ()") == {
        "word": 3,
        "letters4": 1,
        "capital": 5,
        "camel": 1,
        "capitals": 1,
        "digit": 4,
        "number": 1,
        "mark": 4,
        "marks": 1,
        "blank": 6,
        "line": 1,
        "spaced_mark": 2,
    }


@pytest.mark.parametrize(
    ("text", "trait", "count"),
    [
        ("\u00e9\u1ebf", "latin", 2),
        ("\u03b1", "greek", 1),
        (" \u0434\u0430 \u0434", "cyrillic", 3),
        (" \u0434\u0430 \u0434", "cyrillic_word", 2),
        ("\u0627\u0628", "arabic", 2),
        (" \u0627", "arabic_word", 1),
        ("\u0939\u093f", "indic", 2),
        ("\u3042", "kana", 1),
        ("\u4f60\u597d", "han", 2),
        (" \ud55c\uad6d", "hangul", 2),
        (" \ud55c\uad6d", "hangul_word", 1),
        ("\uff0c", "wide", 1),
        ("\U0001f600", "emoji", 1),
        ("\u201c\u00b0", "symbol", 2),
    ],
)
def test_letters_of_other_scripts_are_counted_by_script(
    text: str, trait: str, count: int
) -> None:
    assert named(text)[trait] == count


def test_accented_letters_do_not_split_a_word() -> None:
    assert named("f\u00fcr \u00e9t\u00e9")["word"] == 2


@pytest.mark.parametrize("text", [ENGLISH, CHINESE], ids=["english", "chinese"])
@pytest.mark.parametrize("is_ascii", [False, True])
def test_json_text_costs_what_it_says(text: str, is_ascii: bool) -> None:
    raw = json.dumps(text, ensure_ascii=is_ascii).encode()

    assert abs(estimate_bytes(raw) / estimate_text(text) - 1) < 0.03


def test_escaped_pair_of_halves_is_one_emoji() -> None:
    assert estimate_bytes(b'"\\ud83d\\ude00"') == estimate_text('"\U0001f600"')


def test_broken_escapes_are_counted_not_refused() -> None:
    assert estimate_bytes(b'"\\u12 \\ud800 \\') >= 1


@pytest.mark.parametrize("repeats", [40, 400])
def test_long_text_is_sampled_and_costs_its_share(repeats: int) -> None:
    whole = estimate_text(ENGLISH * repeats)

    assert abs(whole / (estimate_text(ENGLISH) * repeats) - 1) < 0.02


def test_text_of_one_repeated_line_is_sampled_fairly() -> None:
    line = "7\n"

    assert abs(estimate_text(line * 100_000) / 200_000 - 1) < 0.1


def test_embedded_picture_does_not_count_as_text() -> None:
    small, large = (
        json.dumps(
            {"type": "image", "source": {"type": "base64", "data": "A" * size}}
        ).encode()
        for size in (100_000, 5_000_000)
    )

    assert estimate_bytes(small) == estimate_bytes(large) < 1_700
