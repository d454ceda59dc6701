from hypothesis import given
from hypothesis import strategies as st

from deuz_compiler import Append, Bare, Operation, Prune, lift
from deuz_proxy.undecided import is_decided, undecided_turns
from deuz_testing.bodies import anthropic_body, assistant, user

BLOCK = Append(b"B", (), 1)
CUT = Prune(((0, b"cut"),))
HELD = st.sampled_from([(), (BLOCK,), (Bare(),), (CUT,), (CUT, Bare())])


def test_a_turn_is_decided_by_a_block_or_by_the_word_that_none_will_stand() -> None:
    assert is_decided((BLOCK,))
    assert is_decided((CUT, Bare()))
    assert not is_decided((CUT,))
    assert not is_decided(())


@given(st.lists(HELD, min_size=5, max_size=5), st.integers(0, 9))
def test_the_users_turns_of_which_nothing_is_decided_are_told_from_a_place_on(
    held: list[tuple[Operation, ...]], since: int
) -> None:
    turns = [turn for _ in range(5) for turn in (user("q"), assistant("a"))]
    envelope = lift("anthropic", anthropic_body(turns))
    operations = {2 * at: each for at, each in enumerate(held) if each}

    undecided = undecided_turns(envelope, operations, since=since)

    expected = [t for t in range(since, 10) if t % 2 == 0]
    assert undecided == tuple(
        t for t in expected if not is_decided(operations.get(t, ()))
    )
