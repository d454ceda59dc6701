from hypothesis import given
from hypothesis import strategies as st

from deuz_compiler import (
    Append,
    Bare,
    Operation,
    Progress,
    lift,
    part_span,
    progress_up_to,
    project,
    rest,
    standing_of,
    wake,
    with_surface,
)
from deuz_testing.bodies import anthropic_body, chat_body, odd_bodies, user
from deuz_testing.checkpoints import ROOT, progress_in

WIRES = st.sampled_from(["anthropic", "openai_chat"])


def woken(known: Progress) -> Progress:
    place = known.checkpoint
    return wake(rest(known), offset=place.offset, digest=place.digest, root=ROOT)


@given(odd_bodies(), WIRES)
def test_what_wakes_is_what_went_to_rest(body: bytes, wire: str) -> None:
    known = progress_in(wire, body)

    assert woken(known) == known


@given(odd_bodies(), WIRES, st.integers(0, 9))
def test_the_prefix_may_be_of_more_turns_than_rest(
    body: bytes, wire: str, turns: int
) -> None:
    whole = progress_in(wire, body)
    some = min(turns, len(whole.keys))
    known = progress_up_to(whole, some, offset=9, digest=b"d" * 16)

    assert woken(known) == known


@given(odd_bodies(), WIRES, st.data())
def test_what_stands_on_it_is_taken_out_again(
    body: bytes, wire: str, data: st.DataObject
) -> None:
    known, envelope = progress_in(wire, body), lift(wire, body)
    place, inbound = known.checkpoint, known.shared.prefix
    behind = st.sets(st.integers(0, max(0, len(envelope.turns) - 1)))
    held: dict[int, tuple[Operation, ...]] = {}
    for turn in sorted(data.draw(behind)):
        is_block = data.draw(st.booleans())
        held[turn] = (Append(b"B", (), 7),) if is_block else (Bare(),)
    surface = project(envelope, held, part_span)
    outbound = with_surface(inbound, envelope, surface)
    standing = standing_of(
        envelope, surface, inbound, outbound, turns=len(envelope.turns)
    )

    resting = rest(known, standing)

    assert wake(resting, offset=place.offset, digest=place.digest, root=ROOT) == known
    if standing is not None and standing.marks.ours.within:
        # It is the baseline's, kept once.
        assert resting.prefix is outbound
    else:
        assert resting == rest(known)


def test_what_stands_on_another_request_is_not_taken_out() -> None:
    known = progress_in("anthropic", anthropic_body([user("a")]))
    envelope = lift("anthropic", anthropic_body([user("a"), user("b")]))
    other = progress_in("anthropic", envelope.body).shared.prefix
    surface = project(envelope, {1: (Append(b"B", (), 7),)}, part_span)
    shown = with_surface(other, envelope, surface)
    standing = standing_of(envelope, surface, other, shown, turns=2)

    assert standing is not None
    assert rest(known, standing) == rest(known)


def test_keys_of_leading_turns_end_at_the_checkpoint_too() -> None:
    marked = {"role": "system", "content": "b", "cache_control": {"type": "ephemeral"}}
    body = chat_body([{"role": "system", "content": "a"}, marked, user("q")])
    known = progress_in("openai_chat", body)

    assert (len(known.keys), known.shared.lead) == (1, 2)
    assert woken(known) == known


def test_what_is_told_ahead_is_one_value_for_all_who_begin_alike() -> None:
    first, second = (
        progress_in("anthropic", anthropic_body([user(text)])) for text in "ab"
    )

    assert rest(first).ahead is rest(second).ahead
    # Known by identity to be the facts that the head was made of.
    again = woken(first)
    assert again.checkpoint.facts is again.shared.facts


def test_a_turn_at_rest_takes_29_bytes_its_prefix_included() -> None:
    bodies = [anthropic_body([user("word " * 300)] * count) for count in (10, 210)]

    few, many = (rest(progress_in("anthropic", body)).weight_bytes for body in bodies)

    assert (many - few) / 200 == 29
