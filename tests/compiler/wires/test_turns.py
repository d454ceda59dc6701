from itertools import takewhile

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deuz_compiler import NotLifted
from deuz_compiler.wires import turns as module
from deuz_compiler.wires.glancing import Peek
from deuz_compiler.wires.turns import (
    NO_TURNS,
    UNREAD,
    Turn,
    Turns,
    kind_of,
    most_tokens,
    pack_places,
    pack_tokens,
    place_in,
    sum_tokens,
)

PLACES = st.tuples(st.integers(0, 2**40), st.integers(0, 2**40))
PEEKS = st.builds(
    Peek, st.sampled_from(["system", "user", "sage"]), st.booleans(), st.booleans()
)
TURNS = st.lists(
    st.builds(
        lambda place, peek, tokens, digest: Turn(
            place[0],
            place[1],
            peek.role,
            peek.is_fresh,
            peek.opens_calls,
            tokens,
            digest,
        ),
        PLACES,
        PEEKS,
        st.integers(0, 2**32 - 1),
        st.binary(min_size=16, max_size=16),
    ),
    max_size=8,
)


def packed(turns: list[Turn]) -> Turns:
    peeks: list[Peek] = []
    told = [Peek(turn.role, turn.is_fresh, turn.opens_calls) for turn in turns]
    kinds = bytes([kind_of(peek, peeks) for peek in told])
    return Turns(
        tuple(peeks),
        kinds,
        pack_places([(turn.start, turn.end) for turn in turns]),
        pack_tokens([turn.tokens for turn in turns]),
        b"".join([turn.digest for turn in turns]),
    )


@given(TURNS)
def test_what_is_packed_is_what_comes_out(turns: list[Turn]) -> None:
    held = packed(turns)

    assert list(held) == turns
    assert list(reversed(held)) == turns[::-1]
    assert [held[at] for at in range(-len(turns), len(turns))] == turns * 2
    spans = [place_in(held.places, at) for at in range(len(held))]
    assert spans == [held.place(at) for at in range(len(held))]
    assert spans == [(turn.start, turn.end) for turn in turns]
    assert [held.peek(at).role for at in range(len(held))] == [t.role for t in turns]


@given(st.lists(st.integers(0, 2**32 - 1)))
def test_numbers_of_tokens_are_summed_and_the_largest_is_told(
    counts: list[int],
) -> None:
    column, told = pack_tokens(counts), (sum(counts), max(counts, default=0))

    assert (sum_tokens(column), most_tokens(column)) == told
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "SCANNER", None)
        assert (sum_tokens(column), most_tokens(column)) == told


@given(TURNS, st.integers(1, 30), st.integers(0, 250))
def test_fresh_turns_are_told_from_a_place_on_of_few_and_of_many(
    turns: list[Turn], times: int, first: int
) -> None:
    turns *= times
    fresh = [at for at, turn in enumerate(turns) if turn.is_fresh and at >= first]

    assert list(packed(turns).fresh_from(first)) == fresh


@given(TURNS)
def test_leading_turns_of_a_role_end_with_the_first_of_another(
    turns: list[Turn],
) -> None:
    leading = list(takewhile(lambda turn: turn.role == "system", turns))

    assert packed(turns).count_leading("system") == len(leading)
    for held in (packed(turns)[1:], packed(turns[::-1])[:2]):
        plain = [turn.role for turn in held]
        assert held.count_leading("user") == len(
            list(takewhile(lambda role: role == "user", plain))
        )


@given(TURNS, st.integers(-9, 9), st.integers(-9, 9))
def test_a_slice_is_turns_again(turns: list[Turn], first: int, end: int) -> None:
    held = packed(turns)

    assert list(held[first:end]) == turns[first:end]
    assert list(held[first:]) == turns[first:]
    assert held[:] is held


@given(TURNS, TURNS)
def test_turns_are_followed_by_others_as_they_are(
    turns: list[Turn], others: list[Turn]
) -> None:
    assert list(packed(turns).followed_by(packed(others))) == turns + others


@given(TURNS, TURNS)
def test_turns_are_equal_that_say_the_same(
    turns: list[Turn], others: list[Turn]
) -> None:
    one, other = packed([*others, *turns])[len(others) :], packed(turns)

    assert one == other
    assert (one == packed(others)) == (turns == others)
    assert one != turns


@pytest.mark.parametrize("at", [0, 1, -1])
def test_where_there_is_no_turn_none_comes_out(at: int) -> None:
    with pytest.raises(IndexError):
        NO_TURNS[at]


def test_more_kinds_of_turns_than_a_byte_tells_apart_are_not_understood() -> None:
    peeks: list[Peek] = []
    for number in range(UNREAD):
        peek = Peek(str(number), is_fresh=False, opens_calls=False)
        assert kind_of(peek, peeks) == kind_of(peek, peeks) == number

    with pytest.raises(NotLifted, match="unknown_shape"):
        kind_of(Peek("more", is_fresh=False, opens_calls=False), peeks)
