"""Laws of answers: what the bytes say does not depend on how they arrive."""

import itertools
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from deuz_compiler import ReplyFacts, Usage, open_meter
from deuz_testing.layouts import DICE
from deuz_testing.specimens.form import Specimens
from deuz_testing.specimens.talks import WORDS

COUNTS = st.integers(0, 200_000)


@st.composite
def usages(draw: st.DrawFn, s: Specimens) -> Usage:
    """Draw counts as the provider can tell them; what it never tells is absent."""
    output = draw(COUNTS)
    told: dict[str, Any] = {
        "cache_read": draw(st.none() | COUNTS),
        "cache_write": draw(st.none() | COUNTS),
        "reasoning": draw(st.none() | st.integers(0, output)),
    }
    told = {name: value for name, value in told.items() if name in s.reports}
    return Usage(input_uncached=draw(COUNTS), output=output, **told)


@st.composite
def cuts(draw: st.DrawFn, length: int) -> list[int]:
    """Draw the places of up to eight cuts, the two ends among them."""
    dice = draw(DICE)
    return sorted(dice.sample(range(length + 1), dice.randint(0, min(8, length + 1))))


def negative(name: str) -> dict[str, Any]:
    return {name: -1}


def metered(s: Specimens, *chunks: bytes, is_stream: bool) -> ReplyFacts:
    is_events = is_stream and s.streams_events
    meter = open_meter(s.wire, is_event_stream=is_events, keep_text=True)
    for chunk in chunks:
        meter.feed(chunk)
    return meter.close()


@given(data=st.data(), words=WORDS)
def test_counts_are_disjoint_buffered_and_streamed(
    s: Specimens, data: st.DataObject, words: str
) -> None:
    usage = data.draw(usages(s))

    whole = metered(s, s.whole(words, usage), is_stream=False)
    streamed = metered(s, s.stream(words, [None, usage]), is_stream=True)

    assert whole.usage == streamed.usage == usage
    for facts in (whole, streamed):
        assert (facts.text, facts.finish_reason) == (words, s.ending)
        assert facts.is_complete
        assert facts.has_content
        assert bool(facts.response_id) == s.is_named
        assert facts.model
        assert not facts.had_tool_call
        assert facts.error_body is None
        assert facts.faults == 0


@given(data=st.data())
def test_a_newer_count_replaces_and_an_absent_one_changes_nothing(
    s: Specimens, data: st.DataObject
) -> None:
    if not s.counts_as_it_goes:
        pytest.skip("the provider reports once, at the end")
    last = data.draw(usages(s))
    earlier = replace(last, output=0, reasoning=None)

    for reports in ([earlier, last], [last, None], [earlier, None, last, None]):
        facts = metered(s, s.stream("abc", reports), is_stream=True)

        assert facts.usage == last


def test_absent_is_not_zero(s: Specimens) -> None:
    zero = Usage(input_uncached=0, output=0)

    assert metered(s, s.whole("a", None), is_stream=False).usage is None
    assert metered(s, s.stream("a", [None, None]), is_stream=True).usage is None
    assert metered(s, s.whole("a", zero), is_stream=False).usage == zero


def test_negative_counts_are_anomalous_and_never_believed(s: Specimens) -> None:
    for odd in (
        Usage(input_uncached=-5, output=3),
        Usage(input_uncached=5, output=-3),
        *(
            Usage(input_uncached=9, output=9, **negative(name))
            for name in sorted(s.reports)
            if name != "cache_write"
        ),
    ):
        usage = metered(s, s.whole("a", odd), is_stream=False).usage

        assert usage is not None
        assert usage.is_anomalous
        told = (usage.input_uncached, usage.cache_read, usage.output, usage.reasoning)
        assert all(count is None or count >= 0 for count in told)


@given(data=st.data(), words=WORDS)
def test_every_split_of_the_bytes_gives_the_same_facts(
    s: Specimens, data: st.DataObject, words: str
) -> None:
    usage = data.draw(usages(s))
    bodies = [(s.whole(words, usage), False), (s.stream(words, [None, usage]), True)]
    bodies += [(body, True) for body in (*s.overflow_streams, *s.other_streams)]
    for body, is_stream in bodies:
        expected = metered(s, body, is_stream=is_stream)
        bounds = [0, *data.draw(cuts(len(body))), len(body)]
        chunks = [body[a:b] for a, b in itertools.pairwise(bounds)]

        assert metered(s, *chunks, is_stream=is_stream) == expected


@pytest.mark.parametrize("size", [1, 2, 3, 7, 61])
def test_chunks_of_any_size_give_the_same_facts(s: Specimens, size: int) -> None:
    usage = Usage(input_uncached=20, output=9)
    body = s.stream('say "\u00e9\U0001f600"', [None, usage])

    chunks = [body[at : at + size] for at in range(0, len(body), size)]

    assert metered(s, *chunks, is_stream=True) == metered(s, body, is_stream=True)


def test_an_answer_with_a_call_is_told_from_words(s: Specimens) -> None:
    facts = metered(s, s.calling(), is_stream=False)

    assert facts.had_tool_call
    assert facts.has_content
    assert facts.text == ""


def test_nothing_is_decided_before_the_first_word(s: Specimens) -> None:
    body = s.stream("WORD", [None, Usage(input_uncached=1, output=1)])
    meter = open_meter(s.wire, is_event_stream=s.streams_events)

    meter.feed(body[: body.index(b"W")])

    assert meter.decisive is None
    meter.feed(body[body.index(b"W") :])
    assert meter.decisive == "content"


def test_broken_answers_are_counted_and_never_raise(s: Specimens) -> None:
    for broken in (b"{", b"[]", b"1", b"\xff\xfe", b"{}" * 3, b'{"usage":[1]}'):
        facts = metered(s, broken, is_stream=False)
        assert facts.usage is None

        facts = metered(s, b"data: " + broken + b"\n\n", is_stream=True)
        assert facts.usage is None
