import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from deuz_compiler.records.candidate import REQUIREMENTS, Candidate, Eligibility
from deuz_compiler.records.policy import Overhead, Policy, Share
from deuz_compiler.records.refusal import Refusal
from deuz_compiler.records.trace import Block
from deuz_compiler.selection.engine import Selection, select
from deuz_compiler.selection.explain import Explanation, explain_node, sweep
from deuz_compiler.selection.pool import Pool, Surroundings, build_pool

POLICY = Policy(
    budget_tokens=0,
    overhead=Overhead(block_tokens=5, record_tokens=2, between_tokens=1),
    shares=(Share("rag", 2), Share("memory", 1)),
)


def want(key: str, tokens: int = 10, /, **fields: object) -> Candidate:
    known = {"kind": "rag", "text": "", "content_identity": key, **fields}
    return Candidate(source="", record_id=key, tokens=tokens, **known)  # type: ignore[arg-type]  # Builder.


def pool_of(policy: Policy, *candidates: Candidate) -> Pool:
    return build_pool(candidates, policy, around=Surroundings(), estimate=len)


def explained(
    *candidates: Candidate, max_steps: int = 99, **fields: object
) -> Explanation:
    """Explain the first candidate by key."""
    policy = msgspec.structs.replace(POLICY, **fields)
    return explain_node(pool_of(policy, *candidates), policy, 0, max_steps=max_steps)


def test_smallest_budget_pays_for_what_is_ranked_before_and_what_is_needed() -> None:
    case = explained(
        want("a", score=0.1, depends_on=("z",)),
        want("b", score=0.9),
        want("z", 20),
        budget_tokens=40,
    )

    assert not case.is_selected
    assert case.reason == "over-budget"
    assert case.needs == ("a", "z")
    assert case.needs_tokens == 36
    # Alone, a and z cost 40; but b comes first, from 17 on, and leaves too little.
    assert case.smallest_budget_tokens == 5 + 36 + 13 - 1


def test_selected_candidate_has_a_smallest_budget_too() -> None:
    case = explained(want("a"), budget_tokens=500)

    assert (case.is_selected, case.reason) == (True, "ranked")
    assert case.smallest_budget_tokens == 17


def test_no_budget_helps_the_ineligible_and_the_obstacle_is_named() -> None:
    verdict = Eligibility(is_eligible=False, reason="project b")
    case = explained(want("a", scope=verdict), want("b"), budget_tokens=99)

    assert (case.reason, case.detail) == ("scope-ineligible", "project b")
    assert case.block == Block("ineligible", "a", "scope-ineligible")
    assert case.smallest_budget_tokens is None
    assert case.is_complete


def test_admission_before_a_refusal_is_void() -> None:
    case = explained(
        want("a", requirement="mandatory"),
        want("b", 50, requirement="mandatory"),
        budget_tokens=20,
    )

    assert (case.is_selected, case.reason) == (False, "refused")
    assert case.smallest_budget_tokens == 70


def test_candidate_that_a_refusal_never_reached_is_refused() -> None:
    case = explained(want("a"), want("b", 50, requirement="mandatory"))

    assert case.reason == "refused"
    assert case.detail == "mandatory b closure exceeds remaining budget"


def test_budget_does_not_lift_a_fixed_ceiling() -> None:
    needed = (want("a"), want("b", 90, requirement="mandatory"))

    assert explained(*needed, ceiling_tokens=50).smallest_budget_tokens is None
    assert explained(*needed, ceiling_tokens=500).smallest_budget_tokens == 110
    beyond = explained(*needed, ceiling_tokens=100)
    assert (beyond.smallest_budget_tokens, beyond.is_complete) == (None, True)


def test_refusal_below_a_ceiling_may_be_one_of_the_budget() -> None:
    # Declared 30, and rendered 41; nothing may be dropped, so a budget of 41 is needed.
    needed = (
        want("a", requirement="preferred"),
        want("b", 20, requirement="preferred"),
    )
    policy = msgspec.structs.replace(
        POLICY, budget_tokens=30, ceiling_tokens=100, pricing="declared", repair="none"
    )

    case = explain_node(pool_of(policy, *needed), policy, 0)

    assert (case.reason, case.detail[:11]) == ("refused", "rendered 40")
    assert case.smallest_budget_tokens == 17


def test_low_score_is_told_beside_the_threshold() -> None:
    group = {"group_id": "g", "is_group_required": True}
    case = explained(
        want("a", score=0.1, **group),
        want("b", score=0.2, **group),
        threshold=0.3,
        budget_tokens=99,
    )

    assert case.reason == "below-threshold"
    assert case.detail == "score 0.2 is below 0.3, and no key is new"
    assert case.smallest_budget_tokens is None


def test_form_that_is_in_instead_is_named() -> None:
    forms = (
        want("a", content_identity="X"),
        want("b", score=0.5, content_identity="X"),
    )

    case = explained(*forms, budget_tokens=99)
    assert (case.reason, case.detail) == ("duplicate-content", "content is in by b")


def test_form_that_a_repair_dropped_again_is_not_named() -> None:
    forms = (
        want("a", content_identity="X"),
        want("b", score=0.5, content_identity="X"),
    )

    case = explained(*forms, budget_tokens=16, pricing="declared")
    assert (case.reason, case.detail) == ("duplicate-content", "")


def test_bounded_sweep_says_that_it_did_not_end() -> None:
    case = explained(want("a"), want("b", score=0.5), max_steps=1)

    assert (case.smallest_budget_tokens, case.is_complete) == (None, False)


# One example is 160 selections: on a busy machine longer than hypothesis allows.
@settings(deadline=None)
@given(
    records=st.lists(
        st.builds(
            want,
            st.sampled_from("abcdef"),
            st.integers(0, 9),
            kind=st.sampled_from(["rag", "memory", "skills"]),
            score=st.sampled_from([0.1, 0.5, 0.9]),
            requirement=st.sampled_from(REQUIREMENTS),
            depends_on=st.sampled_from([(), (), ("a",), ("b", "c")]),
            content_identity=st.sampled_from(["", "x", "y"]),
            projection=st.sampled_from([None, "ab"]),
        ),
        min_size=1,
        unique_by=lambda candidate: candidate.key,
    ),
    fields=st.sampled_from(
        [
            {},
            {"search": "exact"},
            {"pricing": "declared"},
            {"ceiling_tokens": 40},
            {"pricing": "declared", "ceiling_tokens": 40, "repair": "none"},
            {"pricing": "declared", "empty_block": "rendered", "shares": ()},
            {"ranking": ("score", "cost")},
        ]
    ),
)
def test_sweep_finds_what_trying_every_budget_finds(
    records: list[Candidate], fields: dict[str, object]
) -> None:
    policy = msgspec.structs.replace(POLICY, **fields)
    digested = [
        msgspec.structs.replace(record, digest=record.key) for record in records
    ]
    pool = pool_of(policy, *digested)
    tried = [
        tokens
        for tokens in range(160)
        if 0
        in select(pool, msgspec.structs.replace(policy, budget_tokens=tokens)).nodes
    ]

    found = sweep(pool, policy, 0, max_steps=1_000)

    assert found.is_complete
    assert found.budget_tokens == min(tried, default=None)


def test_smallest_budget_of_an_exact_search_is_its_own() -> None:
    # Greedy takes a2 for A and needs 853; a1 and b1 share what they need.
    records = (
        want("a1", 100, requirement="mandatory", content_identity="A", depends_on="r"),
        want("a2", 300, requirement="mandatory", content_identity="A"),
        want("b1", 50, requirement="required", depends_on="r"),
        want("r", 500),
    )
    rest = {"budget_tokens": 0, "shares": ()}

    greedy = explained(*records, max_steps=999, **rest)
    exact = explained(*records, max_steps=999, search="exact", **rest)

    # A block of 5, three records with labels of 2, two separators.
    assert exact.smallest_budget_tokens == 5 + 650 + 3 * 2 + 2
    assert greedy.smallest_budget_tokens is None


def test_no_budget_lifts_what_was_refused_before_any_selection() -> None:
    refusal = Refusal(reason="source-failed", detail="no answer")
    failed = Selection((), 0, {}, refusal, None, None)

    case = explain_node(pool_of(POLICY, want("a")), POLICY, 0, failed=failed)

    assert (case.reason, case.detail, case.needs) == ("refused", "no answer", ("a",))
    assert (case.smallest_budget_tokens, case.is_complete) == (None, True)
