from hypothesis import given
from hypothesis import strategies as st

from deuz_compiler.records.policy import Share
from deuz_compiler.selection.shares import Shares

SHARES = (Share("memory", 2), Share("rag", 1))


def test_room_is_split_by_weight_and_rounded_down() -> None:
    shares = Shares(SHARES, 100)

    assert (shares.share_tokens("memory"), shares.share_tokens("rag")) == (66, 33)


def test_share_admits_until_it_is_used_up() -> None:
    shares = Shares(SHARES, 90)
    shares.spend("rag", 20)

    assert shares.admits("rag", 10)
    assert not shares.admits("rag", 11)
    assert shares.admits("memory", 60)


def test_kind_without_a_weight_has_no_share_and_no_room_gives_it_one() -> None:
    shares = Shares(SHARES, 90)

    assert not shares.admits("skills", 1)
    assert shares.shortage("skills", 1) is None


def test_without_shares_nothing_is_said_no_to() -> None:
    shares = Shares((), 10)
    shares.spend("rag", 10)

    assert shares.admits("rag", 10**9)


@given(
    room=st.integers(0, 500),
    used=st.integers(0, 300),
    cost=st.integers(0, 300),
    weights=st.tuples(st.integers(1, 9), st.integers(0, 9)),
)
def test_shortage_is_the_least_raise_that_admits(
    room: int, used: int, cost: int, weights: tuple[int, int]
) -> None:
    def admits(tokens: int) -> bool:
        shares = Shares((Share("a", weights[0]), Share("b", weights[1])), tokens)
        shares.spend("a", used)
        return shares.admits("a", cost)

    shares = Shares((Share("a", weights[0]), Share("b", weights[1])), room)
    shares.spend("a", used)
    shortage = shares.shortage("a", cost)

    assert shortage is not None
    assert admits(room + shortage)
    assert not admits(room + shortage - 1)


def test_shortage_of_an_unused_share_is_a_whole_number() -> None:
    shares = Shares((Share("a", 2), Share("b", 1)), 10)

    # 7 of a need 10.5 tokens of room; 3 of b need 9, and there are 10.
    assert repr(shares.shortage("a", 7)) == "1"
    assert shares.shortage("b", 3) == -1


def test_what_a_kind_spends_adds_up() -> None:
    shares = Shares((Share("a", 1),), 10)
    shares.spend("a", 4)
    shares.spend("a", 4)

    assert shares.admits("a", 2)
    assert not shares.admits("a", 3)
