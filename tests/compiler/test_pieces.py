import pytest

from deuz_compiler.pieces import Element, Ours, Pieces, Run, ours_of, pack_ours

BLOCK, FOLD = (Element(b"d", size, 0, is_ours=True) for size in (7, 5))


def test_pieces_are_runs_and_what_is_ours_in_between() -> None:
    pieces = Pieces()

    pieces.add(2, [BLOCK, FOLD])
    pieces.add(2, [])
    pieces.replace(5, 7, FOLD)
    pieces.keep(6, None)
    pieces.keep(7, BLOCK)
    pieces.add(7, [BLOCK])

    kept = [Run(6, 7), BLOCK, BLOCK]
    assert pieces.told == [Run(0, 3), BLOCK, FOLD, Run(3, 5), FOLD, *kept]
    assert pieces.rest == 8


@pytest.mark.parametrize(("lead", "first"), [(0, 3), (2, 1), (4, -1)])
def test_places_of_what_is_ours_count_elements_behind_the_leading_turns(
    lead: int, first: int
) -> None:
    ours = ours_of((Run(0, 3), BLOCK, Run(3, 4), FOLD), lead)

    assert ours == pack_ours([(first, 7), (first + 2, 5)])
    assert ours.pairs() == [(first, 7), (first + 2, 5)]
    assert (ours.count, ours.first, ours.last) == (2, first, first + 2)
    assert ours.within == (ours.places if first >= 0 else b"")
    assert ours.with_last(9, 3) == pack_ours([*ours.pairs(), (9, 3)])


def test_the_first_of_ours_is_the_last_too() -> None:
    assert (
        Ours().with_last(4, 3)
        == pack_ours([(4, 3)])
        == Ours(b"\4\0\0\0", b"\3\0\0\0", 4, 4)
    )


def test_nothing_of_ours_has_no_places() -> None:
    assert ours_of((Run(0, 3),), 0) == Ours()
    assert (Ours().count, Ours().within, Ours().pairs()) == (0, b"", [])
