from collections.abc import Sequence

import msgspec
import pytest

from deuz_compiler.records import reasons
from deuz_compiler.records import refusal as refusals
from deuz_compiler.records.candidate import Candidate, Eligibility
from deuz_compiler.records.policy import Policy
from deuz_compiler.records.refusal import Refusal
from deuz_compiler.selection.engine import Selection, select
from deuz_compiler.selection.pool import Surroundings, build_pool

POLICY = Policy(budget_tokens=0, pricing="declared")
NO = Eligibility(is_eligible=False, reason="other project")


def need(key: str, tokens: int = 10, /, **fields: object) -> Candidate:
    known = {"kind": "rag", "text": "", "requirement": "mandatory", **fields}
    return Candidate(source="", record_id=key, tokens=tokens, **known)  # type: ignore[arg-type]  # Builder.


def run(
    *candidates: Candidate,
    tokens: int = 100,
    placed: Sequence[str] = (),
    **fields: object,
) -> Selection:
    policy = msgspec.structs.replace(POLICY, budget_tokens=tokens, **fields)
    around = Surroundings(frozenset(placed), now=0.0)
    offered = [
        candidate
        if candidate.content_identity
        else msgspec.structs.replace(candidate, digest=candidate.record_id)
        for candidate in candidates
    ]
    return select(build_pool(offered, policy, around=around, estimate=len), policy)


def refused(selection: Selection) -> tuple[str, tuple[str, ...], str]:
    assert selection.refusal is not None
    refusal: Refusal = selection.refusal
    return refusal.reason, refusal.blocking, str(refusal)


def fate(selection: Selection) -> dict[str, str]:
    return {d.key: d.reason for d in selection.decisions.values()}


def chosen(selection: Selection) -> Sequence[str]:
    return sorted(d.key for d in selection.decisions.values() if d.is_selected)


@pytest.mark.parametrize("requirement", ["mandatory", "required"])
def test_cheapest_form_enters_though_the_full_one_would_fit(requirement: str) -> None:
    selection = run(
        need("full", 90, content_identity="X", requirement=requirement),
        need("anchor", 20, content_identity="X", requirement=requirement),
        tokens=200,
    )

    assert fate(selection) == {
        "anchor": requirement,
        "full": reasons.DUPLICATE_CONTENT,
    }


def test_form_is_priced_with_what_it_needs_that_is_not_in_yet() -> None:
    # After a has brought the tool, the pointer is the cheaper form of b.
    selection = run(
        need("a", 10, depends_on=("tool",), content_identity="A"),
        need("b-full", 20, content_identity="B"),
        need("b-pointer", 5, content_identity="B", depends_on=("tool",)),
        need("tool", 30, requirement="discretionary"),
    )

    assert chosen(selection) == ["a", "b-pointer", "tool"]


def test_form_too_dear_gives_way_to_the_next_and_none_refuses() -> None:
    forms = (
        need("a", 30, content_identity="A"),
        need("b", 80, content_identity="B", requirement="required"),
    )

    assert refused(run(*forms)) == (
        refusals.INSUFFICIENT_BUDGET,
        ("B",),
        "required B: no fitting legal form",
    )
    assert refused(run(*forms, tokens=29))[1:] == (
        ("A",),
        "mandatory A closure exceeds remaining budget",
    )


def test_second_of_two_mandatory_contents_is_named_with_what_was_spent() -> None:
    selection = run(need("a", 2_000), need("b", 2_500), tokens=4_400)

    assert selection.refusal is not None
    assert selection.refusal.blocking == ("b",)
    assert selection.refusal.used_tokens == 2_000
    assert selection.refusal.required_tokens == 4_500
    assert selection.refusal.available_tokens == 4_400
    assert run(need("a", 2_000), need("b", 2_500), tokens=4_500).refusal is None


def test_mandatory_content_without_an_eligible_form_refuses() -> None:
    below = {"form_rank": 1, "min_rank": 3, "content_identity": "X"}
    mixed = (need("a", **below), need("b", scope=NO, content_identity="X"))

    assert refused(run(need("a", **below), need("b", **below))) == (
        refusals.NO_LEGAL_FORM,
        ("X",),
        "mandatory X: all forms violate floor",
    )
    assert refused(run(*mixed)) == (
        refusals.REQUIRED_INELIGIBLE,
        ("X",),
        "mandatory X: no hard-eligible form",
    )


def test_one_eligible_form_is_enough() -> None:
    forms = (
        need("a", 1, scope=NO, content_identity="X"),
        need("b", content_identity="X"),
    )

    assert chosen(run(*forms)) == ["b"]


def test_expired_mandatory_record_leaves_and_refuses_nothing() -> None:
    selection = run(need("a", expires_at=0.0), need("b"))

    assert selection.refusal is None
    assert fate(selection) == {"a": reasons.EXPIRED, "b": reasons.MANDATORY}


@pytest.mark.parametrize(
    ("dependency", "block"),
    [
        (need("d", scope=NO), "dependency-ineligible:d(scope-ineligible)"),
        (need("d", expires_at=0.0), "dependency-ineligible:d(expired)"),
        (need("other"), "missing-dependency:d"),
    ],
)
def test_mandatory_record_that_needs_what_cannot_come_refuses(
    dependency: Candidate, block: str
) -> None:
    optional = msgspec.structs.replace(dependency, requirement="discretionary")

    selection = run(need("a", depends_on=("d",)), optional)

    assert refused(selection) == (
        refusals.UNSATISFIED_DEPENDENCY,
        ("a",),
        f"mandatory a blocked: {block}",
    )


def test_required_record_that_needs_another_form_of_what_is_in_refuses() -> None:
    selection = run(
        need("a", content_identity="X"),
        need("b", requirement="required", depends_on=("x",)),
        need("x", content_identity="X", requirement="discretionary"),
    )

    assert refused(selection) == (
        refusals.UNSATISFIED_DEPENDENCY,
        ("b",),
        "required form blocked: alternative-collision:x",
    )


def test_two_forms_of_one_content_cannot_enter_in_one_unit() -> None:
    selection = run(
        need("a", depends_on=("x1", "x2")),
        need("x1", content_identity="X", requirement="discretionary"),
        need("x2", content_identity="X", requirement="discretionary"),
    )

    assert refused(selection)[2] == "mandatory a blocked: alternative-collision:x2"


def test_other_form_of_mandatory_content_is_decided_before_optional_content() -> None:
    selection = run(
        need("full", 50, content_identity="X"),
        need("short", 20, content_identity="X"),
        need("want", 30, requirement="discretionary", score=0.5),
    )

    (full,) = [d for d in selection.decisions.values() if d.key == "full"]
    assert (full.reason, full.before_tokens) == (reasons.DUPLICATE_CONTENT, 80)


def grouped(key: str, tokens: int = 10, **fields: object) -> Candidate:
    group = {"group_id": "g", "is_group_required": True, "requirement": "required"}
    return need(key, tokens, **{**group, **fields})


def test_required_group_enters_whole() -> None:
    selection = run(grouped("claim"), grouped("limit"))

    assert [
        (d.key, d.is_selected, d.stage, d.reason) for d in selection.decisions.values()
    ] == [
        ("claim", True, "required", reasons.REQUIRED),
        ("limit", True, "required", reasons.REQUIRED),
    ]


def test_required_group_that_does_not_fit_names_its_members() -> None:
    selection = run(need("a", 5), grouped("claim", 60), grouped("limit", 41))

    assert refused(selection) == (
        refusals.UNRESOLVED_GROUP,
        ("claim", "limit"),
        "required group exceeds remaining budget: claim, limit",
    )
    assert selection.refusal is not None
    assert selection.refusal.required_tokens == 5 + 60 + 41


def test_required_group_with_an_ineligible_member_cannot_be_whole() -> None:
    assert refused(run(grouped("claim"), grouped("limit", scope=NO))) == (
        refusals.UNRESOLVED_GROUP,
        ("claim", "limit"),
        "required group cannot be satisfied: "
        "dependency-ineligible:limit(scope-ineligible)",
    )


def test_group_of_which_only_a_placed_member_is_eligible_is_no_need() -> None:
    members = (grouped("claim"), grouped("limit", scope=NO))

    selection = run(*members, placed=("claim",))

    assert (selection.refusal, selection.nodes) == (None, ())


def test_group_is_not_met_by_another_form_of_one_member() -> None:
    selection = run(
        need("a", content_identity="X"),
        grouped("claim", content_identity="X"),
        grouped("limit"),
    )

    assert refused(selection)[0] == refusals.UNRESOLVED_GROUP


def test_group_whose_contents_are_all_in_is_met() -> None:
    selection = run(need("a", content_identity="X"), grouped("c", content_identity="X"))

    assert selection.refusal is None
    assert fate(selection)["c"] == reasons.DUPLICATE_CONTENT


def test_member_pulled_in_as_a_dependency_brings_its_group() -> None:
    selection = run(
        need("a", depends_on=("claim",)), grouped("claim"), grouped("limit")
    )

    assert chosen(selection) == ["a", "claim", "limit"]


def test_mandatory_group_enters_whole() -> None:
    members = (
        grouped("claim", requirement="mandatory"),
        grouped("limit", requirement="mandatory"),
    )

    assert chosen(run(*members)) == ["claim", "limit"]
    assert refused(run(*members, tokens=15))[0] == refusals.INSUFFICIENT_BUDGET


def test_named_record_becomes_required_and_a_mandatory_one_stays() -> None:
    selection = run(
        need("a", requirement="discretionary"), need("b"), required=("a", "b")
    )

    assert fate(selection) == {"a": reasons.REQUIRED, "b": reasons.MANDATORY}


def test_naming_a_member_names_its_group() -> None:
    selection = run(
        grouped("claim", 60, requirement="discretionary"),
        grouped("limit", 60, requirement="discretionary"),
        required=("claim",),
    )

    assert refused(selection)[0] == refusals.UNRESOLVED_GROUP


@pytest.mark.parametrize("requirement", ["mandatory", "required"])
def test_required_content_that_came_along_is_not_admitted_twice(
    requirement: str,
) -> None:
    selection = run(
        need("a", requirement=requirement, content_identity="A", depends_on=("b",)),
        need("b", requirement="required", content_identity="B"),
        need("b2", 1, requirement="required", content_identity="B"),
    )

    assert chosen(selection) == ["a", "b"]
    assert fate(selection)["b2"] == reasons.DUPLICATE_CONTENT


def test_required_record_whose_gate_fails_is_left_out() -> None:
    selection = run(need("a", requirement="required", scope=NO))

    assert selection.refusal is None
    assert fate(selection) == {"a": reasons.SCOPE_INELIGIBLE}


def test_content_without_an_identity_is_named_by_its_key() -> None:
    assert refused(run(need("a", 101)))[1] == ("a",)


@pytest.mark.parametrize("requirement", ["mandatory", "required"])
def test_equal_prices_go_to_the_smaller_id(requirement: str) -> None:
    forms = [
        need(key, content_identity="X", requirement=requirement) for key in ("b", "a")
    ]

    assert chosen(run(*forms)) == ["a"]


@pytest.mark.parametrize("requirement", ["mandatory", "required"])
def test_needed_content_is_refused_rather_than_shortened(requirement: str) -> None:
    smaller = {"projection": "x", "projection_tokens": 1, "requirement": requirement}
    selection = run(need("a", 101, **smaller))

    assert refused(selection)[0] == refusals.INSUFFICIENT_BUDGET


def test_refusal_of_required_content_names_what_would_be_enough() -> None:
    records = (need("a", 30), need("b", 80, requirement="required"))

    refusal = run(*records).refusal
    assert refusal is not None
    assert (refusal.required_tokens, refusal.available_tokens) == (110, 100)
    assert refusal.total_tokens == 100
    assert run(*records, tokens=110).refusal is None
    assert run(*records, tokens=109).refusal is not None


def test_refusal_that_tokens_cannot_help_names_none() -> None:
    refusal = run(need("a", depends_on=("ghost",))).refusal

    assert refusal is not None
    assert (refusal.required_tokens, refusal.available_tokens) == (None, None)
    assert refusal.total_tokens == 100
