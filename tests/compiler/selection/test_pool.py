import msgspec
import pytest

from deuz_compiler.errors import MalformedInput
from deuz_compiler.records.candidate import Candidate
from deuz_compiler.records.policy import Overhead, Policy
from deuz_compiler.selection.pool import Pool, Surroundings, build_pool

POLICY = Policy(
    budget_tokens=0,
    overhead=Overhead(block_tokens=9, record_tokens=3, between_tokens=1),
)


def record(key: str, **fields: object) -> Candidate:
    known = {"kind": "rag", "text": "four", "content_identity": key, **fields}
    return Candidate(source="", record_id=key, **known)  # type: ignore[arg-type]  # Builder.


def pool_of(*candidates: Candidate, placed: str = "", **fields: object) -> Pool:
    policy = msgspec.structs.replace(POLICY, **fields)
    around = Surroundings(placed=frozenset(placed.split()))
    return build_pool(candidates, policy, around=around, estimate=len)


def test_nodes_are_numbered_by_key() -> None:
    pool = pool_of(record("b"), record("a"))

    assert pool.keys == ("a", "b")
    assert len(pool) == 2


def test_tokens_are_declared_or_else_estimated() -> None:
    records = (record("a"), record("b", tokens=50), record("c", tokens=0))

    pool = pool_of(*records, pricing="declared")

    assert pool.costs == (4, 50, 0)
    assert pool.unpriced == (4, 4, 4)


def test_estimator_that_counts_less_than_nothing_is_an_error() -> None:
    with pytest.raises(MalformedInput, match="estimator: count -1 is negative"):
        build_pool([record("a")], POLICY, around=Surroundings(), estimate=lambda _: -1)


@pytest.mark.parametrize("count", [1.5, None, float("nan")])
def test_estimator_counts_in_whole_numbers(count: object) -> None:
    with pytest.raises(
        MalformedInput, match=r"^estimator: count is not a whole number$"
    ):
        build_pool(
            [record("a")],
            POLICY,
            around=Surroundings(),
            estimate=lambda _: count,  # type: ignore[arg-type, return-value]  # Wrong.
        )


def test_rendered_price_holds_the_label_and_a_separator() -> None:
    pool = pool_of(
        record("a", tokens=50),
        record("b", tokens=50, label_tokens=0, projection="abc"),
        record("c", tokens=50, projection="abc", projection_tokens=7),
    )

    assert pool.costs == (54, 51, 54)
    assert pool.projections == (None, 4, 11)
    assert pool.unpriced == (0, 0, 0)


def test_edges_lead_to_dependencies_in_order_and_then_to_the_group() -> None:
    group = {"group_id": "g", "is_group_required": True}
    pool = pool_of(
        record("a", depends_on=("d", "c"), **group),
        record("b", **group),
        record("c"),
        record("d", group_id="g"),
    )

    assert pool.edges == ((3, 2, 0, 1), (0, 1), (), ())
    assert pool.members(0) == (0, 1)
    assert pool.members(3) == (3,)


def test_group_of_one_source_does_not_reach_into_another() -> None:
    group = {"group_id": "g", "is_group_required": True}
    stranger = msgspec.structs.replace(record("c", **group), source="other")

    pool = pool_of(record("a", **group), record("b", **group), stranger)

    assert pool.groups == ((0, 1), (0, 1), (2,))


def test_dependency_nobody_offers_is_missing_unless_it_is_placed() -> None:
    records = (record("a", depends_on=("x", "y")), record("b"))

    assert pool_of(*records).missing == ("x", "")
    assert pool_of(*records, placed="x").missing == ("y", "")
    assert pool_of(*records, placed="x y").missing == ("", "")


def test_content_without_an_identity_is_known_by_its_digest() -> None:
    pool = pool_of(
        record("a", content_identity="", digest="sha256:1"),
        record("b", content_identity="", digest="sha256:1"),
        record("c"),
    )

    assert pool.twins == {"sha256:1": (0, 1)}


def test_naming_promotes_all_but_mandatory_and_takes_the_group_along() -> None:
    group = {"group_id": "g", "is_group_required": True}
    pool = pool_of(
        record("a", requirement="mandatory"),
        record("b", **group),
        record("c", **group),
        record("d", requirement="preferred"),
        record("e"),
        required=("a", "c", "d"),
    )

    assert pool.requirements == (
        "mandatory",
        "required",
        "required",
        "required",
        "discretionary",
    )


def test_absent_keys_are_named_once_and_sorted_unless_placed() -> None:
    pool = pool_of(record("a"), placed="c", required=("z", "c", "b", "z", "a"))

    assert pool.absent == ("b", "z")


def test_placed_candidates_are_marked() -> None:
    pool = pool_of(record("a"), record("b"), placed="b elsewhere")

    assert pool.is_placed == (False, True)
