from hypothesis import given
from hypothesis import strategies as st

from deuz_compiler.tokens.memo import Counted, TokenMemo, count_texts

TEXTS = st.lists(st.binary(max_size=4), max_size=12)


class Counter:
    """Counts bytes and remembers what it was asked."""

    def __init__(self) -> None:
        self.asked: list[bytes] = []

    def __call__(self, text: bytes) -> int:
        self.asked.append(text)
        return len(text) + 1


def counted(
    texts: list[bytes], memo: TokenMemo, name: str = "e"
) -> tuple[tuple[Counted, ...], TokenMemo, list[bytes]]:
    counter = Counter()
    found, after = count_texts(texts, counter, estimator=name, memo=memo)
    return found, after, counter.asked


@given(st.lists(TEXTS, max_size=8), st.integers(1, 6))
def test_memo_never_changes_a_count_and_stays_bounded(
    requests: list[list[bytes]], most: int
) -> None:
    memo = TokenMemo(most_texts=most)
    for texts in requests:
        found, memo, _ = counted(texts, memo)

        assert [text.tokens for text in found] == [len(text) + 1 for text in texts]
        assert len(memo.young) <= most
        assert len(memo.old) <= most


@given(TEXTS, TEXTS)
def test_only_new_texts_are_counted_and_each_once(
    known: list[bytes], new: list[bytes]
) -> None:
    _, memo, _ = counted(known, TokenMemo())

    _, after, asked = counted([*known, *new], memo)

    assert asked == [t for t in dict.fromkeys(new) if t not in known]
    assert counted([*known, *new], after)[1:] == (after, [])


def test_counting_the_same_gives_back_the_same_memo() -> None:
    _, memo, _ = counted([b"a", b"b"], TokenMemo())

    assert counted([b"b", b"a"], memo)[1] is memo


def test_what_is_in_use_outlives_what_is_not() -> None:
    memo = TokenMemo(most_texts=3)
    for turn in range(20):
        _, memo, asked = counted([b"in use", b"%d" % turn], memo)
        assert asked == ([b"in use", b"0"] if turn == 0 else [b"%d" % turn])

    assert counted([b"0"], memo)[2] == [b"0"]


def test_request_larger_than_the_memo_is_counted_whole() -> None:
    texts = [b"%d" % n for n in range(10)]

    found, memo, asked = counted(texts, TokenMemo(most_texts=4))

    assert len(found) == 10
    assert asked == texts
    assert len(memo.young) == 4
    assert counted(texts[-4:], memo)[2] == []


def test_another_estimator_starts_with_an_empty_memo_of_the_same_size() -> None:
    _, memo, _ = counted([b"a"], TokenMemo(most_texts=7))

    _, other, asked = counted([b"a"], memo, name="other")

    assert asked == [b"a"]
    assert (other.estimator, other.most_texts) == ("other", 7)
