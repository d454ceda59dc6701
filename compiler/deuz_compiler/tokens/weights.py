"""What each trait of a text costs, in thousandths of a token.

Rules:
- The numbers come from `tests/bench/calibrate_tokens.py`, which fits them to real
  vocabularies; do not tune them by hand.
- `CURRENT` is near o200k. `BROAD` stays above 0.8 of every vocabulary it was fitted to,
  older and smaller ones too, which price digits and other scripts up to three times
  higher: for models of unknown make where too few is worse than too many.
"""

from typing import NamedTuple


class Weights(NamedTuple):
    """Thousandths of a token for one of each trait; the order is that of `traits_of`.

    Traits of any text: a `word` begins, each four letters of one, a capital, a capital
    behind a small letter, two capitals, a digit, a number begins, a mark, two marks, a
    blank, a line end, a mark behind a blank. Then letters of other scripts, of which
    some also cost where a word begins.
    """

    word: int
    letters4: int
    capital: int
    camel: int
    capitals: int
    digit: int
    number: int
    mark: int
    marks: int
    blank: int
    line: int
    spaced_mark: int
    symbol: int
    latin: int
    greek: int
    cyrillic: int
    cyrillic_word: int
    arabic: int
    arabic_word: int
    indic: int
    kana: int
    han: int
    hangul: int
    hangul_word: int
    wide: int
    emoji: int


CURRENT = Weights(
    word=862,
    letters4=118,
    capital=378,
    camel=358,
    capitals=1039,
    digit=330,
    number=1052,
    mark=228,
    marks=188,
    blank=164,
    line=637,
    spaced_mark=654,
    symbol=1200,
    latin=1600,
    greek=450,
    cyrillic=90,
    cyrillic_word=1112,
    arabic=297,
    arabic_word=266,
    indic=342,
    kana=761,
    han=728,
    hangul=290,
    hangul_word=1318,
    wide=1300,
    emoji=2262,
)
BROAD = Weights(
    word=831,
    letters4=388,
    capital=809,
    camel=0,
    capitals=0,
    digit=998,
    number=600,
    mark=349,
    marks=0,
    blank=179,
    line=470,
    spaced_mark=862,
    symbol=1200,
    latin=1600,
    greek=450,
    cyrillic=292,
    cyrillic_word=1292,
    arabic=771,
    arabic_word=302,
    indic=1241,
    kana=1053,
    han=1171,
    hangul=1182,
    hangul_word=279,
    wide=1300,
    emoji=4637,
)
