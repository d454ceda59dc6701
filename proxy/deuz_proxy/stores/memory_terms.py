"""What a memory record is found by: its words, and the threes of letters in them.

Rules:
- Words are folded by the sources' own rule, which is handed in; it knows no endings but
  the English plural. Threes find `базы` by `база` and `Zwiebeln` by `zwiebel`, in any
  language and without a dictionary. Measured over 47 questions in 19 languages and two
  kinds of identifiers (`tests/proxy/stores/test_memory_terms.py`): FTS5's `unicode61`
  finds 18, its `trigram` 40 (nothing shorter than three characters), words alone 33,
  words with threes 47.
- A three is marked, so that it is never taken for a word.
- A score is the share of the asked terms' weight that a record's terms have, in a set
  of one record as in one of thousands.
"""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

from deuz_proxy.weights import counted_unknown, telling, word_weight

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
# A long record has many words by chance: of two with the same ones the shorter is
# first. A record of some 100 terms, a paragraph, loses 4 in 100, an endless one 20.
_OF_LENGTH, _LONG_TERMS = 0.2, 400
# What the index ranks first is weighed again by the score that is told.
_WEIGHED_PER_HIT, _LEAST_WEIGHED = 4, 80


@dataclass(frozen=True, slots=True)
class Asked:
    """A question as terms with their weights; `whole` is the best score's weight."""

    weights: Mapping[str, float]
    whole: float

    def score(self, terms: Collection[str]) -> float:
        """Return the share of the question's weight that a record's terms have.

        A long record's is a little less.
        """
        if not self.whole:
            return 0.0
        found = sum(self.weights[term] for term in self.weights if term in terms)
        length = _OF_LENGTH * len(terms) / (len(terms) + _LONG_TERMS)
        return round(min(1.0, found / self.whole) * (1.0 - length), 9)


def rows_to_weigh(limit: int) -> int:
    """Return how many records a store weighs for so many hits."""
    return max(_WEIGHED_PER_HIT * limit, _LEAST_WEIGHED)


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
    """Return the terms of a question, of its start if it is long.

    What only holds it together is left out.
    """
    found: dict[str, None] = {}
    for word in telling(words_of(text[:MOST_CHARACTERS])):
        found[word] = None
        found.update(dict.fromkeys(_threes(word)))
    return tuple(found)


def weigh_terms(
    terms: Sequence[str], held: Mapping[str, int], records: int
) -> Asked | None:
    """Weigh a question's terms by how few records have them; None if none has any.

    `held` tells for each known term how many of all records have it.
    """
    known = [
        (-word_weight(records, held[term]), term) for term in terms if held.get(term)
    ]
    if not known:
        return None
    rarest = sorted(known)[:MOST_TERMS]
    weights = {term: -negative for negative, term in rarest}
    words = [term for term in terms if term[0] != _MARK and not held.get(term)]
    # With their threes, as known words count: a few that it shares by chance with the
    # only note there is are no more than that.
    missing = [
        1 + sum(not held.get(three) for three in _threes(word)) for word in words
    ]
    counted = missing[: counted_unknown(len(words), MOST_UNKNOWN_WORDS)]
    unknown = sum(counted) * word_weight(records, 0)
    return Asked(weights, sum(weights.values()) + unknown)


def _threes(word: str) -> Iterator[str]:
    if len(word) > _THREE:
        for start in range(len(word) - _THREE + 1):
            yield f"{_MARK}{word[start : start + _THREE]}"


def _is_pair(word: str) -> bool:
    return len(word) == _THREE - 1 and not any(c.islower() for c in word)
