"""What a word of a question weighs in a search, in sets of any size.

Rules:
- Words that only hold a sentence together are not searched for: in five notes no count
  tells them from those that the question is about.
- A weight is an idf over the set and a few more texts in which no word stands: a word
  that is everywhere still weighs something in a small set, and next to nothing in a
  large one.
"""

import math
from collections.abc import Iterable, Sequence

# With 0, the only note there is weighs a word that it has a fifth of one that it has
# not; with 20, a word that five of five notes have weighs half of one that a single
# note has.
_MORE_TEXTS = 4
_PASTED_WORDS = 12

_ENGLISH = """
a about after again all also am an and any are as at be because been before being both
but by can cannot could did do doe doing done don down each else ever every few for from
further get give go goe got had has have having he her here him his how i if in into is
it its just know ll like many may me mean might more most much must my need no nor not
now of off on once only or other our out over own please s same say she should show so
some such t tell than that the their them then there these they thing this this those
through to too under until up u us use used using ve very want was way we were what when
where whether which while who whom whose why will with work would yes yet you your
"""
_GERMAN = """
aber alle allem allen aller als am an ander auch auf aus bei beim bitte da damit dann da
das dass dein dem den denn der des dessen die diese dieser dir doch du durch ein eine
einem einen einer er es etwa euer fur gibt habe haben ich ihm ihn ihr im immer ist ja
jede jeder jetzt kann kein keine kannst konnen macht mein mich mir mit muss nach nicht
noch nun nur ob oder ohne sein sich sie sind soll sollen uber um und uns unser viel vom
von wann warum was weil welche welcher wenn wer werden wie wieder wieviel wird wo wurde
zu zum zur zwischen
"""
_ROMANCE = """
au aux avec ce cela ces cet cette comme comment de depuis del della di du dove el elle
ella en entre e est esta este et eta etre il ils je la las le les leur lo los lui mais
ma mes mon ne nos notre nous ou para par pas peut por porque pour pourquoi puede puedo
quand qual quando quant que quel quelle questo qui quien quoi se ses si sobre sont sur
tu un una une uno vos votre vous y cual cuando cuanto como con donde perche
"""
_RUSSIAN = """
а бы был была были было быть в вам вас ваш во вот все всех где да для до его ее если
есть еще же за и из или им их к как какая какие какои когда кто ли мне можно мои мы на
над надо не нет ни но ну о об он она они оно от по под почему при про с сам со так такои
там то того тоже только тут ты у уже чего чем что чтобы эта эти это этот я
"""
_CHINESE_AND_JAPANESE = """
什么 怎么 怎样 如何 为什 为何 哪里 哪个 哪些 是否 可以 能否 多少 这个 那个
我们 你们 他们 請問 请问 什麼 怎麼 です ます ませ まし した して する され
れる れま せん すか ので から まで より でき きま どの どう どこ どれ なに
いつ ある りま ない いる ます この その あの こと もの ため
"""

FUNCTION_WORDS = frozenset(
    " ".join((_ENGLISH, _GERMAN, _ROMANCE, _RUSSIAN, _CHINESE_AND_JAPANESE)).split()
)
"""Words that are not searched for, folded as `sources.words` folds."""


def telling(words: Iterable[str]) -> Sequence[str]:
    """Return each word that is worth searching for once, in order."""
    return [word for word in dict.fromkeys(words) if word not in FUNCTION_WORDS]


def word_weight(texts: int, holding: int) -> float:
    """Return the weight of a word that so many of all texts have; always above 0."""
    missing = max(0, texts - holding) + _MORE_TEXTS
    return math.log1p((missing + 0.5) / (holding + 0.5))


def counted_unknown(words: int, most: int) -> int:
    """Return how many of a question's unknown words lower its scores.

    More of them than a question has were pasted with it: they say nothing of what is
    asked, and must not hide what answers.
    """
    return 1 if words > _PASTED_WORDS else min(words, most)
