"""What a memory record is found by: its words, and the threes of letters in them.

Rules:
- Words are folded by the sources' own rule, which is handed in; it knows no endings but
  the English plural. Threes find `базы` by `база` and `Zwiebeln` by `zwiebel`, in any
  language and without a dictionary. Measured over 47 questions in 19 languages and two
  kinds of identifiers (`tests/proxy/stores/test_memory_terms.py`): FTS5's `unicode61`
  finds 18, its `trigram` 40 (nothing shorter than three characters), words alone 33,
  words with threes 47.
- A three is marked, so that it is never taken for a word.
- A score is the share of the asked terms' weight that a record's terms have.
"""

import math
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

Words = Callable[[str], Iterator[str]]

MOST_CHARACTERS = 4_000
"""Of a question; a record is indexed whole."""

MOST_TERMS = 32
"""The rarest terms carry a question; the rest of a pasted log is only work."""

MOST_UNKNOWN_WORDS = 4
"""Unknown words lower a score, but a page of them must not hide a good hit."""

_THREE = 3
# No word has it: it parts words.
_MARK = "_"


@dataclass(frozen=True, slots=True)
class Asked:
    """A question as terms with their weights; `whole` is the best score's weight."""

    weights: Mapping[str, float]
    whole: float

    def score(self, terms: Collection[str]) -> float:
        """Return the share of the question's weight that a record's terms have."""
        if not self.whole:
            return 0.0
        found = sum(self.weights[term] for term in self.weights if term in terms)
        return round(min(1.0, found / self.whole), 9)


def terms_of(text: str, words_of: Words) -> tuple[str, ...]:
    """Return each term of a text once, in the order in which they come."""
    found: dict[str, None] = {}
    for word in words_of(text):
        found[word] = None
        if len(word) > 1 and not word.isascii():
            # A pair of characters of Chinese or Japanese is found by one of them, too.
            found.update(dict.fromkeys(word) if _is_pair(word) else {})
        found.update(dict.fromkeys(_threes(word)))
    return tuple(found)


def asked_terms(text: str, words_of: Words) -> tuple[str, ...]:
    """Return the terms of a question, of its start if it is long."""
    found: dict[str, None] = {}
    for word in words_of(text[:MOST_CHARACTERS]):
        found[word] = None
        found.update(dict.fromkeys(_threes(word)))
    return tuple(found)


def weigh_terms(
    terms: Sequence[str], held: Mapping[str, int], records: int
) -> Asked | None:
    """Weigh a question's terms by how few records have them; None if none has any.

    `held` tells for each known term how many of all records have it.
    """
    known = [(-_weight(records, held[term]), term) for term in terms if held.get(term)]
    if not known:
        return None
    rarest = sorted(known)[:MOST_TERMS]
    weights = {term: -negative for negative, term in rarest}
    words = [term for term in terms if term[0] != _MARK and not held.get(term)]
    unknown = min(len(words), MOST_UNKNOWN_WORDS) * _weight(records, 0)
    return Asked(weights, sum(weights.values()) + unknown)


def _weight(records: int, holding: int) -> float:
    """Return a term's weight, above 0 even where every record has it."""
    return math.log(1 + max(0.0, records - holding + 0.5) / (holding + 0.5))


def _threes(word: str) -> Iterator[str]:
    if len(word) > _THREE:
        for start in range(len(word) - _THREE + 1):
            yield f"{_MARK}{word[start : start + _THREE]}"


def _is_pair(word: str) -> bool:
    return len(word) == _THREE - 1 and not any(c.islower() for c in word)
