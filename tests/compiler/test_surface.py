import json
from collections.abc import Mapping
from functools import partial

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deuz_compiler import (
    Append,
    Bare,
    Ending,
    Fold,
    PlacedRecord,
    Prune,
    Surface,
    TailCopy,
    kept_turns,
    lift,
    lower,
    project,
)
from deuz_testing.bodies import (
    anthropic_body,
    assistant,
    tool_result,
    tool_use,
    user,
)

HISTORY = [
    user("a"),
    tool_use("t"),
    tool_result("t", "long result"),
    assistant("b"),
    user("c"),
]
BODY = anthropic_body(HISTORY)
RECORD = PlacedRecord("docs", "r1", "1", "sha256:00")
# In force wherever it stands, so that a short history is enough.
whole_fold = partial(Fold, is_whole=True)


def content_span(wire: str, raw: bytes, part: int) -> tuple[int, int]:
    start = raw.index(b'"long result"')
    return start, start + len(b'"long result"')


def surface(operations: Mapping[int, tuple[object, ...]]) -> Surface:
    return project(lift("anthropic", BODY), operations, content_span)  # type: ignore[arg-type]


def messages(operations: Mapping[int, tuple[object, ...]]) -> list[object]:
    history: list[object] = json.loads(lower(BODY, surface(operations).edits))[
        "messages"
    ]
    return history


def test_without_operations_the_surface_is_the_history() -> None:
    plain = surface({})

    assert plain.edits == ()
    assert [e.turn for e in plain.elements] == [0, 1, 2, 3, 4]
    assert not any(e.is_ours for e in plain.elements)


def test_a_block_stands_behind_its_turn() -> None:
    block = Append(b"B", (RECORD,), 7)

    laid = surface({0: (block,)})

    assert messages({0: (block,)}) == [HISTORY[0], user("B"), *HISTORY[1:]]
    assert laid.placed == (RECORD,)
    assert [(e.turn, e.is_ours, e.tokens) for e in laid.elements[:2]] == [
        (0, False, laid.elements[0].tokens),
        (0, True, 7),
    ]


def test_a_stub_replaces_the_part_only() -> None:
    stub = Prune(((0, b'"[pruned]"'),))

    pruned = messages({2: (stub,)})

    assert pruned == [*HISTORY[:2], tool_result("t", "[pruned]"), *HISTORY[3:]]
    assert surface({2: (stub,)}).elements[2].is_ours


def test_a_fold_takes_its_turns_blocks_and_stubs_along() -> None:
    operations = {
        0: (Append(b"kept", (), 1),),
        2: (Append(b"gone", (), 1), Prune(((0, b'"x"'),))),
        3: (whole_fold(3, b"S", 2),),
    }

    assert messages(operations) == [
        user("a"),
        user("kept"),
        user("S"),
        user("c"),
    ]
    assert surface(operations).folded == (1, 3)


def test_of_two_folds_the_longer_history_wins() -> None:
    operations = {2: (whole_fold(2, b"old", 2),), 3: (whole_fold(3, b"new", 2),)}

    assert messages(operations) == [user("a"), user("new"), user("c")]


def test_a_fold_longer_than_the_history_is_not_applied() -> None:
    assert messages({2: (whole_fold(9, b"S", 2),)}) == HISTORY


def test_a_stub_makes_the_turn_cheaper_and_its_digest_another() -> None:
    plain = surface({}).elements[2]
    pruned = surface({2: (Prune(((0, b'""'),)),)}).elements[2]

    assert pruned.tokens < plain.tokens
    assert pruned.digest != plain.digest


@pytest.mark.parametrize("form", ["turn", "part"])
@given(places=st.sets(st.sampled_from([0, 4])))
def test_the_same_history_projects_to_the_same_bytes(
    form: str, places: set[int]
) -> None:
    operations = {i: (Append(b"B%d" % i, (), 1, form),) for i in places}

    one = lower(BODY, surface(operations).edits)

    assert one == lower(BODY, surface(dict(reversed(operations.items()))).edits)


def test_a_block_stays_in_the_turn_that_a_joining_summary_extends() -> None:
    block = Append(b"B", (RECORD,), 1, form="part")
    fold = whole_fold(turns=3, text=b"S", tokens=1, form="part")

    assert messages({0: (block,), 3: (fold,)}) == [
        {
            "role": "user",
            "content": [{"type": "text", "text": part} for part in ("a", "B", "S")],
        },
        user("c"),
    ]


def test_behind_a_block_that_is_a_turn_the_summary_is_one_too() -> None:
    block = Append(b"B", (RECORD,), 1, form="turn")
    fold = whole_fold(turns=3, text=b"S", tokens=1, form="part")

    assert messages({0: (block,), 3: (fold,)}) == [
        user("a"),
        user("B"),
        user("S"),
        user("c"),
    ]


def test_a_turn_that_is_to_stay_bare_looks_like_one_without_operations() -> None:
    assert surface({0: (Bare(),)}) == surface({})


def test_operations_behind_the_end_of_the_history_are_not_applied() -> None:
    beyond = {
        9: (Append(b"B", (RECORD,), 7), whole_fold(2, b"S", 2), Prune(((0, b""),)))
    }

    assert surface(beyond) == surface({})


def test_a_summary_is_read_without_its_escapes() -> None:
    fold = whole_fold(1, b'a \\"river\\"\\n\\u00e9', 4)

    assert fold.plain_text == 'a "river"\n\u00e9'


ENDING = Ending(4, Append(b"NOTES", (), 9))


def ended(operations: Mapping[int, tuple[object, ...]], ending: Ending) -> Surface:
    return project(lift("anthropic", BODY), operations, content_span, ending=ending)  # type: ignore[arg-type]


def test_an_ending_is_written_behind_the_turns_blocks_and_is_none_of_them() -> None:
    block = Append(b"B", (RECORD,), 7)

    laid = ended({4: (block,)}, ENDING)

    written = json.loads(lower(BODY, laid.edits))["messages"]
    assert written == [*HISTORY, user("B"), user("NOTES")]
    assert laid.elements == surface({4: (block,)}).elements
    assert laid.blocks == surface({4: (block,)}).blocks


@pytest.mark.parametrize("form", ["turn", "part"])
def test_an_ending_needs_no_operation_at_its_turn(form: str) -> None:
    ending = Ending(4, Append(b"NOTES", (), 9, form=form))

    laid = ended({}, ending)

    assert b"NOTES" in lower(BODY, laid.edits)
    assert laid.elements == surface({}).elements


def test_an_ending_inside_what_was_folded_is_gone() -> None:
    fold = whole_fold(5, b"SUMMARY", 3)

    laid = ended({4: (fold,)}, ENDING)

    assert b"NOTES" not in lower(BODY, laid.edits)


def test_a_copy_of_working_memory_stays_behind_the_block_of_its_turn() -> None:
    block, copy = Append(b"B", (RECORD,), 7), TailCopy(b"W", ("goal",), 5)

    laid = surface({0: (block, copy)})

    added = [user("B"), user("W")]
    assert messages({0: (block, copy)}) == [HISTORY[0], *added, *HISTORY[1:]]
    assert [(each.turn, each.copy) for each in laid.copies] == [(0, copy)]
    assert [each.append for each in laid.blocks] == [block]
    assert [(e.tokens, e.is_ours) for e in laid.elements[1:3]] == [(7, True), (5, True)]


def test_a_fold_keeps_turns_behind_its_summary_with_blocks_and_stubs() -> None:
    block, copy = Append(b"B", (RECORD,), 7), TailCopy(b"W", (), 5)
    fold = whole_fold(4, b"S", 3, kept=(0, 1))
    operations = {2: (Prune(((0, b'"[pruned]"'),)),), 3: (fold, block, copy)}

    laid = surface(operations)

    pruned = tool_result("t", "[pruned]")
    added = [user("B"), user("W")]
    assert messages(operations) == [user("S"), HISTORY[3], *added, pruned, user("c")]
    assert [e.turn for e in laid.elements] == [3, 3, 3, 3, 2, 4]
    assert [e.is_ours for e in laid.elements] == [True, False, True, True, True, False]
    assert [each.turn for each in laid.blocks] == [3]
    assert [each.turn for each in laid.copies] == [3]
    assert kept_turns(fold, 3) == (3, 2)


def test_what_a_joined_fold_keeps_stands_behind_the_turn_it_joined() -> None:
    fold = whole_fold(3, b"S", 3, form="part", kept=(0,))

    left = messages({3: (fold,)})

    parts = [{"type": "text", "text": "a"}, {"type": "text", "text": "S"}]
    assert left == [{"role": "user", "content": parts}, HISTORY[3], HISTORY[4]]


def test_what_a_fold_keeps_has_the_ending_if_it_is_last() -> None:
    envelope = lift("anthropic", BODY)
    operations = {4: (whole_fold(5, b"S", 3, kept=(0,)),)}
    ending = Ending(4, Append(b"W", (), 5))

    laid = project(envelope, operations, content_span, ending=ending)

    sent = json.loads(lower(BODY, laid.edits))["messages"]
    assert sent == [user("S"), user("c"), user("W")]
    assert [e.turn for e in laid.elements] == [4, 4]
