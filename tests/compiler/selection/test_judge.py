import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from deuz_compiler.records import reasons
from deuz_compiler.records.candidate import Candidate, Eligibility
from deuz_compiler.records.policy import Policy
from deuz_compiler.selection.judge import Judge, Unit
from deuz_compiler.selection.pool import Surroundings, build_pool
from deuz_compiler.selection.tally import Tally

POLICY = Policy(budget_tokens=100, pricing="declared", threshold=0.3)
NO = Eligibility(is_eligible=False)


def want(key: str, tokens: int = 10, /, **fields: object) -> Candidate:
    known = {"source": "", "kind": "rag", "text": "", "score": 0.5, **fields}
    known.setdefault("content_identity", key)
    return Candidate(record_id=key, tokens=tokens, **known)  # type: ignore[arg-type]  # Builder.


def judge(*candidates: Candidate, tokens: int = 100, **fields: object) -> Judge:
    policy = msgspec.structs.replace(POLICY, **fields)
    pool = build_pool(candidates, policy, around=Surroundings(), estimate=len)
    return Judge(Tally(pool, tokens), policy, "discretionary")


def first(judged: Judge) -> Unit:
    return judged.units()[0]


def objection(*candidates: Candidate, tokens: int = 100) -> str | None:
    judged = judge(*candidates, tokens=tokens)
    return judged.objection(first(judged))


def test_unit_that_fits_and_scores_meets_no_objection() -> None:
    assert objection(want("a")) is None


@pytest.mark.parametrize(
    ("others", "reason"),
    [
        ([want("d", requirement="preferred", scope=NO)], reasons.DEPENDENCY_BLOCKED),
        ([], reasons.MISSING_DEPENDENCY),
        ([want("d", 91)], reasons.OVER_BUDGET),
        ([want("d", 90)], None),
    ],
)
def test_unit_answers_for_what_it_needs(
    others: list[Candidate], reason: str | None
) -> None:
    assert objection(want("a", depends_on=("d",)), *others) == reason


def test_budget_comes_before_worth() -> None:
    assert objection(want("a", 101, score=0.1)) == reasons.OVER_BUDGET
    assert objection(want("a", 100, score=0.1)) == reasons.BELOW_THRESHOLD


def test_low_score_earns_a_place_by_a_key_not_yet_covered() -> None:
    judged = judge(want("a", score=0.1, coverage_keys=("k", "k")))

    assert judged.new_keys(first(judged)) == 1
    assert judged.objection(first(judged)) is None
    judged.tally.covered["k"] = None
    assert judged.objection(first(judged)) == reasons.BELOW_THRESHOLD


def test_score_at_the_threshold_is_enough() -> None:
    assert objection(want("a", score=0.3)) is None


def test_record_that_does_not_fit_enters_as_its_projection() -> None:
    judged = judge(
        want("a", 150, projection="short", projection_tokens=20, depends_on=("d",)),
        want("d", 50, requirement="preferred"),
    )
    unit = first(judged)

    assert judged.objection(unit) is None
    assert (unit.cost, unit.projected) == (70, 20)

    judged.admit(unit, reasons.RANKED)

    decisions = judged.tally.decisions
    assert decisions[0].is_projected
    assert decisions[0].cost_tokens == 20
    assert not decisions[1].is_projected
    assert judged.tally.remaining == 30


def test_projection_that_saves_one_token_may_be_enough() -> None:
    judged = judge(want("a", 101, projection="short", projection_tokens=100))

    assert judged.objection(first(judged)) is None


def test_full_text_is_preferred_where_it_fits() -> None:
    judged = judge(want("a", 100, projection="short", projection_tokens=20))
    unit = first(judged)

    assert judged.objection(unit) is None
    assert unit.projected is None


@pytest.mark.parametrize(
    "fields",
    [
        {"projection_tokens": 101},
        {"projection_tokens": 150},
        {"projection_tokens": 20, "depends_on": ("b",)},
    ],
)
def test_projection_cannot_help_if_too_large_or_needed_in_full(
    fields: dict[str, object],
) -> None:
    cycle = want("b", 1, depends_on=("a",), requirement="preferred")

    assert objection(want("a", 140, projection="x", **fields), cycle) == (
        reasons.OVER_BUDGET
    )


def test_projection_that_saves_nothing_is_none() -> None:
    assert objection(want("a", 101, projection="x", projection_tokens=101)) == (
        reasons.OVER_BUDGET
    )


def test_group_does_not_enter_as_projections() -> None:
    group = {"group_id": "g", "is_group_required": True}
    members = (
        want("a", 90, projection="x", projection_tokens=1, **group),
        want("b", 20, **group),
    )

    assert objection(*members) == reasons.OVER_BUDGET


def test_hopeless_unit_is_not_walked_to_its_end() -> None:
    chain = [want(f"k{n:03}", 30, depends_on=(f"k{n + 1:03}",)) for n in range(200)]
    judged = judge(*chain, want("k200"))
    unit = first(judged)

    assert judged.objection(unit) == reasons.OVER_BUDGET
    assert len(unit.nodes) == 4


def test_ranking_by_cost_needs_the_exact_cost() -> None:
    chain = [want(f"k{n:03}", 30, depends_on=(f"k{n + 1:03}",)) for n in range(200)]
    judged = judge(*chain, want("k200"), ranking=("score", "cost"))
    unit = first(judged)
    judged.objection(unit)

    assert unit.cost == 200 * 30 + 10


def test_group_ranks_by_its_best_member_and_its_first_id() -> None:
    group = {"group_id": "g", "is_group_required": True}
    judged = judge(
        want("b", score=0.2, priority=5, coverage_keys=("x",), **group),
        want("a", score=0.9, priority=1, coverage_keys=("x", "y"), **group),
        ranking=("priority", "score", "coverage", "cost", "source"),
    )
    unit = first(judged)
    judged.objection(unit)

    assert judged.rank(unit) == (-5, -0.9, -2, 20, 0, 0)


def test_sources_rank_as_listed_and_unknown_ones_last() -> None:
    records = [
        Candidate(source=source, kind="rag", record_id="r", text="")
        for source in ("a", "b", "z")
    ]
    judged = judge(*records, sources=("b", "a"), ranking=("source",))

    ranks = [judged.rank(unit) for unit in judged.units()]
    assert ranks == [(1, 0), (0, 1), (2, 2)]


@given(
    records=st.lists(
        st.builds(
            want,
            st.sampled_from("abcdefgh"),
            source=st.sampled_from("xyz"),
            score=st.sampled_from([0.1, 0.5]),
            priority=st.integers(-1, 1),
            group_id=st.sampled_from([None, "g"]),
            is_group_required=st.just(value=True),
        ),
        unique_by=lambda candidate: candidate.key,
    ),
    ranking=st.permutations(["priority", "score", "source"]),
    sources=st.sampled_from([(), ("y", "x")]),
)
def test_order_of_turns_is_that_of_the_ranks(
    records: list[Candidate], ranking: list[str], sources: tuple[str, ...]
) -> None:
    judged = judge(*records, ranking=tuple(ranking), sources=sources)
    ranked = sorted(judged.units(), key=judged.rank)

    assert judged.turns() == [unit.members[0] for unit in ranked]


def test_drop_touches_open_members_only() -> None:
    group = {"group_id": "g", "is_group_required": True}
    judged = judge(want("a", **group), want("b", **group))
    judged.tally.reject(0, reasons.SCOPE_INELIGIBLE)
    unit = judged.units()[0]
    judged.objection(unit)

    judged.drop(unit, reasons.DEPENDENCY_BLOCKED)

    assert judged.tally.decisions[0].reason == reasons.SCOPE_INELIGIBLE
    dropped = judged.tally.decisions[1]
    assert (dropped.reason, dropped.stage) == ("dependency-blocked", "discretionary")
    assert dropped.cost_tokens == 20


def test_unit_is_open_until_it_is_decided_or_its_content_is_in() -> None:
    judged = judge(want("a"), want("b", content_identity="X"), want("c"))
    waiting, twin, decided = judged.units()

    judged.tally.identities["X"] = 9
    judged.tally.reject(2, reasons.OVER_BUDGET)

    assert judged.is_open(waiting)
    assert not judged.is_open(twin)
    assert not judged.is_open(decided)
    assert judged.units()[0].members == (0,)
    assert len(judged.units()) == 1


def test_unit_enters_as_it_was_last_judged() -> None:
    judged = judge(want("a", 101, projection="x", projection_tokens=60))
    unit = first(judged)
    judged.objection(unit)

    judged.admit(unit, reasons.RANKED)

    assert judged.tally.decisions[0].is_projected
    assert judged.tally.remaining == 40
    plain = judge(want("a"))
    unit = first(plain)
    plain.objection(unit)
    plain.admit(unit, reasons.RANKED)
    assert not plain.tally.decisions[0].is_projected


def test_record_too_dear_by_itself_is_turned_away_at_its_turn() -> None:
    judged = judge(want("a", 107, depends_on=("b",)), want("b", 1))

    assert judged.unit_at_turn(0) is None
    decision = judged.tally.decisions[0]
    assert (decision.reason, decision.stage) == ("over-budget", "discretionary")
    assert (decision.cost_tokens, judged.tally.shortage) == (107, 7)


def test_record_too_dear_by_itself_is_missing_something_first() -> None:
    judged = judge(want("a", 101, depends_on=("nowhere",)))

    assert judged.unit_at_turn(0) is None
    assert judged.tally.decisions[0].reason == reasons.MISSING_DEPENDENCY


def test_record_too_dear_by_itself_may_shrink_at_its_turn() -> None:
    judged = judge(want("a", 101, projection="x", projection_tokens=60))

    unit = judged.unit_at_turn(0)

    assert unit is not None
    assert (unit.members, unit.cost, unit.projected) == ((0,), 60, 60)


def test_record_that_is_closed_has_no_turn() -> None:
    judged = judge(want("a", content_identity="X"), want("b"), want("c"))
    judged.tally.identities["X"] = 9
    judged.tally.reject(1, reasons.SCOPE_INELIGIBLE)

    assert judged.unit_at_turn(0) is None
    assert judged.unit_at_turn(1) is None
    assert judged.unit_at_turn(2) is not None
    assert list(judged.tally.decisions) == [1]
    assert judged.tally.decisions[1].reason == reasons.SCOPE_INELIGIBLE


def test_group_has_one_turn_and_is_judged_whole() -> None:
    group = {"group_id": "g", "is_group_required": True}
    judged = judge(want("a", 60, **group), want("b", 60, **group), want("c", 101))

    assert judged.turns() == [0, 2]
    assert judged.unit_at_turn(0) is None
    assert [d.cost_tokens for d in judged.tally.decisions.values()] == [120, 120]
