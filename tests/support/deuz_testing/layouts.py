"""JSON in layouts that no encoder gives, thrown with dice of one drawn number.

Rules:
- Hypothesis draws the dice, not each blank: a body takes hundreds of throws, and a draw
  costs as much as twenty of them. How much there is of a thing is still a draw of its
  own, so that a failure shrinks to few turns; its layout stays as it fell, and is told.
- Blanks, escapes, spellings of numbers and orders of members are as real clients have
  them in sum.
"""

import json
from collections.abc import Mapping, Sequence
from random import Random
from typing import Any

from hypothesis import strategies as st

DICE = st.randoms(use_true_random=True)
BLANKS = ("", " ", "\n", "\t", "  ", "\r\n  ")
NUMBERS = ("1.0", "1e3", "-0", "1234567890123456789012345", "0.30000000000000004", "2")
# First and last code point: what JSON escapes stands as often as all the rest, and what
# is no text of its own, the surrogates, not at all.
POINTS = (
    (0x00, 0x1F),
    (0x22, 0x22),
    (0x2F, 0x2F),
    (0x5C, 0x5C),
    (0x20, 0x7E),
    (0x20, 0x7E),
    (0x7F, 0x24F),
    (0x2000, 0xD7FF),
    (0xE000, 0xFFFF),
    (0x10000, 0x10FFFF),
)


def is_heads(dice: Random) -> bool:
    return dice.random() < 0.5


def blank(dice: Random) -> str:
    return dice.choice(BLANKS)


def words(dice: Random, letters: str, most: int) -> str:
    """Return some of the letters behind a w: a text that is never blank."""
    return "w" + "".join(dice.choices(letters, k=dice.randint(1, most)))


def odd_string(dice: Random) -> str:
    """Return any text as a JSON string."""
    return escaped(dice, any_text(dice, most=12))


def any_text(dice: Random, most: int) -> str:
    """Return a text of up to so many letters of any script, or of none."""
    ranges = dice.choices(POINTS, k=dice.randint(0, most))
    return "".join(chr(dice.randint(*ends)) for ends in ranges)


@st.composite
def texts_with(draw: st.DrawFn, pieces: Sequence[str], most: int) -> str:
    """Draw a text of up to so many pieces, any other text among them."""
    count, dice = draw(st.integers(0, most)), draw(DICE)
    drawn = [
        dice.choice(pieces) if is_heads(dice) else any_text(dice, most=5)
        for _ in range(count)
    ]
    return "".join(drawn)


def escaped(dice: Random, text: str) -> str:
    """Return the text as a JSON string, escaped in one of the legal ways."""
    literal = json.dumps(text, ensure_ascii=is_heads(dice))
    return literal.replace("/", "\\/") if is_heads(dice) else literal


def odd_value(dice: Random, depth: int = 2) -> str:
    """Return any JSON value as text, in an odd layout."""
    if depth == 0 or is_heads(dice):
        return _leaf(dice)
    inner = [odd_value(dice, depth - 1) for _ in range(dice.randint(0, 3))]
    if is_heads(dice):
        return f"[{joined(dice, inner)}]"
    return _braced(dice, [(f'"k{i}"', value) for i, value in enumerate(inner)])


def _leaf(dice: Random) -> str:
    kind = dice.randrange(3)
    if kind == 0:
        return odd_string(dice)
    return dice.choice(NUMBERS if kind == 1 else ("true", "false", "null"))


def odd_object(dice: Random, members: Mapping[str, str]) -> str:
    """Return an object with these members (JSON texts) and others, in any order."""
    every = {**members, **unknown_members(dice)}
    names = dice.sample(sorted(every), len(every))
    return _braced(dice, [(f'"{name}"', every[name]) for name in names])


def unknown_members(dice: Random) -> dict[str, str]:
    """Return members that no provider knows, or none."""
    return {f"x_{number}": odd_value(dice) for number in range(dice.randint(0, 2))}


def laid_out(dice: Random, value: Any) -> str:
    """Return a JSON value as text in an odd layout."""
    if isinstance(value, str):
        return escaped(dice, value)
    if isinstance(value, list):
        return "[" + joined(dice, [laid_out(dice, each) for each in value]) + "]"
    if not isinstance(value, dict):
        return json.dumps(value)
    return _braced(dice, [(f'"{n}"', laid_out(dice, v)) for n, v in value.items()])


def odd_body(dice: Random, members: Mapping[str, str]) -> bytes:
    """Return an object of these members, marked before or blank behind as files are."""
    names = dice.sample(sorted(members), len(members))
    pieces = [(escaped(dice, name), members[name]) for name in names]
    mark = dice.choice((b"", b"\xef\xbb\xbf"))
    return mark + _braced(dice, pieces).encode() + dice.choice((b"", b"\n", b" \r\n"))


def _braced(dice: Random, members: Sequence[tuple[str, str]]) -> str:
    pieces = [f"{name}{blank(dice)}:{blank(dice)}{value}" for name, value in members]
    return "{" + joined(dice, pieces) + "}"


def joined(dice: Random, pieces: Sequence[str]) -> str:
    """Return the pieces with commas and blanks between them."""
    text = blank(dice)
    for position, piece in enumerate(pieces):
        comma = f"{blank(dice)},{blank(dice)}" if position else ""
        text += comma + piece
    return text + blank(dice)
