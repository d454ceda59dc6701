import sys
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deuz_proxy.sources.best_rows import (
    FindBest,
    Posting,
    best_in_python,
    load_finder,
    pack,
)

BUILT = load_finder()
BOTH = pytest.mark.parametrize("find_best", [BUILT, best_in_python])

fits = st.floats(1e-9, 2.5) | st.sampled_from([0.1, 0.2, 0.3])
postings = st.dictionaries(st.integers(1, 40), fits, max_size=30).map(
    lambda held: pack(sorted(held), [held[row] for row in sorted(held)])
)
words = st.lists(st.tuples(postings, st.floats(0, 1)), min_size=1, max_size=32)


def asked_of(*held: dict[int, float]) -> list[Posting]:
    return [pack([*each], [*each.values()]) for each in held]


def test_it_is_built_where_tests_run() -> None:
    # Else what follows compares one way with itself.
    assert BUILT is not best_in_python


@given(words=words, rarer=st.integers(0, 32), most=st.integers(1, 12))
def test_what_is_built_finds_what_python_does(
    words: list[tuple[Posting, float]], rarer: int, most: int
) -> None:
    asked = [each for each, _ in words], [share for _, share in words]
    last = min(rarer, len(words))

    found = BUILT(*asked, last, most)

    assert sorted(found) == sorted(best_in_python(*asked, last, most))


@BOTH
def test_best_rows_are_told_with_the_shares_of_their_words(find_best: FindBest) -> None:
    asked = asked_of({1: 0.5, 2: 0.25}, {2: 0.75, 3: 0.5})

    assert find_best(asked, [0.5, 0.25], 1, 1) == [(2, 1.0, 0.75)]


@BOTH
def test_rows_as_good_as_the_last_are_told_with_it(find_best: FindBest) -> None:
    asked = asked_of({1: 0.5, 2: 0.1 + 0.2, 3: 0.3, 4: 0.2})

    found = find_best(asked, [1.0], 0, 2)

    assert sorted(row for row, _, _ in found) == [1, 2, 3]


@BOTH
def test_of_words_of_which_the_rarer_are_added_last(find_best: FindBest) -> None:
    asked = asked_of({1: 0.1}, {1: 0.2}, {1: 0.3})

    sums = [find_best(asked, [0.0] * 3, rarer, 1)[0][1] for rarer in (0, 1)]

    assert sums == [0.1 + 0.2 + 0.3, 0.2 + 0.3 + 0.1]


@BOTH
def test_nothing_has_no_best(find_best: FindBest) -> None:
    assert find_best(asked_of({}), [1.0], 0, 3) == []


@pytest.mark.parametrize(("row", "most"), [(1 << 18, 1), ((1 << 32) - 1, 1), (1, 5000)])
def test_rows_far_apart_and_very_many_are_found_in_python(row: int, most: int) -> None:
    assert BUILT(asked_of({row: 0.5}), [1.0], 0, most) == [(row, 0.5, 1.0)]


@pytest.mark.parametrize(
    "asked",
    [
        ((), [], 0, 1),
        ([b""], [1.0], 0, 1),
        ([()], [1.0], 0, 1),
        ([("", b"")], [1.0], 0, 1),
        ([(b"", "")], [1.0], 0, 1),
        ([(b"123", b"")], [1.0], 0, 1),
        ([(b"1234", b"1234")], [1.0], 0, 1),
        ([(b"", b"")], [], 0, 1),
        ([(b"", b"")], ["1"], 0, 1),
        ([(b"", b"")], [1.0], 2, 1),
        ([(b"", b"")], [1.0], -1, 1),
        ([(b"", b"")], [1.0], 0, "1"),
        ([(b"", b"")] * 65, [1.0] * 65, 0, 1),
    ],
)
def test_built_finder_refuses_what_is_none_of_its_kinds(asked: tuple[Any, ...]) -> None:
    with pytest.raises((TypeError, ValueError, IndexError, SystemError)):
        BUILT(*asked)


def test_built_finder_holds_on_to_nothing() -> None:
    asked, shares = asked_of({1: 0.5, 2: 0.25}), [0.75]
    parts = (asked, shares, asked[0], *asked[0], shares[0])
    before = [sys.getrefcount(part) for part in parts]

    for _ in range(100):
        BUILT(asked, shares, 0, 1)

    after = [sys.getrefcount(part) for part in parts]
    assert max(now - was for now, was in zip(after, before, strict=True)) < 100


def test_where_it_was_not_built_python_finds() -> None:
    assert load_finder("deuz_proxy.sources.no_such") is best_in_python
    # A module without the function: it was built from another source.
    assert load_finder("deuz_proxy.sources.words") is best_in_python
