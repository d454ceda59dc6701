"""One way to count tokens, by name: the heuristic, or a real tokenizer in its place.

Rules:
- A tokenizer is plugged in with one line, for example
  `tokenizer_estimator("o200k", tiktoken.get_encoding("o200k_base").encode_ordinary)`.
- Counting can never fail a request: what a tokenizer refuses is estimated.
"""

from collections.abc import Callable, Sized
from functools import partial

import msgspec

from deuz_compiler.tokens.embedded import split_media
from deuz_compiler.tokens.estimate import estimate_bytes, estimate_text, thousandths_of
from deuz_compiler.tokens.families import weights_for
from deuz_compiler.tokens.weights import BROAD, CURRENT


class Estimator(msgspec.Struct, frozen=True, gc=False):
    """How to count; `name` is what telemetry shows.

    `count_text` takes plain text, `count_json` JSON text as it is on the wire.
    `cost_piece` takes a piece of plain text in UTF-8, for `estimate_pieces`; an
    estimator without it takes texts only whole.
    """

    name: str
    count_text: Callable[[str], int]
    count_json: Callable[[bytes], int]
    cost_piece: Callable[[bytes], int] | None = None


HEURISTIC = Estimator(
    "heuristic",
    estimate_text,
    estimate_bytes,
    partial(thousandths_of, weights=CURRENT),
)
BROAD_HEURISTIC = Estimator(
    "heuristic-broad",
    partial(estimate_text, weights=BROAD),
    partial(estimate_bytes, weights=BROAD),
    partial(thousandths_of, weights=BROAD),
)


def estimator_for(model: str) -> Estimator:
    """Return the heuristic that fits the model's family."""
    return BROAD_HEURISTIC if weights_for(model) is BROAD else HEURISTIC


def tokenizer_estimator(name: str, encode: Callable[[str], Sized]) -> Estimator:
    """Return an estimator that counts what `encode` makes of a text."""

    def count_text(text: str) -> int:
        try:
            return len(encode(text))
        # What tokenizers raise for reserved marker strings, odd characters or bytes
        # that their vocabulary lacks.
        except (ValueError, LookupError, TypeError, RuntimeError):
            return estimate_text(text)

    def count_json(raw: bytes) -> int:
        plain, media_tokens = split_media(raw)
        return media_tokens + count_text(plain.decode("utf-8", "replace"))

    return Estimator(name, count_text, count_json)
