"""Laws of bodies: what is cut out is what JSON reads, and nothing else ever changes."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deuz_compiler import (
    Append,
    Envelope,
    NotLifted,
    Surface,
    lift,
    lower,
    part_span,
    project,
)
from deuz_compiler.prefix import plain_prefix
from deuz_compiler.wires.members import BOM
from deuz_testing.bodies import compact
from deuz_testing.checkpoints import checkpoint_of, goes_on
from deuz_testing.specimens.form import Specimens
from deuz_testing.specimens.talks import odd_bodies, plain, talks

FORMS = ["turn", "part"]


def raw_turns(envelope: Envelope) -> list[bytes]:
    return [envelope.body[t.start : t.end] for t in envelope.turns]


def placed(envelope: Envelope, form: str, texts: int = 1) -> Surface:
    """Project blocks behind every fresh turn of the user."""
    blocks = tuple(Append(b"added \\n %d" % n, (), 3, form) for n in range(texts))
    fresh = [i for i, turn in enumerate(envelope.turns) if turn.is_fresh]
    return project(envelope, dict.fromkeys(fresh, blocks), part_span)


@given(data=st.data())
def test_what_is_cut_out_is_what_json_reads(s: Specimens, data: st.DataObject) -> None:
    body, turns = data.draw(odd_bodies(s))
    whole = json.loads(body.removeprefix(BOM))

    envelope = lift(s.wire, body)

    assert [json.loads(raw) for raw in raw_turns(envelope)] == turns
    assert envelope.model == s.head["model"]
    assert (envelope.tools is not None) == ("tools" in whole)
    assert lower(body, ()) is body


@given(data=st.data(), form=st.sampled_from(FORMS))
def test_a_body_less_what_was_added_is_the_body(
    s: Specimens, data: st.DataObject, form: str
) -> None:
    body, _ = data.draw(odd_bodies(s))
    surface = placed(lift(s.wire, body), form, texts=data.draw(st.integers(1, 2)))

    out = lower(body, surface.edits)

    assert json.loads(out.removeprefix(BOM))
    assert surface.edits
    rest, moved = b"", 0
    for edit in surface.edits:
        assert edit.start == edit.end
        rest += out[len(rest) + moved : edit.start + moved]
        assert out.startswith(edit.text, edit.start + moved)
        moved += len(edit.text)
    assert rest + out[len(rest) + moved :] == body


@given(data=st.data())
def test_a_resumed_lift_is_the_lift_of_the_whole(
    s: Specimens, data: st.DataObject
) -> None:
    first, _ = data.draw(odd_bodies(s))
    envelope = lift(s.wire, first, seed=7)
    checkpoint = checkpoint_of(envelope, seed=7)
    more = b"".join(b" , " + compact(turn) for turn in data.draw(talks(s)))
    end = envelope.history.end - 1
    grown = first[:end] + more + first[end:]

    assert goes_on(grown, checkpoint)
    assert lift(s.wire, grown, seed=7, known=checkpoint) == lift(s.wire, grown, seed=7)


def test_a_history_that_is_one_text_is_not_resumed(s: Specimens) -> None:
    if s.lone is None:
        pytest.skip("the provider takes no such history")
    body = plain(s, s.lone("why?"))

    checkpoint = checkpoint_of(lift(s.wire, body))

    assert not goes_on(body + b" ", checkpoint)


def test_what_is_not_understood_says_why(s: Specimens) -> None:
    history = s.history.encode()
    head = compact(s.head)[:-1]
    cases = [
        (b"not json", "not_json"),
        (b"[]", "unknown_shape"),
        (compact(s.head), "unknown_shape"),
        (b'%b,"%b":{}}' % (head, history), "unknown_shape"),
        (b'%b,"%b":[],"%b":[]}' % (head, history, history), "duplicate_key"),
        (b'%b,"%b":[]' % (head, history), "not_json"),
        *((plain(s, [turn]), "unknown_shape") for turn in s.malformed),
        *((plain(s, [s.said("a")], **held), "server_state") for held in s.held),
    ]

    for body, reason in cases:
        with pytest.raises(NotLifted) as caught:
            lift(s.wire, body)

        assert caught.value.reason == reason, body


def test_a_key_that_comes_again_behind_the_checkpoint_is_refused(s: Specimens) -> None:
    body = plain(s, [s.said("a")])
    checkpoint = checkpoint_of(lift(s.wire, body))
    twice = body[:-1] + b',"%b":[]}' % s.history.encode()

    with pytest.raises(NotLifted, match="duplicate_key"):
        lift(s.wire, twice, known=checkpoint)


def test_members_that_are_null_are_as_good_as_absent(s: Specimens) -> None:
    bare = plain(s, [s.said("a")])
    nulls = dict.fromkeys(s.instructed("x")) if s.instructed else {}
    nulls |= {name: None for held in s.held for name in held}

    envelope = lift(s.wire, plain(s, [s.said("a")], tools=None, **nulls))

    old, new = (plain_prefix(e) for e in (lift(s.wire, bare), envelope))
    assert [new.head(n).digest for n in new.order] == [
        old.head(n).digest for n in old.order
    ]


def test_system_text_beside_and_before_the_history_is_one_segment(s: Specimens) -> None:
    turns = [s.said("a")]
    variants = [plain(s, turns)]
    if s.instructed is not None:
        variants += [plain(s, turns, **s.instructed(text)) for text in "xy"]
    if s.opening is not None:
        variants += [plain(s, [s.opening(text), *turns]) for text in "xy"]
    if s.instructed is not None and s.opening is not None:
        led = [s.opening("x"), *turns]
        variants += [plain(s, led, **s.instructed(text)) for text in "xy"]

    envelopes = [lift(s.wire, body) for body in variants]
    prefixes = [plain_prefix(e) for e in envelopes]

    assert len({prefix.system.digest for prefix in prefixes}) == len(variants)
    assert len({prefix.digests for prefix in prefixes}) == 1
