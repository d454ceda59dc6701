"""What texts have cost before, so that a count grows with new text only.

Rules:
- A memo is a value: counting gives back the next one, and the caller keeps it.
- It never changes a count, only its cost: the key is of the exact bytes.
- It belongs to one estimator; for another one it is as good as empty.
- It is bounded: two generations, of which the older is dropped as a whole. What is in
  use moves to the younger, so a long conversation is not forgotten piece by piece.
"""

from collections.abc import Callable, Mapping, Sequence

import msgspec
import xxhash

MOST_TEXTS = 8192  # About a megabyte for each generation.


class TokenMemo(msgspec.Struct, frozen=True, gc=False):
    """Tokens by the digest of a text, at most twice `most_texts` of them."""

    estimator: str = ""
    young: Mapping[bytes, int] = {}
    old: Mapping[bytes, int] = {}
    most_texts: int = MOST_TEXTS


class Counted(msgspec.Struct, frozen=True, gc=False):
    """A text's digest, 16 bytes, and its tokens."""

    digest: bytes
    tokens: int


def count_texts(
    texts: Sequence[bytes],
    count: Callable[[bytes], int],
    *,
    estimator: str,
    memo: TokenMemo,
) -> tuple[tuple[Counted, ...], TokenMemo]:
    """Return each text's tokens and the memo that knows them."""
    if memo.estimator != estimator:
        memo = TokenMemo(estimator, most_texts=memo.most_texts)
    fresh: dict[bytes, int] = {}
    counted = []
    for text in texts:
        digest = xxhash.xxh3_128_digest(text)
        tokens = memo.young.get(digest, fresh.get(digest))
        if tokens is None:
            tokens = memo.old.get(digest)
            tokens = fresh[digest] = count(text) if tokens is None else tokens
        counted.append(Counted(digest, tokens))
    return tuple(counted), _remembered(memo, fresh, counted) if fresh else memo


def _remembered(
    memo: TokenMemo, fresh: Mapping[bytes, int], counted: Sequence[Counted]
) -> TokenMemo:
    young = {**memo.young, **fresh}
    if len(young) <= memo.most_texts:
        return msgspec.structs.replace(memo, young=young)
    newest = counted[-memo.most_texts :]
    in_use = {text.digest: text.tokens for text in newest}
    return msgspec.structs.replace(memo, young=in_use, old=memo.young)
