import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from deuz_compiler.errors import MalformedInput
from deuz_compiler.records.candidate import Candidate
from deuz_compiler.records.loading import load_record
from deuz_compiler.records.policy import Overhead, Policy, Share
from deuz_compiler.selection.faults import Sifted, input_faults, sift

STRICT = Policy(budget_tokens=1, faults="raise")
LENIENT = Policy(budget_tokens=1)


def record(key: str, **fields: object) -> Candidate:
    known = {"source": "s", "kind": "rag", "text": "SECRET", "record_id": key, **fields}
    return Candidate(**known)  # type: ignore[arg-type]  # Builder.


def faults(*candidates: Candidate, policy: Policy = STRICT) -> tuple[str, ...]:
    with pytest.raises(MalformedInput) as caught:
        sift(candidates, policy, placed=frozenset({"s/placed"}))
    return caught.value.faults


def test_limits_themselves_are_within_the_limits() -> None:
    records = (
        record("x" * 256, tokens=0, label_tokens=0, projection_tokens=0, score=0.0),
        record("y", priority=1_000, score=1.0),
        record("z", priority=-1_000),
    )
    policy = msgspec.structs.replace(
        STRICT,
        budget_tokens=0,
        ceiling_tokens=0,
        overhead=Overhead(0, 0, 0),
        threshold=1.0,
        search_nodes=1,
        search="exact",
        pricing="rendered",
    )

    assert sift(records, policy, placed=frozenset()) == Sifted(records, ())


def test_names_are_shown_short_and_on_one_line() -> None:
    told = "candidate s/a?b: id holds a control character"

    assert faults(record("a\nb")) == (told,)
    assert faults(record("x" * 300)) == (
        f"candidate s/{'x' * 254}: id is not 1 to 256 characters long",
    )


def test_dependencies_given_as_one_text_are_told_once() -> None:
    lost = record("b", depends_on=("s/ghost",))

    assert faults(record("a", depends_on="s/placed"), lost) == (
        "candidate s/a: depends_on is no list of keys",
        "candidate s/b: depends on unknown s/ghost",
    )


def test_all_faults_are_told_at_once_and_none_is_content() -> None:
    found = faults(
        record("a", tokens=-1, score=2.0),
        record("a"),
        record("b", group_id="g", is_group_required=True),
        record("c", group_id="g", is_group_required=True, requirement="preferred"),
        record("d", depends_on=("s/a", "s/nobody", "s/placed")),
    )

    assert found == (
        "candidate s/a: tokens -1 is negative",
        "candidate s/a: score 2.0 is outside 0 to 1",
        "candidate s/a: duplicate",
        "group g: members of classes discretionary, preferred",
        "candidate s/d: depends on unknown s/nobody",
    )
    assert "SECRET" not in "".join(found)


def test_faults_of_policy_and_records_are_told_together() -> None:
    policy = msgspec.structs.replace(STRICT, budget_tokens=-1)
    records = (record("a", tokens=-1), record("b", depends_on=("s/ghost",)))

    assert faults(*records, policy=policy) == (
        "policy: budget_tokens -1 is negative",
        "candidate s/a: tokens -1 is negative",
        "candidate s/b: depends on unknown s/ghost",
    )
    # Where not all records could be read, the ghost may be one of the others.
    assert input_faults(records, policy, placed=None) == (
        "policy: budget_tokens -1 is negative",
        "candidate s/a: tokens -1 is negative",
    )
    assert input_faults(records, None, placed=frozenset()) == (
        "candidate s/a: tokens -1 is negative",
        "candidate s/b: depends on unknown s/ghost",
    )
    assert input_faults(records[1:], STRICT, placed=frozenset()) == (
        "candidate s/b: depends on unknown s/ghost",
    )
    assert input_faults(records[1:], LENIENT, placed=frozenset()) == ()


def test_optional_group_of_mixed_classes_is_no_fault() -> None:
    records = (
        record("a", group_id="g"),
        record("b", group_id="g", requirement="preferred"),
    )

    assert sift(records, STRICT, placed=frozenset()) == Sifted(records, ())


def test_lenient_policy_leaves_faulty_records_out_and_says_why() -> None:
    good, again, bad = record("a"), record("a", text="later"), record("b", tokens=-1)
    waiting = record("c", depends_on=("s/ghost",))

    sifted = sift((good, again, bad, waiting), LENIENT, placed=frozenset())

    assert sifted.candidates == (good, waiting)
    assert sifted.excluded == ((again, "duplicate-record"), (bad, "malformed"))


def test_group_of_mixed_classes_is_left_out_as_malformed() -> None:
    grouped = {"group_id": "g", "is_group_required": True}
    members = (record("a", **grouped), record("b", requirement="preferred", **grouped))

    sifted = sift((*members, record("c")), LENIENT, placed=frozenset())

    assert [candidate.record_id for candidate in sifted.candidates] == ["c"]
    assert sifted.excluded == tuple([(member, "malformed") for member in members])


def test_mandatory_member_of_a_group_of_mixed_classes_is_an_error() -> None:
    grouped = {"group_id": "g", "is_group_required": True}
    members = (record("a", requirement="mandatory", **grouped), record("b", **grouped))

    assert faults(*members, policy=LENIENT) == (
        "group g: members of classes discretionary, mandatory",
    )


def test_required_group_that_loses_a_faulty_member_is_left_out_whole() -> None:
    grouped = {"group_id": "g", "is_group_required": True}
    claim, again = record("claim", **grouped), record("claim", **grouped)
    limit = record("limit", tokens=-1, **grouped)
    other = record("other", group_id="h", is_group_required=True)

    sifted = sift((claim, limit, again, other), LENIENT, placed=frozenset())

    assert sifted.candidates == (other,)
    assert [reason for _, reason in sifted.excluded] == [
        "dependency-blocked",
        "malformed",
        "duplicate-record",
    ]


def test_record_of_an_unknown_class_may_not_be_left_out() -> None:
    bad = record("a", requirement="mandtory")

    assert faults(bad, record("b", tokens=-1), policy=LENIENT) == (
        "candidate s/a: requirement is not one of "
        "mandatory, required, preferred, discretionary",
    )


def test_faulty_mandatory_record_is_an_error_all_the_same() -> None:
    bad = record("a", tokens=-1, requirement="mandatory")

    assert faults(bad, record("b", tokens=-1), policy=LENIENT) == (
        "candidate s/a: tokens -1 is negative",
    )


@pytest.mark.parametrize(
    ("fields", "is_lost"),
    [
        ({"text": "other", "requirement": "mandatory"}, True),
        ({"requirement": "preferred"}, True),
        ({"requirement": "mandatory"}, False),
    ],
)
def test_mandatory_text_is_not_lost_behind_an_equal_key(
    fields: dict[str, object], is_lost: bool
) -> None:
    first, again = record("a", **fields), record("a", requirement="mandatory")

    if is_lost:
        assert faults(first, again, policy=LENIENT) == ("candidate s/a: duplicate",)
    else:
        sifted = sift((first, again), LENIENT, placed=frozenset())
        assert sifted.excluded == ((again, "duplicate-record"),)


def test_duplicate_has_no_say_in_its_group() -> None:
    grouped = {"group_id": "g", "is_group_required": True}
    members = (record("a", **grouped), record("b", **grouped))
    again = record("b", requirement="preferred", **grouped)

    sifted = sift((*members, again), LENIENT, placed=frozenset())

    assert sifted == Sifted(members, ((again, "duplicate-record"),))


def test_mandatory_record_offered_twice_is_no_error() -> None:
    twice = record("a", requirement="mandatory")

    assert sift((twice, twice), LENIENT, placed=frozenset()).candidates == (twice,)


@pytest.mark.parametrize(
    ("fields", "fault"),
    [
        ({"budget_tokens": -1}, "budget_tokens -1 is negative"),
        ({"ceiling_tokens": -1}, "ceiling_tokens -1 is negative"),
        ({"overhead": Overhead(-1)}, "block_tokens -1 is negative"),
        ({"overhead": Overhead(0, -1)}, "record_tokens -1 is negative"),
        ({"overhead": Overhead(0, 0, -1)}, "between_tokens -1 is negative"),
        ({"threshold": 1.5}, "threshold 1.5 is outside 0 to 1"),
        ({"search_nodes": 0}, "search_nodes 0 is below 1"),
        ({"required": ("a", "\ud800")}, "required holds half a surrogate pair"),
        (
            {"mandatory_form": "full"},
            "mandatory_form: is not one of the allowed words (allowed: cheapest)",
        ),
        (
            {"ranking": ("luck",)},
            "ranking[0]: is not one of the allowed words "
            "(allowed: priority, score, coverage, cost, source)",
        ),
        (
            {"search": "exact", "pricing": "declared"},
            "search exact needs pricing rendered",
        ),
        ({"shares": (Share("a", 0),)}, "shares add up to nothing"),
        ({"shares": (Share("a", -1), Share("b", 2))}, "share a weight -1 is negative"),
        ({"shares": (Share("a", 1), Share("a", 1))}, "share a is given twice"),
    ],
)
def test_faulty_policy_is_an_error_even_where_records_would_be_left_out(
    fields: dict[str, object], fault: str
) -> None:
    policy = msgspec.structs.replace(LENIENT, **fields)

    assert faults(policy=policy) == (f"policy: {fault}",)


@given(
    fields=st.dictionaries(
        st.sampled_from(msgspec.structs.fields(Policy)).map(lambda each: each.name),
        st.one_of(
            st.none(),
            st.booleans(),
            st.integers(-2, 2),
            st.floats(-2, 2),
            st.sampled_from(["cheapest", "none", "exact", "raise", "\ud800", ""]),
            st.lists(st.sampled_from(["score", "role", "\ud800"]), max_size=2),
            st.builds(Overhead, st.sampled_from([0, "0"])),
            st.tuples(st.builds(Share, st.just("a"), st.sampled_from([1, 1.5]))),
        ),
        max_size=4,
    )
)
@example(fields={"search": "\ud800"})
def test_policy_is_mistyped_where_one_of_its_fields_is(
    fields: dict[str, object],
) -> None:
    policy = msgspec.structs.replace(LENIENT, **fields)
    by_field: list[str] = []
    load_record(Policy, msgspec.to_builtins(policy), where="policy", faults=by_field)

    found = input_faults((), policy, placed=None)

    mistyped = tuple(dict.fromkeys(by_field))
    assert found == (mistyped or found)
