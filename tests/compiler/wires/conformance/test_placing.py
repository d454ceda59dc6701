"""Laws of placement: where a block may stand, and that the provider takes it there."""

import itertools
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deuz_compiler import (
    Append,
    PathFacts,
    ask_once,
    lift,
    lower,
    part_span,
    place_for_context,
    project,
    user_text,
)
from deuz_compiler.placement.block import (
    BlockRecord,
    escape_json_string,
    render_block,
)
from deuz_proxy.demo.provider.judging import judge_body
from deuz_testing.specimens.form import Json, Specimens, Turns
from deuz_testing.specimens.talks import WORDS, plain, talks

FORMS = st.sampled_from(["turn", "part"])
RECORD = BlockRecord("docs", "rag", "r1", "1", "o", 'say "no" \\ \u00e9')
BLOCK = escape_json_string(render_block([RECORD]))


def place(s: Specimens, history: Json) -> int | None:
    return place_for_context(lift(s.wire, plain(s, history)))


def with_blocks(s: Specimens, body: bytes, form: str, texts: list[bytes]) -> bytes:
    """Put a block behind each of the user's fresh turns."""
    envelope = lift(s.wire, body)
    blocks = tuple(Append(text, (), 3, form) for text in texts)
    fresh = [i for i, turn in enumerate(envelope.turns) if turn.is_fresh]
    edits = project(envelope, dict.fromkeys(fresh, blocks), part_span).edits
    return lower(body, edits)


def test_context_stands_behind_a_fresh_newest_turn_only(s: Specimens) -> None:
    asked = [s.said("a")]
    called, resulted = s.called(["c", "d"]), s.resulted(["c", "d"], "r")
    answered = [*asked, *called, *resulted, s.answered("b")]

    assert place(s, asked) == 0
    assert place(s, [s.listed("a")]) == 0
    assert place(s, [s.pictured("a")]) == 0
    assert place(s, [*answered, *asked]) == len(answered)
    assert place(s, []) is None
    assert place(s, [*asked, s.answered("a prefill")]) is None
    assert place(s, answered) is None
    assert place(s, [*asked, *called]) is None
    assert place(s, [*asked, *called, *resulted]) is None
    assert place(s, [*asked, *called, *resulted[:1]]) is None
    assert place(s, [*asked, *called, *asked]) is None


def test_system_turns_are_no_place_and_hide_none(s: Specimens) -> None:
    if s.opening is not None:
        assert place(s, [s.opening("x")]) is None
        assert place(s, [s.opening("x"), s.said("a")]) == 1
    if s.ruled is not None:
        assert place(s, [s.said("a"), s.ruled("x")]) == 0


@given(data=st.data(), form=FORMS)
def test_the_provider_takes_blocks_behind_every_fresh_turn(
    s: Specimens, data: st.DataObject, form: str
) -> None:
    body = plain(s, data.draw(talks(s)))
    assert judge_body(s.wire, body) is None

    out = with_blocks(s, body, form, [BLOCK, BLOCK])

    assert judge_body(s.wire, out) is None
    assert out.count(BLOCK) == 2 * sum(t.is_fresh for t in lift(s.wire, body).turns)


@given(data=st.data())
def test_parts_keep_the_roles_alternating(s: Specimens, data: st.DataObject) -> None:
    body = plain(s, data.draw(talks(s)))
    is_alternating = judge_body(s.wire, body, alternate=True) is None

    out = with_blocks(s, body, "part", [BLOCK])

    assert (judge_body(s.wire, out, alternate=True) is None) == is_alternating
    assert len(lift(s.wire, out).turns) == len(lift(s.wire, body).turns)


@given(words=WORDS, form=FORMS)
def test_a_turn_with_its_block_is_the_same_prompt_in_every_form(
    s: Specimens, words: str, form: str
) -> None:
    histories: list[Json] = [[s.said(words)], [s.listed(words)]]
    if s.lone is not None:
        histories.append(s.lone(words))
    if s.marked is not None:
        histories.append([s.marked(s.listed(words))])

    placed = [with_blocks(s, plain(s, each), form, [BLOCK]) for each in histories]

    digests = [[t.digest for t in lift(s.wire, out).turns] for out in placed]
    assert digests == digests[:1] * len(histories)


@given(words=WORDS, form=FORMS)
def test_blocks_are_not_taken_for_the_users_words(
    s: Specimens, words: str, form: str
) -> None:
    out = with_blocks(s, plain(s, [s.said(words)]), form, [BLOCK])

    said = [
        user_text(s.wire, out[turn.start : turn.end])
        for turn in lift(s.wire, out).turns
    ]

    assert [text.strip() for text in said if text] == [words.strip()]


def test_forms_that_change_within_a_conversation_keep_their_order(
    s: Specimens,
) -> None:
    histories: list[Json] = [[s.said("a")], [s.listed("a")]]
    if s.lone is not None:
        histories.append(s.lone("a"))
    blocks = (Append(b"P", (), 1, "part"), Append(b"T", (), 1, "turn"))

    for history in histories:
        body = plain(s, history)
        edits = project(lift(s.wire, body), {0: blocks}, part_span).edits
        out = lower(body, edits)

        assert judge_body(s.wire, out) is None
        assert len(lift(s.wire, out).turns) == 2
        assert out.index(b"P") < out.index(b"T")


def test_no_cache_marker_and_no_system_text_is_ever_written(s: Specimens) -> None:
    lead = [s.opening("x")] if s.opening is not None else []
    members = s.instructed("y") if s.instructed is not None else {}
    turns: Turns = [*lead, s.said("a"), s.answered("b"), s.said("c")]
    body = plain(s, turns, tools=s.tools, **members)

    for form in ("turn", "part"):
        out = json.loads(with_blocks(s, body, form, [BLOCK]))

        history = out.pop(s.history)
        assert out == {**s.head, "tools": s.tools, **members}
        assert [t for t in history if t in (s.answered("b"), *lead)] == [
            *lead,
            s.answered("b"),
        ]
        assert not any(word in str(history) for word in ("cache_", "breakpoint"))


@given(words=WORDS)
def test_a_question_of_our_own_is_a_whole_request(s: Specimens, words: str) -> None:
    asker = lift(s.wire, plain(s, [s.said("a")]))

    body = ask_once(asker, model=s.head["model"], text=words, output_tokens=2048)

    # Where the path names the model, the body does not.
    envelope = lift(s.wire, body, path=PathFacts(s.head["model"]))
    assert judge_body(s.wire, body) is None
    assert (envelope.model, envelope.is_streamed) == (s.head["model"], False)
    assert [turn.role for turn in envelope.turns] == ["user"]
    turn = envelope.turns[0]
    assert user_text(s.wire, body[turn.start : turn.end]) == words
    assert (envelope.tools, envelope.system) == (None, None)


@pytest.mark.parametrize("form", ["turn", "part"])
def test_blocks_replay_byte_for_byte_while_the_conversation_grows(
    s: Specimens, form: str
) -> None:
    talk: Turns = [s.said("a")]
    sent: list[bytes] = []
    for step in ("b", "c", "d"):
        sent.append(with_blocks(s, plain(s, talk), form, [BLOCK]))
        talk += [*s.called([step]), *s.resulted([step], "r"), s.answered(step)]
        talk.append(s.said(step))

    for old, new in itertools.pairwise(sent):
        # All but what closes the history and the body.
        assert new.startswith(old[:-2])
