"""Text as search words: the same rule for what is indexed and for what is asked.

Rules:
- A word is letters and digits only, so no word can be an operator of the index.
- Case, accents and English plurals are folded; `getUserName` is also three words.
- Chinese, Japanese and Korean have no spaces: they are taken in pairs of characters.
- Texts share most of their words: what is worked out for one is kept for the next.
- Runs of a question are told apart in C (`_best_rows.c`) where that was built.
"""

import re
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import lru_cache
from itertools import chain

from deuz_proxy.sources.best_rows import BUILT, load_built

# Runs of letters and digits; `_` parts words, as in most identifiers.
_RUN = re.compile(r"[^\W_]+")
_HUMPS = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
_CJK = re.compile(
    r"[\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af\uf900-\ufaff]+"
)
# Longer runs are encoded data: they would fill the index and never be asked for.
_LONGEST_WORD = 64
# What parts words in ASCII; what may do so beyond it is left for `words_of` to tell.
_BREAKS = bytes(
    code if code > 127 or chr(code).isalnum() or code == ord("_") else ord(" ")  # noqa: PLR2004  # ASCII.
    for code in range(256)
)
PartRuns = Callable[[bytes], list[bytes]]
"""Takes a text in UTF-8, returns its runs without a break, each once, in order."""
# Of 50 MB of documents and code: 6 million words, 220 000 different ones.
_MOST_KEPT = 50_000


class KeptWords:
    """`words_of` for many texts: a run that comes again is not worked out again.

    Bounded: what was not met among the last different ones is let go. One thread's at
    a time.
    """

    def __init__(self) -> None:
        self._runs = _Runs()
        self._distinct_runs = load_parter()

    def join(self, text: str) -> str:
        """Return the search words of the text, with spaces between them."""
        return " ".join(self._words(_runs_of(text)))

    def distinct(self, text: str) -> Sequence[str]:
        """Return the search words of the text, each once, in the order they come."""
        return list(dict.fromkeys(self._words(self._distinct_runs(_encoded(text)))))

    def distinct_known(self, text: str, most_new_bytes: int) -> Sequence[str] | None:
        """Do as `distinct`; None where runs that were not met before are longer in all.

        A run is what is parted by ASCII; it is told apart into words.
        """
        runs, met = self._distinct_runs(_encoded(text)), self._runs
        if sum([len(run) for run in runs if run not in met]) > most_new_bytes:
            return None
        return list(dict.fromkeys(self._words(runs)))

    def _words(self, runs: Iterable[bytes]) -> Iterator[str]:
        return chain.from_iterable(map(self._runs.__getitem__, runs))


def _encoded(text: str) -> bytes:
    # Half a surrogate pair is part of no word, and becomes a break.
    return text.encode("utf-8", "replace")


def _runs_of(text: str) -> list[bytes]:
    return _encoded(text).translate(_BREAKS).split()


def distinct_in_python(text: bytes) -> list[bytes]:
    """Tell runs apart without what is built."""
    return list(dict.fromkeys(text.translate(_BREAKS).split()))


@lru_cache(maxsize=2)
def load_parter(name: str = BUILT) -> PartRuns:
    """Return what tells runs apart: what was built, or what does without."""
    built: PartRuns | None = load_built("distinct_runs", name)
    return built or distinct_in_python


class _Runs(dict[bytes, tuple[str, ...]]):
    """Runs without a break in ASCII, and the words of each."""

    def __init__(self) -> None:
        super().__init__()
        self._older: dict[bytes, tuple[str, ...]] = {}

    def __missing__(self, run: bytes) -> tuple[str, ...]:
        words = self._older.get(run)
        if words is None:
            # Most are one word of prose, as `words_of` has it.
            is_plain = (
                len(run) <= _LONGEST_WORD and run.isalnum() and run == run.lower()
            )
            text = run.decode()
            words = (_singular(text),) if is_plain else tuple(words_of(text))
        # A longer one is hardly a word, so hardly met again.
        if len(run) <= _LONGEST_WORD:
            if len(self) >= _MOST_KEPT:
                self._older = dict(self)
                self.clear()
            self[run] = words
        return words


def words_of(text: str) -> Iterator[str]:
    """Return the search words of the text, in order, with repetitions."""
    for run in _RUN.findall(text):
        # Most words of prose: nothing in them is folded, parted, or a pair.
        if run.isascii() and run.lower() == run:
            if len(run) <= _LONGEST_WORD:
                yield _singular(run)
            continue
        if len(run) > _LONGEST_WORD and not _CJK.search(run):
            continue
        for part in _CJK.split(run):
            yield from _latin(part)
        for part in _CJK.findall(run):
            yield from _pairs(unicodedata.normalize("NFKC", part))


def _latin(run: str) -> Iterator[str]:
    if not run:
        return
    parts = _HUMPS.split(run)
    yield from _folded(run)
    if len(parts) > 1:
        for part in parts:
            yield from _folded(part)


def _folded(word: str) -> Iterator[str]:
    bare = word
    if not word.isascii():
        apart = unicodedata.normalize("NFKD", word.casefold())
        bare = "".join(c for c in apart if not unicodedata.combining(c))
    # Folding may bring up characters that are no part of a word, as in `½`.
    for run in _RUN.findall(bare.lower()):
        yield _singular(run)


def _singular(word: str) -> str:
    """Strip the English plural (Harman's S stemmer): weak, but never odd."""
    if len(word) <= 3 or not word.endswith("s"):  # noqa: PLR2004  # `gas`, `his`.
        return word
    if word.endswith("ies") and not word.endswith(("eies", "aies")):
        return f"{word[:-3]}y"
    if word.endswith(("us", "ss", "is")):
        return word
    return word[:-1]


def _pairs(run: str) -> Iterator[str]:
    if len(run) == 1:
        yield run
    for index in range(len(run) - 1):
        yield run[index : index + 2]
