import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from deuz_compiler import (
    Append,
    Bare,
    BlockRecord,
    Fold,
    Operation,
    PlacedRecord,
    Prune,
    escape_json_string,
    records_of,
    redact_operations,
    render_block,
    was_redacted,
    was_unfolded,
)

PRUNE = Prune(((0, b'"x"'),))


def block(*records: tuple[str, str], scope: str = "acme", form: str = "turn") -> Append:
    written = [BlockRecord("memory", "memory", i, "1", "", text) for i, text in records]
    text = escape_json_string(render_block(written))
    placed = [PlacedRecord("memory", i, "1", "sha256:0", scope) for i, _ in records]
    return Append(text, tuple(placed), tokens=100, form=form)


@pytest.mark.parametrize("form", ["turn", "part"])
def test_the_record_goes_and_the_bytes_of_the_others_stay(form: str) -> None:
    three = block(("a", "Ä <b>"), ("b", 'canary "x"\n'), ("c", "語\r\n"), form=form)

    (left,) = redact_operations((three,), "acme", ["b"])

    assert isinstance(left, Append)
    alone = block(("a", "Ä <b>"), ("c", "語\r\n"), form=form)
    assert (left.text, left.records, left.form) == (alone.text, alone.records, form)
    assert b"canary" not in left.text
    assert 0 < left.tokens < three.tokens
    assert left.is_redacted


def test_a_block_that_loses_its_last_record_leaves_its_turn_bare() -> None:
    held = (PRUNE, block(("a", "x"), ("b", "y")))

    left = redact_operations(held, "acme", ["a", "b"])

    assert left == (PRUNE, Bare(is_redacted=True))
    assert was_redacted(left)


@pytest.mark.parametrize(
    ("scope", "ids"), [("acme", ["z"]), ("other", ["a"]), ("acme/x", ["a"]), ("", [])]
)
def test_what_is_not_meant_is_the_very_same(scope: str, ids: list[str]) -> None:
    held: tuple[Operation, ...] = (PRUNE, Bare(), block(("a", "x")))

    assert redact_operations(held, scope, ids) is held
    assert not was_redacted(held)


def test_a_record_of_another_source_has_no_scope_and_stays() -> None:
    held = (block(("a", "x"), scope=""),)

    assert redact_operations(held, "acme", ["a"]) is held


@pytest.mark.parametrize("text", [b"no block", b"\\"])
def test_a_block_that_cannot_be_cut_goes_as_a_whole(text: bytes) -> None:
    odd = msgspec.structs.replace(block(("a", "x"), ("b", "y")), text=text)

    assert redact_operations((odd,), "acme", ["a"]) == (Bare(is_redacted=True),)


@given(
    st.lists(st.text(min_size=1, max_size=20), min_size=1, max_size=5),
    st.sets(st.integers(0, 4)),
)
def test_what_stays_is_the_block_of_what_stays(
    texts: list[str], gone: set[int]
) -> None:
    records = [(f"r{number}", text) for number, text in enumerate(texts)]
    whole = block(*records)
    ids = [f"r{number}" for number in gone]

    (left,) = redact_operations((whole,), "acme", ids)

    kept = [pair for pair in records if pair[0] not in ids]
    if not kept:
        assert left == Bare(is_redacted=True)
    else:
        assert isinstance(left, Append)
        expected = block(*kept)
        written = msgspec.json.decode(b'"%b"' % left.text, type=str)
        wanted = msgspec.json.decode(b'"%b"' % expected.text, type=str)
        assert (written, left.records) == (wanted, expected.records)


SEEN = (PlacedRecord("memory", "a", scope="acme"), PlacedRecord("docs", "b"))
FOLD = Fold(3, b"a is yellow", 5, records=SEEN)


def test_a_summary_that_may_repeat_the_record_goes_as_a_whole() -> None:
    left = redact_operations((PRUNE, FOLD), "acme", ["a"])

    assert left == (PRUNE, Bare(is_redacted=True, folded=3))
    assert was_redacted(left)


@pytest.mark.parametrize(
    ("scope", "ids"), [("acme", ["z", "b"]), ("other", ["a"]), ("", ["b"])]
)
def test_a_summary_of_other_records_stays(scope: str, ids: list[str]) -> None:
    held: tuple[Operation, ...] = (FOLD, Fold(2, b"x", 1))

    assert redact_operations(held, scope, [each for each in ids if scope]) is held


def test_the_turns_of_a_summary_that_went_are_known() -> None:
    operations: dict[int, tuple[Operation, ...]] = {
        9: (PRUNE,),
        7: (Bare(is_redacted=True, folded=3),),
        2: (FOLD,),
    }

    found = [turn for turn in range(12) if was_unfolded(operations, turn)]

    assert found == [5, 6, 7]


def test_what_may_be_repeated_is_what_blocks_show_and_summaries_saw() -> None:
    shown = block(("a", "x"), ("c", "y"))

    seen = records_of((FOLD, PRUNE, Bare(), shown, block(("d", "z"), scope="")))

    assert [(each.scope, each.record_id) for each in seen] == [
        ("acme", "a"),
        ("acme", "c"),
    ]
