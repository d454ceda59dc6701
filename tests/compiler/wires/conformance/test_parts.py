"""Laws of parts: each has its place, and what a stub replaces leaves the rest alone."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deuz_compiler import NotLifted, part_span, read_parts, user_text
from deuz_compiler.wires.parts import (
    IMAGE,
    REASONING,
    TEXT,
    TOOL_CALL,
    TOOL_RESULT,
    Part,
    stub_result,
)
from deuz_testing.bodies import compact
from deuz_testing.specimens.form import Json, Specimens
from deuz_testing.specimens.talks import WORDS, odd_texts


def parts_of(s: Specimens, *turns: Json) -> list[Part]:
    return [part for turn in turns for part in read_parts(s.wire, compact(turn))]


@given(words=WORDS, data=st.data())
def test_a_part_tells_its_text_and_where_it_stands(
    s: Specimens, words: str, data: st.DataObject
) -> None:
    turns = [s.said(words), s.listed(words), s.pictured(words), s.answered(words)]
    for turn in turns:
        raw = data.draw(odd_texts(turn)).encode()
        parts = read_parts(s.wire, raw)

        assert (parts[0].kind, parts[0].text) == (TEXT, words)
        assert [part_span(s.wire, raw, i) for i in range(len(parts))] == [
            (part.start, part.end) for part in parts
        ]
        for part in parts:
            assert 0 <= part.start < part.end <= len(raw)
            assert json.loads(raw[part.start : part.end])


def test_a_picture_is_a_picture(s: Specimens) -> None:
    assert [part.kind for part in parts_of(s, s.pictured("a"))] == [TEXT, IMAGE]


def test_calls_and_their_results_bear_the_same_id(s: Specimens) -> None:
    ids = ["call_a", "call_b"]

    calls = parts_of(s, *s.called(ids))
    results = parts_of(s, *s.resulted(ids, "the result"))

    assert [(p.kind, p.call_id, p.name) for p in calls] == [
        (TOOL_CALL, call_id, "read") for call_id in ids
    ]
    assert [(p.kind, p.call_id, p.text) for p in results] == [
        (TOOL_RESULT, call_id, "the result") for call_id in ids
    ]
    assert all("path" in part.text for part in calls)


@given(words=WORDS, data=st.data())
def test_a_stub_takes_a_results_content_and_nothing_else(
    s: Specimens, words: str, data: st.DataObject
) -> None:
    for turn in s.resulted(["a"], words):
        raw = data.draw(odd_texts(turn)).encode()
        (part,) = read_parts(s.wire, raw)

        assert raw[: part.start] + raw[part.end :] == _without(
            stub_result(raw, part, "stub"), b'"stub"'
        )
        (stubbed,) = read_parts(s.wire, stub_result(raw, part, "stub"))
        assert (stubbed.text, stubbed.call_id) == ("stub", part.call_id)


def _without(raw: bytes, text: bytes) -> bytes:
    assert raw.count(text) == 1
    return raw.replace(text, b"")


def test_reasoning_is_told_and_cut_whole_or_not_at_all(s: Specimens) -> None:
    turns = s.thought("a thought", "words")
    raws = [compact(turn) for turn in turns]

    parts = parts_of(s, *turns)

    assert [p.text for p in parts if p.kind == REASONING] == ["a thought"]
    assert [p.text for p in parts if p.kind == TEXT] == ["words"]
    for raw in raws:
        for part in read_parts(s.wire, raw):
            if part.kind == REASONING and part.start < part.end:
                cut = raw[: part.start] + raw[part.end :]
                assert b"a thought" not in cut
                assert [p.kind for p in read_parts(s.wire, cut)] == [TEXT]


@given(words=WORDS)
def test_only_the_users_own_words_are_the_users(s: Specimens, words: str) -> None:
    for turn in (s.said(words), s.listed(words), s.pictured(words)):
        assert user_text(s.wire, compact(turn)) == words
    others = [s.answered(words), *s.resulted(["a"], words), *s.called(["a"])]
    others += [say(words) for say in (s.opening, s.ruled) if say is not None]
    for turn in others:
        assert user_text(s.wire, compact(turn)) == ""


def test_what_is_no_turn_is_refused_and_so_is_a_part_that_is_not_there(
    s: Specimens,
) -> None:
    for no_turn in (b"1", b"[]"):
        with pytest.raises(NotLifted):
            read_parts(s.wire, no_turn)
    with pytest.raises(NotLifted):
        part_span(s.wire, compact(s.said("a")), 1)
