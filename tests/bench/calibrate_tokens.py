"""Fit the weights of `tokens/weights.py` to real vocabularies and show the errors.

Run `python tests/bench/calibrate_tokens.py` from the repository root. It needs `numpy`
and `splintr-rs`, prints both sets of weights and, for each class of text, the median
and 95th percentile of the error beside flat 3.6 and 4 characters per token. It changes
no file: paste what it prints, the last line into `counts.json` beside the samples'
folder.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module

import numpy as np

from deuz_compiler.tokens.estimate import estimate_text, traits_of
from deuz_compiler.tokens.weights import BROAD, CURRENT, Weights
from deuz_testing.texts import classes_of_text, pieces_of

CURRENT_VOCABULARY = "o200k_base"
BROAD_VOCABULARIES = (
    "o200k_base",
    "cl100k_base",
    "llama3",
    "deepseek_v3",
    "qwen3",
    "mistral_v3",
    "kimi_k2",
    "gemma3",
)
# Fits on small samples run away where two traits always come together: a wide comma
# stands in every Chinese sentence. Greek has no sample; it is priced like its alphabet.
LEAST = {"cyrillic": 0.09, "greek": 0.45, "latin": 0.8, "wide": 0.9, "blank": 0.1}
MOST = {"wide": 1.3, "symbol": 1.2, "latin": 1.6, "greek": 0.45}
UNDER_SHARE = 0.8  # Too few weighs four times as much as too many.

Count = Callable[[str], int]


def fit(texts: Mapping[str, str], count: Count) -> Weights:
    """Return non-negative weights, by least squares of the relative error."""
    rows, reals, shares = [], [], []
    for text in texts.values():
        pieces = pieces_of(text)
        for piece in pieces:
            traits = traits_of(piece.encode())
            rows.append(traits + (0,) * (len(Weights._fields) - len(traits)))
            reals.append(count(piece))
            shares.append(len(pieces) ** -0.5)
    table, real = np.array(rows, float), np.array(reals, float)
    base = np.array(shares) / real
    weight = base
    costs = np.zeros(table.shape[1])
    for _ in range(12):
        costs = _solve(table * weight[:, None], real * weight)
        is_under = table @ costs < real
        weight = base * np.where(is_under, UNDER_SHARE, 1 - UNDER_SHARE) ** 0.5
    return Weights(*(round(1000 * float(cost)) for cost in costs))


def _solve(traits: np.ndarray, real: np.ndarray) -> np.ndarray:
    """Coordinate descent with a least and a most for each weight."""
    names = Weights._fields
    low = np.array([LEAST.get(name, 0.0) for name in names])
    high = np.array([MOST.get(name, 9.0) for name in names])
    square = traits.T @ traits + 1e-6 * np.eye(traits.shape[1])
    target = traits.T @ real
    costs = low.copy()
    for _ in range(600):
        for at in range(len(costs)):
            step = (square[at] @ costs - target[at]) / square[at, at]
            costs[at] = min(high[at], max(low[at], costs[at] - step))
    return costs


def errors(texts: Sequence[str], count: Count, guess: Count) -> tuple[float, float]:
    """Return the median and the 95th percentile of the relative error."""
    real = np.array([count(text) for text in texts], float)
    off = np.array([guess(text) for text in texts], float) / real - 1
    return float(np.median(off)), float(np.percentile(np.abs(off), 95))


def main() -> None:
    splintr = import_module("splintr")
    vocabularies = {
        name: splintr.Tokenizer.from_pretrained(name) for name in BROAD_VOCABULARIES
    }

    def current(text: str) -> int:
        return len(vocabularies[CURRENT_VOCABULARY].encode(text))

    def broad(text: str) -> int:
        return max(len(vocabulary.encode(text)) for vocabulary in vocabularies.values())

    texts = classes_of_text()
    for name, count in (("CURRENT", current), ("BROAD", broad)):
        print(name, fit(texts, count))
    for weights, count in ((CURRENT, current), (BROAD, broad)):
        print("\nclass          ours          3.6           4    (median, p95)")
        for name, text in texts.items():
            pieces = pieces_of(text)
            guesses: tuple[Count, ...] = (
                lambda piece: estimate_text(piece, weights),  # noqa: B023
                lambda piece: round(len(piece) / 3.6),
                lambda piece: len(piece) // 4,
            )
            cells = [errors(pieces, count, guess) for guess in guesses]
            row = "   ".join(f"{middle:+.2f} {high:.2f}" for middle, high in cells)
            print(f"{name:14} {row}")
    counts = {name: (current(text), broad(text)) for name, text in texts.items()}
    print(json.dumps(counts))


if __name__ == "__main__":
    main()
