from collections.abc import Mapping

import pytest

from deuz_compiler.records.candidate import Candidate, Eligibility, Requirement
from deuz_compiler.records.policy import Policy
from deuz_compiler.records.trace import Block
from deuz_compiler.selection.pool import Surroundings, build_pool
from deuz_compiler.selection.tally import Tally


def tally_of(
    needs: Mapping[str, str],
    tokens: int = 100,
    requirements: Mapping[str, Requirement] | None = None,
    *,
    closed: str = "",
    covered: str = "",
) -> Tally:
    """Return a tally over records of 10 tokens; `needs` maps each to what it needs.

    `closed` names those whose scope is wrong, `covered` the keys that each covers.
    """
    records = [
        Candidate(
            source="",
            kind="rag",
            record_id=key,
            text="",
            tokens=10,
            content_identity=key,
            depends_on=tuple(wanted),
            requirement=(requirements or {}).get(key, "discretionary"),
            scope=Eligibility(is_eligible=key not in closed),
            coverage_keys=tuple(covered),
        )
        for key, wanted in needs.items()
    ]
    policy = Policy(budget_tokens=tokens, pricing="declared")
    pool = build_pool(records, policy, around=Surroundings(), estimate=len)
    return Tally(pool, tokens)


@pytest.mark.parametrize(
    ("needs", "order"),
    [
        ({"a": ""}, [0]),
        ({"a": "cb", "b": "", "c": "d", "d": ""}, [0, 2, 3, 1]),
        ({"a": "bc", "b": "d", "c": "d", "d": ""}, [0, 1, 3, 2]),
        ({"a": "b", "b": "c", "c": "a"}, [0, 1, 2]),
        ({"a": "a"}, [0]),
    ],
)
def test_closure_is_walked_depth_first_in_listed_order_and_cycles_end(
    needs: Mapping[str, str], order: list[int]
) -> None:
    assert tally_of(needs).added((0,)) == order


def test_members_of_a_unit_are_walked_in_their_order() -> None:
    assert tally_of({"a": "c", "b": "", "c": ""}).added((0, 1)) == [0, 2, 1]


@pytest.mark.parametrize(
    ("limit_tokens", "walked"), [(9, ([0], 10)), (10, ([0, 1], 20)), (20, ([0, 1], 20))]
)
def test_a_walk_ends_where_the_price_is_over_its_limit(
    limit_tokens: int, walked: tuple[list[int], int]
) -> None:
    tally = tally_of({"a": "b", "b": ""})

    assert tally.priced((0,), limit_tokens=limit_tokens) == walked


def test_what_is_in_is_neither_added_nor_paid() -> None:
    tally = tally_of({"a": "bc", "b": "", "c": ""})
    tally.commit([1], (1,), stage="preferred", reason="ranked")

    assert tally.priced((0,), limit_tokens=None) == ([0, 2], 20)
    assert tally.added((1,)) == []


def test_walk_with_a_limit_ends_where_it_is_passed() -> None:
    tally = tally_of({"a": "b", "b": "c", "c": ""})

    assert tally.priced((0,), limit_tokens=15) == ([0, 1], 20)
    assert tally.priced((0,), limit_tokens=30) == ([0, 1, 2], 30)


def test_unit_shows_one_budget_before_and_after_and_who_pulled_whom() -> None:
    tally = tally_of({"a": "b", "b": ""})

    tally.commit([0, 1], (0,), stage="discretionary", reason="ranked")

    asked, pulled = tally.decisions[0], tally.decisions[1]
    assert (asked.before_tokens, asked.after_tokens) == (100, 80)
    assert (pulled.before_tokens, pulled.after_tokens) == (100, 80)
    assert (asked.reason, pulled.reason) == ("ranked", "dependency")
    assert (asked.pulled_in_by, pulled.pulled_in_by) == ((), ("a",))
    assert (asked.detail, pulled.detail) == ("", "")
    assert (tally.used, tally.remaining) == (20, 80)


def test_shortage_is_the_least_of_all_that_did_not_fit() -> None:
    tally = tally_of({"a": ""}, tokens=10)

    assert tally.fits(10)
    assert tally.shortage is None
    assert not tally.fits(19)
    assert not tally.fits(13)
    tally.note_shortage(None)
    assert tally.shortage == 3


def test_nobody_may_lean_on_a_projection() -> None:
    tally = tally_of({"a": "", "b": "a"})
    tally.project(0, 4)

    tally.commit([0], (0,), stage="discretionary", reason="ranked")

    assert tally.used == 4
    assert tally.added((1,)) == [1, 0]
    assert tally.block([1, 0]) == Block("collision", "a")


def test_withdrawn_nodes_are_as_if_never_settled() -> None:
    tally = tally_of({"a": "b", "b": ""})

    tally.settle([0, 1])
    tally.withdraw([0, 1])

    assert tally.added((0,)) == [0, 1]
    assert tally.block([0, 1]) is None


def test_later_admission_overwrites_a_rejection() -> None:
    tally = tally_of({"a": ""})
    tally.reject(0, "over-budget", cost=10, stage="preferred")

    tally.commit([0], (), stage="discretionary", reason="ranked")

    assert tally.decisions[0].is_selected


def test_a_no_shows_the_budget_it_met_and_takes_nothing_from_it() -> None:
    tally = tally_of({"a": "", "b": ""})
    tally.commit([0], (0,), stage="preferred", reason="ranked")
    tally.reject(1, "over_budget", cost=10, stage="preferred")

    no = tally.decisions[1]
    assert no.is_selected is False
    assert (no.cost_tokens, no.before_tokens, no.after_tokens) == (10, 90, 90)
    assert (no.stage, no.reason, no.detail) == ("preferred", "over_budget", "")
    assert tally.remaining == 90


def test_a_no_that_names_no_price_or_stage_has_none() -> None:
    tally = tally_of({"a": ""})
    tally.reject(0, "below_threshold")

    assert (tally.decisions[0].cost_tokens, tally.decisions[0].stage) == (0, "")


@pytest.mark.parametrize("requirement", ["mandatory", "required"])
def test_what_must_be_there_keeps_its_reason_when_another_pulls_it_in(
    requirement: Requirement,
) -> None:
    tally = tally_of({"a": "b", "b": ""}, requirements={"b": requirement})
    tally.commit([0, 1], (0,), stage="preferred", reason="ranked")

    assert tally.decisions[1].reason == requirement


def test_first_obstacle_keeps_nodes_from_entering() -> None:
    tally = tally_of({"a": "bz", "b": "", "c": ""}, closed="c")

    assert tally.block((1,)) is None
    assert tally.block((1, 2)) == Block("ineligible", "c", "scope-ineligible")
    assert tally.block((1, 0)) == Block("missing", "z")
    tally.settle((1,))
    assert tally.block((1,)) == Block("collision", "b")


def test_what_enters_covers_its_keys() -> None:
    tally = tally_of({"a": "", "b": ""}, covered="k")

    tally.settle((0,))

    assert list(tally.covered) == ["k"]
