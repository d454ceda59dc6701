from typing import Any

import msgspec
import pytest

from deuz_compiler import (
    Append,
    Bare,
    Fold,
    Operation,
    PlacedRecord,
    Prune,
    TailCopy,
    digest_held,
    lift,
    shortens,
)
from deuz_compiler.compaction.summary import render_summary
from deuz_compiler.operations import in_force
from deuz_testing.bodies import (
    anthropic_body,
    assistant,
    tool_result,
    tool_use,
    user,
)

EACH: list[Operation] = [
    Append(b"text", (PlacedRecord("docs", "r1", "1", "sha256:00"),), 7, "part"),
    Fold(3, b"summary", 5),
    Prune(((0, b'"stub"'),)),
    Bare(is_redacted=True),
    TailCopy(b"notes", ("working-memory/goal",), 9, "part"),
]


@pytest.mark.parametrize("operation", EACH, ids=lambda each: type(each).__name__)
def test_an_operation_comes_out_of_a_store_as_it_went_in(operation: Any) -> None:
    kept = msgspec.msgpack.encode((operation,))

    assert msgspec.msgpack.decode(kept, type=tuple[Operation, ...]) == (operation,)


def test_what_is_held_has_the_digest_of_its_operations_in_their_order() -> None:
    append, fold, *_ = EACH
    held = {0: (append,), 5: (fold,)}

    assert digest_held(held) == digest_held({7: (fold,), 2: (append,)})
    assert digest_held(held, end=5) == digest_held({0: (append,)})
    assert digest_held({}) == digest_held(held, end=0) == 0
    others = [
        digest_held({0: (fold,), 5: (append,)}),
        digest_held({0: (append, fold)}),
        digest_held({0: (msgspec.structs.replace(append, text=b"other"),), 5: (fold,)}),
        digest_held({0: (append,)}),
    ]
    assert len({digest_held(held), *others}) == 5
    # It is written down, and compared by processes of another day.
    assert digest_held({0: (Bare(),)}) == 0x85145E427E23EAAB


def test_a_summary_reads_as_a_person_would_write_it() -> None:
    assert Fold(1, rb"two\nlines, \"said\"", 5).plain_text == 'two\nlines, "said"'


OPENING = [user("a"), tool_use("t"), tool_result("t", "3"), assistant("b"), user("c")]
STUB = Prune(((0, b'"stub"'),))
FOLD = Fold(4, b"notes", 5)
REPEATING = Fold(4, render_summary("notes", "c").replace("\n", r"\n").encode(), 5)


@pytest.mark.parametrize(
    ("behind", "operation", "applies"),
    [
        ([], STUB, False),
        ([tool_use("u"), tool_result("u", "4")], STUB, True),
        ([], FOLD, False),
        ([tool_use("u"), tool_result("u", "4")], FOLD, False),
        ([tool_use("u"), tool_result("u", "4")], REPEATING, True),
        ([assistant("d"), user("e")], FOLD, True),
        ([], msgspec.structs.replace(FOLD, is_whole=True), True),
    ],
)
def test_what_shortened_a_longer_history_leaves_the_newest_step_and_question(
    behind: list[Any], operation: Operation, applies: bool
) -> None:
    turns = lift("anthropic", anthropic_body([*OPENING, *behind])).turns
    block = EACH[0]

    applied = in_force(turns, {0: (block,), 4: (operation, block)})

    assert applied == {0: (block,), 4: (operation, block) if applies else (block,)}


def test_a_fold_shortens_all_its_turns_and_a_stub_its_own() -> None:
    told = [shortens({4: (STUB,), 9: (FOLD,)}, turn) for turn in range(11)]

    assert [turn for turn, is_short in enumerate(told) if is_short] == [4, 6, 7, 8, 9]
