"""Conversations and bodies of any wire, drawn, in layouts that no encoder gives."""

import json
from collections.abc import Callable
from typing import Any

from hypothesis import strategies as st

from deuz_testing.bodies import BLANKS, compact, odd_values
from deuz_testing.specimens.form import Json, Specimens, Turns

Draw = Callable[[st.SearchStrategy[Any]], Any]
WORDS = st.text('ab \n\\/"<&\u00e9\U0001f600', min_size=1, max_size=30).map("w".__add__)


@st.composite
def talks(draw: st.DrawFn, s: Specimens, *, most_steps: int = 5) -> Turns:
    """Draw a legal conversation that ends with a fresh question of the user."""
    turns: Turns = []
    if s.opening is not None and draw(st.booleans()):
        turns.append(s.opening(draw(WORDS)))
    for number in range(draw(st.integers(0, most_steps))):
        turns += draw(_exchanges(s, number))
    asks = draw(st.sampled_from([s.said, s.listed, s.pictured]))
    return [*turns, asks(draw(WORDS))]


@st.composite
def _exchanges(draw: st.DrawFn, s: Specimens, number: int) -> Turns:
    """Draw a question, perhaps rounds of tools, and an answer."""
    asks = draw(st.sampled_from([s.said, s.listed, s.pictured]))
    turns = [asks(draw(WORDS))]
    if s.ruled is not None and draw(st.integers(0, 3)) == 0:
        turns.append(s.ruled(draw(WORDS)))
    for round_number in range(draw(st.integers(0, 2))):
        count = draw(st.integers(1, 3))
        ids = [f"call_{number}_{round_number}_{n}" for n in range(count)]
        turns += s.called(ids)
        turns += s.resulted(ids, draw(WORDS) * draw(st.integers(1, 20)))
    if draw(st.booleans()):
        return [*turns, *s.thought(draw(WORDS), draw(WORDS))]
    answers = draw(st.sampled_from([s.answered, s.answered_listed]))
    return [*turns, answers(draw(WORDS))]


@st.composite
def odd_bodies(draw: st.DrawFn, s: Specimens) -> tuple[bytes, Turns]:
    """Draw a body in an odd layout, and the turns that are in it.

    Members stand in any order, with unknown ones among them, odd numbers, blanks and
    escapes, a byte order mark before and blanks behind.
    """
    turns = draw(talks(s, most_steps=2))
    members = {name: odd(draw, value) for name, value in s.head.items()}
    members[s.history] = odd(draw, turns)
    if draw(st.booleans()):
        members["tools"] = odd(draw, s.tools)
    if s.instructed is not None and draw(st.booleans()):
        for name, value in s.instructed(draw(WORDS)).items():
            members[name] = odd(draw, value)
    for number in range(draw(st.integers(0, 2))):
        members[f"x_{number}"] = draw(odd_values())
    order = draw(st.permutations(sorted(members)))
    pieces = [f"{odd(draw, name)}{_blank(draw)}:{members[name]}" for name in order]
    mark = draw(st.sampled_from([b"", b"\xef\xbb\xbf"]))
    tail = draw(st.sampled_from([b"", b"\n", b" \r\n"]))
    return mark + ("{" + _joined(draw, pieces) + "}").encode() + tail, turns


def odd(draw: Draw, value: Json) -> str:
    """Return the value as JSON in an odd layout; objects get members nobody knows."""
    if isinstance(value, str):
        literal = json.dumps(value, ensure_ascii=draw(st.booleans()))
        return literal.replace("/", "\\/") if draw(st.booleans()) else literal
    if isinstance(value, list):
        return "[" + _joined(draw, [odd(draw, each) for each in value]) + "]"
    if not isinstance(value, dict):
        return json.dumps(value)
    pieces = [
        f'"{n}"{_blank(draw)}:{_blank(draw)}{odd(draw, v)}' for n, v in value.items()
    ]
    return "{" + _joined(draw, pieces) + "}"


def plain(s: Specimens, history: Json, **members: Any) -> bytes:
    """Return a body as the SDKs write it."""
    return compact(s.body(history, **members))


def _blank(draw: Draw) -> str:
    return str(draw(BLANKS))


def _joined(draw: Draw, pieces: list[str]) -> str:
    text = _blank(draw)
    for position, piece in enumerate(pieces):
        comma = f"{_blank(draw)},{_blank(draw)}" if position else ""
        text += comma + piece
    return text + _blank(draw)
