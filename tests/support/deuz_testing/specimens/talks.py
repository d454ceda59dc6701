"""Conversations and bodies of any wire, drawn, in layouts that no encoder gives."""

from random import Random
from typing import Any

from hypothesis import strategies as st

from deuz_testing.bodies import compact
from deuz_testing.layouts import (
    DICE,
    is_heads,
    laid_out,
    odd_body,
    unknown_members,
    words,
)
from deuz_testing.specimens.form import Json, Specimens, Turns

LETTERS = 'ab \n\\/"<&\u00e9\U0001f600'
WORDS = st.text(LETTERS, min_size=1, max_size=30).map("w".__add__)


@st.composite
def talks(draw: st.DrawFn, s: Specimens, *, most_steps: int = 5) -> Turns:
    """Draw a legal conversation that ends with a fresh question of the user."""
    steps = draw(st.integers(0, most_steps))
    return _talk(draw(DICE), s, steps)


def _talk(dice: Random, s: Specimens, steps: int) -> Turns:
    turns: Turns = []
    if s.opening is not None and is_heads(dice):
        turns.append(s.opening(_words(dice)))
    for number in range(steps):
        turns += _exchange(dice, s, number)
    return [*turns, _question(dice, s)]


def _exchange(dice: Random, s: Specimens, number: int) -> Turns:
    """Return a question, perhaps rounds of tools, and an answer."""
    turns = [_question(dice, s)]
    if s.ruled is not None and dice.randrange(4) == 0:
        turns.append(s.ruled(_words(dice)))
    for round_number in range(dice.randint(0, 2)):
        count = dice.randint(1, 3)
        ids = [f"call_{number}_{round_number}_{n}" for n in range(count)]
        turns += s.called(ids)
        turns += s.resulted(ids, _words(dice) * dice.randint(1, 20))
    if is_heads(dice):
        return [*turns, *s.thought(_words(dice), _words(dice))]
    answers = dice.choice((s.answered, s.answered_listed))
    return [*turns, answers(_words(dice))]


def _question(dice: Random, s: Specimens) -> dict[str, Any]:
    asks = dice.choice((s.said, s.listed, s.pictured))
    return asks(_words(dice))


def _words(dice: Random) -> str:
    return words(dice, LETTERS, most=30)


@st.composite
def odd_bodies(draw: st.DrawFn, s: Specimens) -> tuple[bytes, Turns]:
    """Draw a body in an odd layout, and the turns that are in it.

    Members stand in any order, with unknown ones among them, odd numbers, blanks and
    escapes, a byte order mark before and blanks behind.
    """
    steps, dice = draw(st.integers(0, 2)), draw(DICE)
    turns = _talk(dice, s, steps)
    members = {**s.head, s.history: turns}
    if is_heads(dice):
        members["tools"] = s.tools
    if s.instructed is not None and is_heads(dice):
        members |= s.instructed(_words(dice))
    written = {name: laid_out(dice, value) for name, value in members.items()}
    return odd_body(dice, {**written, **unknown_members(dice)}), turns


@st.composite
def odd_texts(draw: st.DrawFn, value: Json) -> str:
    """Draw a layout of a JSON value."""
    return laid_out(draw(DICE), value)


def plain(s: Specimens, history: Json, **members: Any) -> bytes:
    """Return a body as the SDKs write it."""
    return compact(s.body(history, **members))
