from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from deuz_compiler import (
    PART,
    TURN,
    Append,
    Bare,
    Ending,
    Envelope,
    Fold,
    Operation,
    PlacedRecord,
    Prefix,
    Prune,
    Reading,
    Standing,
    Surface,
    TailCopy,
    gone_on,
    lift,
    lower,
    part_span,
    plain_prefix,
    prefix_again,
    project,
    put_again,
    put_back,
    put_more,
    standing_of,
    standing_up_to,
    surface_again,
    with_surface,
)
from deuz_compiler import standing as module
from deuz_compiler.prefix import without
from deuz_compiler.wires import envelope as envelopes
from deuz_testing.bodies import (
    anthropic_body,
    assistant,
    chat_body,
    chat_call,
    chat_result,
    odd_bodies,
    user,
)

FORMS = st.sampled_from([PART, TURN])
WIRES = st.sampled_from(["anthropic", "openai_chat"])
RECORD = PlacedRecord("docs", "r1", "1", "sha256:00")
SYSTEM = {"role": "system", "content": "s"}
HISTORY = [SYSTEM, user("a"), assistant("b"), user("c")]
GROWN = [*HISTORY, chat_call("t"), chat_result("t", "found")]

Held = dict[int, tuple[Operation, ...]]


def block(text: str = "B", form: str = TURN) -> Append:
    return Append(text.encode(), (RECORD,), 7, form)


class Entry:
    operations: tuple[Operation, ...] = (Bare(),)
    text = b""


def laid(body: bytes, held: Held, wire: str) -> tuple[Envelope, Surface, Prefix]:
    """Return a body's envelope, its surface, and the prefix with it."""
    envelope = lift(wire, body)
    surface = project(envelope, held, part_span)
    return envelope, surface, with_surface(plain_prefix(envelope), envelope, surface)


def standing(
    body: bytes, held: Held, *, turns: int, wire: str = "openai_chat"
) -> Standing | None:
    envelope, surface, shown = laid(body, held, wire)
    return standing_of(envelope, surface, plain_prefix(envelope), shown, turns=turns)


def unedited(surface: Surface) -> Surface:
    return msgspec.structs.replace(surface, edits=())


def texts_of(surface: Surface) -> list[bytes]:
    return [block.append.text for block in surface.blocks]


def standing_on(history: list[Any], held: Held) -> Standing:
    found = standing(chat_body(history), held, turns=len(history))
    assert found is not None
    return found


def grown_from(wire: str, first: bytes, second: bytes) -> bytes:
    """Return the first body with the turns of the second behind its own."""
    other = lift(wire, second)
    more = b"".join(b", " + second[turn.start : turn.end] for turn in other.turns)
    end = lift(wire, first).history.end - 1
    return first[:end] + more + first[end:]


def some_held(body: bytes, wire: str, data: st.DataObject) -> Held:
    """Return a block or nothing behind each fresh turn of the body."""
    form = data.draw(FORMS)
    fresh = lift(wire, body).turns.fresh_from(0)
    behind = data.draw(st.lists(st.sampled_from(fresh or (0,)), unique=True))
    held: Held = dict.fromkeys(fresh, (Bare(),))
    return held | {turn: (block(f"B{turn}", form),) for turn in sorted(behind)}


@given(odd_bodies(), odd_bodies(), WIRES, st.data())
def test_what_is_put_back_is_what_projecting_anew_gives(
    first: bytes, second: bytes, wire: str, data: st.DataObject
) -> None:
    held = some_held(first, wire, data)
    turns = len(lift(wire, first).turns)
    known = standing(first, held, turns=turns, wire=wire)
    envelope, surface, shown = laid(grown_from(wire, first, second), held, wire)
    if known is None:
        return
    inbound, own = plain_prefix(envelope), known.marks.ours.within

    assert put_back(known, envelope, held) == unedited(surface)
    assert put_again(known, envelope.body, texts_of(surface)) == lower(
        envelope.body, surface.edits
    )
    with pytest.MonkeyPatch.context() as patch:
        # As without the scanner, and as a long body.
        patch.setattr(module, "SCANNER", None)
        patch.setattr(envelopes, "LONG_BYTES", 0)
        spliced = put_again(known, envelope.body, texts_of(surface))
        assert bytes(spliced) == lower(envelope.body, surface.edits)
    assert surface_again(known, envelope) == msgspec.structs.replace(
        surface, edits=(), blocks=()
    )
    assert prefix_again(known, inbound) == shown
    assert known.marks.ours == surface.ours(envelope.lead)
    if known.marks.ours.first < 0:
        assert own == b""
    else:
        assert without(shown, own) == inbound
    assert gone_on(
        known, envelope, inbound, shown, turns=len(envelope.turns)
    ) == standing_of(envelope, surface, inbound, shown, turns=len(envelope.turns))


@given(odd_bodies(), odd_bodies(), odd_bodies(), WIRES, st.data())
def test_what_stood_before_is_put_back_as_projecting_anew_gives(
    first: bytes, second: bytes, other: bytes, wire: str, data: st.DataObject
) -> None:
    held = some_held(first, wire, data)
    turns, body = len(lift(wire, first).turns), grown_from(wire, first, second)
    later = standing(body, held, turns=len(lift(wire, body).turns), wire=wire)
    if later is None:
        return
    envelope, surface, shown = laid(grown_from(wire, first, other), held, wire)

    known = standing_up_to(later, turns)

    assert known is not None
    assert put_back(known, envelope, held) == unedited(surface)
    assert put_again(known, envelope.body, texts_of(surface)) == lower(
        envelope.body, surface.edits
    )
    assert prefix_again(known, plain_prefix(envelope)) == shown
    assert standing_up_to(later, later.marks.last) is None


@given(odd_bodies(), odd_bodies(), WIRES, FORMS, st.data())
def test_one_block_more_is_laid_as_projecting_anew_lays_it(
    first: bytes, second: bytes, wire: str, form: str, data: st.DataObject
) -> None:
    held, turns = some_held(first, wire, data), len(lift(wire, first).turns)
    known = standing(first, held, turns=turns, wire=wire)
    grown = grown_from(wire, first, second)
    new = lift(wire, grown).turns.fresh_from(turns)
    if known is None or not new:
        return
    held[data.draw(st.sampled_from(new))] = (block("new", form),)
    envelope, surface, shown = laid(grown, held, wire)
    inbound, count = plain_prefix(envelope), len(envelope.turns)

    found = put_more(known, envelope, inbound, held)

    anew = standing_of(envelope, surface, inbound, shown, turns=count)
    if found is None:
        assert anew is None
        return
    assert found == (unedited(surface), anew)
    assert put_again(found[1], grown, texts_of(surface)) == lower(grown, surface.edits)


@pytest.mark.parametrize(
    "held",
    [
        {},
        {1: (block(),)},
        {1: (block("other"),), 5: (block(),)},
        {1: (block(),), 5: (block(form=PART),)},
        {1: (block(),), 3: (block(),)},
        {1: (block(),), 5: (block(), TailCopy(b"T", (), 1))},
        {1: (block(),), 5: (block(), block())},
        {1: (block(),), 4: (block(),), 5: (block(),)},
    ],
)
def test_what_is_not_one_block_more_is_projected_anew(held: Held) -> None:
    known = standing_on(HISTORY, {1: (block(),)})
    envelope = lift("openai_chat", chat_body([*HISTORY, assistant("d"), user("e")]))

    assert put_more(known, envelope, plain_prefix(envelope), held) is None


def test_a_turn_that_stays_bare_changes_nothing_that_stands() -> None:
    known = standing_on(HISTORY, {1: (block(),)})
    envelope, surface, _ = laid(chat_body(GROWN), {1: (block(),)}, "openai_chat")

    again = put_back(known, envelope, {1: (block(),), 3: (Bare(),)})

    assert again == unedited(surface)


@pytest.mark.parametrize(
    "held",
    [
        {},
        {1: (block("other"),)},
        {3: (block(),)},
        {1: (block(), block())},
        {1: (block(),), 3: (block("new"),)},
        {1: (block(),), 3: (Fold(2, b"S", 1),)},
        {1: (block(),), 3: (TailCopy(b"T", (), 1),)},
    ],
)
def test_other_operations_are_projected_anew(held: Held) -> None:
    known = standing_on(HISTORY, {1: (block(),)})

    assert put_back(known, lift("openai_chat", chat_body(GROWN)), held) is None


@pytest.mark.parametrize(
    "held",
    [
        {},
        {1: (Bare(),)},
        {1: (block("1"), block("2"))},
        {1: (block(),), 2: (Prune(((0, b'"stub"'),)),)},
        {1: (TailCopy(b"T", (), 1),)},
        {1: (block(),), 3: (TailCopy(b"T", (), 1),)},
        {1: (block(),), 5: (Fold(2, b"S", 1, is_whole=True),)},
        {5: (Fold(2, b"S", 1, is_whole=True),)},
    ],
)
def test_only_one_block_behind_a_turn_stands(held: Held) -> None:
    assert standing(chat_body(GROWN), held, turns=len(GROWN)) is None


def test_a_block_of_two_insertions_does_not_stand() -> None:
    body = anthropic_body([user("a"), assistant("b"), user("c")])
    held: Held = {0: (block(form=PART),)}

    assert standing(body, held, turns=3, wire="anthropic") is None


def test_what_was_bare_first_is_put_again_as_it_is_put_back() -> None:
    held: Held = {1: (Bare(), block()), 3: (block("other"), Bare())}
    known = standing_on(HISTORY, held)
    envelope, surface, _ = laid(chat_body(GROWN), held, "openai_chat")

    assert put_back(known, envelope, held) == unedited(surface)
    assert put_again(known, envelope.body, texts_of(surface)) == lower(
        envelope.body, surface.edits
    )


def test_blocks_that_are_framed_in_other_ways_do_not_stand() -> None:
    listed = {"role": "user", "content": [{"type": "text", "text": "c"}]}
    body = anthropic_body([user("a"), assistant("b"), listed])
    one: Held = {0: (block(form=TURN),)}
    other: Held = {2: (block(form=PART),)}

    assert standing(body, one, turns=3, wire="anthropic") is not None
    assert standing(body, other, turns=3, wire="anthropic") is not None
    assert standing(body, {**one, **other}, turns=3, wire="anthropic") is None


def test_a_stub_with_as_many_edits_as_there_are_blocks_does_not_stand() -> None:
    held: Held = {5: (Prune(((0, b'"stub"'),)), block("1"), block("2"))}

    assert standing(chat_body(GROWN), held, turns=len(GROWN)) is None


def test_an_edit_without_the_text_of_its_block_does_not_stand() -> None:
    body = chat_body(GROWN)
    held: Held = {1: (block("1"), block("2"))}
    envelope = lift("openai_chat", body)
    ending = Ending(5, block("end"))
    surface = project(envelope, held, part_span, ending=ending)

    assert len(surface.edits) == len(surface.blocks)
    assert (
        standing_of(
            envelope, surface, plain_prefix(envelope), plain_prefix(envelope), turns=6
        )
        is None
    )


def test_behind_what_is_asked_of_nothing_stands() -> None:
    body = chat_body(GROWN)
    envelope, surface, shown = laid(body, {3: (block(),)}, "openai_chat")
    inbound = plain_prefix(envelope)
    known = standing_of(envelope, surface, inbound, shown, turns=4)

    assert known is not None
    assert standing_of(envelope, surface, inbound, shown, turns=3) is None
    assert gone_on(known, envelope, inbound, shown, turns=3) is None


def test_what_goes_on_was_read_up_to_where_it_is_asked_of() -> None:
    known = standing_on(HISTORY, {1: (block(),)})
    envelope, _, shown = laid(chat_body(GROWN), {1: (block(),)}, "openai_chat")
    first, last = Entry(), Entry()
    reading = Reading({1: first, 5: last}, 6, 7, 8.0)
    older = Reading({1: first}, 4)
    known = msgspec.structs.replace(known, reading=older, told=("told",))
    inbound = plain_prefix(envelope)

    short, whole, unread = [
        gone_on(known, envelope, inbound, shown, turns=turns, reading=read)
        for turns, read in ((4, reading), (6, reading), (6, None))
    ]

    # An older reading tells nothing of turns that are new.
    assert unread is not None
    assert unread.reading is None
    assert short is not None
    assert short.reading == Reading({1: first}, 4, 7, 8.0)
    assert whole is not None
    assert (whole.reading, whole.told) == (reading, ("told",))
    assert whole.reading is not None
    assert whole.reading.held is reading.held
    before = standing_up_to(whole, 4)
    assert before is not None
    assert (before.reading, before.told) == (short.reading, ("told",))
