import msgspec
import pytest

from deuz_compiler.records.candidate import Candidate, Eligibility
from deuz_compiler.records.policy import Policy
from deuz_compiler.records.refusal import INSUFFICIENT_BUDGET
from deuz_compiler.selection.check import problems_of, refusal_of
from deuz_compiler.selection.engine import select
from deuz_compiler.selection.pool import Pool, Surroundings, build_pool

BUNDLE = tuple(
    Candidate(source="", kind="rag", record_id=key, text="", content_identity=key)
    for key in "abc"
)


def pool_of(**fields: object) -> Pool:
    """Return the sound pool with one mutation."""
    records = (msgspec.structs.replace(BUNDLE[0], **fields), *BUNDLE[1:])
    around = Surroundings(placed=frozenset({"on-surface"}))
    return build_pool(records, Policy(budget_tokens=0), around=around, estimate=len)


def test_sound_bundle_has_no_problems_and_no_refusal() -> None:
    pool = pool_of(depends_on=("b", "on-surface"))

    assert problems_of(pool, (0, 1, 2)) == ()
    assert refusal_of(()) is None


@pytest.mark.parametrize(
    ("fields", "problem"),
    [
        ({"scope": Eligibility(is_eligible=False)}, "a is not eligible"),
        ({"min_rank": 1}, "a is not eligible"),
        ({"depends_on": ("b", "gone")}, "a lacks gone"),
        ({"content_identity": "b"}, "a content is in twice"),
    ],
)
def test_each_mutation_is_caught(fields: dict[str, object], problem: str) -> None:
    assert problems_of(pool_of(**fields), (0, 1, 2)) == (problem,)


def test_halved_group_is_caught() -> None:
    records = [
        msgspec.structs.replace(record, group_id="g", is_group_required=True)
        for record in BUNDLE
    ]
    policy = Policy(budget_tokens=0)
    pool = build_pool(records, policy, around=Surroundings(), estimate=len)

    assert problems_of(pool, (0, 1)) == (
        "a lacks c of its group",
        "b lacks c of its group",
    )


def test_record_in_twice_is_caught() -> None:
    assert "a record is in twice" in problems_of(pool_of(), (0, 0))


def test_problems_become_a_refusal_that_lists_them() -> None:
    refusal = refusal_of(("one", "two"))

    assert refusal is not None
    assert refusal.reason == INSUFFICIENT_BUDGET
    assert str(refusal) == "post-compile validation failed: one; two"


def test_bundle_that_a_wrong_engine_made_is_refused_not_released() -> None:
    # A pool whose edges were lost: the engine cannot see what a needs.
    sound = pool_of(depends_on=("b",), score=1.0)
    broken = msgspec.structs.replace(sound, edges=((), (), ()))
    policy = Policy(budget_tokens=1, search="exact")
    priced = msgspec.structs.replace(broken, costs=(1, 1, 1))

    selection = select(priced, policy)

    assert selection.nodes == ()
    assert str(selection.refusal) == "post-compile validation failed: a lacks b"
    assert selection.search is not None
