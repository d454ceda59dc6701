"""Laws of a turn's digest: it changes if and only if what is rendered changes."""

import pytest
from hypothesis import given

from deuz_compiler import chain, lift
from deuz_testing.bodies import compact
from deuz_testing.specimens.form import Json, Specimens
from deuz_testing.specimens.talks import WORDS, plain


def digest(s: Specimens, turn: Json, seed: int = 0) -> bytes:
    return lift(s.wire, plain(s, [turn]), seed=seed).turns[0].digest


@given(words=WORDS)
def test_the_short_and_the_long_form_of_a_turn_are_one(
    s: Specimens, words: str
) -> None:
    assert digest(s, s.said(words)) == digest(s, s.listed(words))
    assert digest(s, s.answered(words)) == digest(s, s.answered_listed(words))


def test_a_cache_marker_is_not_rendered(s: Specimens) -> None:
    if s.marked is None:
        pytest.skip("the provider knows no cache markers")
    for turn in (s.listed("a"), s.pictured("a")):
        assert digest(s, s.marked(turn)) == digest(s, turn)


def test_forms_that_are_rendered_alike_have_one_digest(s: Specimens) -> None:
    for one, other in s.aliases:
        assert compact(one) != compact(other)
        assert digest(s, one) == digest(s, other)


def test_what_is_rendered_otherwise_has_another_digest(s: Specimens) -> None:
    turns = [
        *(s.said(words) for words in ("a", "a ", "b")),
        s.pictured("a"),
        s.answered("a"),
        *s.called(["a"]),
        *s.called(["b"]),
        *s.resulted(["a"], "r"),
        *s.resulted(["b"], "r"),
        *s.resulted(["a"], "s"),
        *s.thought("hm", "words"),
    ]
    if s.ruled is not None:
        turns.append(s.ruled("a"))
    distinct = {str(turn): turn for turn in turns}

    digests = {digest(s, turn) for turn in distinct.values()}

    assert len(digests) == len(distinct)


def test_a_digest_needs_its_scopes_seed(s: Specimens) -> None:
    assert digest(s, s.said("a"), seed=1) != digest(s, s.said("a"), seed=2)


def test_a_history_that_is_one_text_is_one_turn_of_the_user(s: Specimens) -> None:
    if s.lone is None:
        pytest.skip("the provider takes no such history")
    bodies = [plain(s, history) for history in (s.lone("a"), [s.said("a")])]

    alone, listed = (lift(s.wire, body) for body in bodies)

    assert [t.digest for t in alone.turns] == [t.digest for t in listed.turns]
    assert chain(alone, root=b"r" * 16) == chain(listed, root=b"r" * 16)
    assert (alone.turns[0].role, alone.turns[0].is_fresh) == ("user", True)
