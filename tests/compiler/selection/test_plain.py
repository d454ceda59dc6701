"""What is decided without judging is what judging decides."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from deuz_compiler.records.candidate import Candidate, Eligibility
from deuz_compiler.records.policy import Overhead, Policy, Share
from deuz_compiler.selection.engine import select
from deuz_compiler.selection.plain import is_played_plain
from deuz_compiler.selection.pool import Pool, Surroundings, build_pool

KINDS = ("rag", "memory", "skills")
POLICY = Policy(budget_tokens=40)


def record(key: str, **fields: object) -> Candidate:
    known = {"source": "s", "kind": "rag", "record_id": key, "text": key, **fields}
    return Candidate(**known)  # type: ignore[arg-type]  # Fields of a builder.


def pooled(records: list[Candidate], policy: Policy = POLICY) -> Pool:
    return build_pool(records, policy, around=Surroundings(now=1.0), estimate=len)


def judged(pool: Pool) -> Pool:
    return msgspec.structs.replace(pool, is_plain=False)


@st.composite
def plain_records(draw: st.DrawFn) -> list[Candidate]:
    keys = draw(st.lists(st.integers(0, 30), max_size=9, unique=True))
    return [
        record(
            str(key),
            source=draw(st.sampled_from(["", "s", "t"])),
            kind=draw(st.sampled_from(KINDS)),
            tokens=draw(st.none() | st.integers(0, 30)),
            label_tokens=draw(st.none() | st.integers(0, 4)),
            score=draw(st.sampled_from([0.0, 0.5, 1.0])),
            priority=draw(st.integers(-1, 1)),
            role=draw(st.sampled_from(["", "a", "b"])),
        )
        for key in keys
    ]


@st.composite
def policies(draw: st.DrawFn) -> Policy:
    kinds = draw(st.lists(st.sampled_from(KINDS), unique=True))
    return Policy(
        budget_tokens=draw(st.integers(0, 90)),
        ceiling_tokens=draw(st.none() | st.integers(0, 90)),
        shares=tuple([Share(kind, draw(st.integers(1, 3))) for kind in kinds]),
        sources=tuple(draw(st.permutations(["s", "t"]))[: draw(st.integers(0, 2))]),
        roles=draw(st.sampled_from([(), ("b", "a")])),
        ranking=draw(st.sampled_from([POLICY.ranking, ("score",), ("source",)])),
        overhead=Overhead(*[draw(st.integers(0, 9)) for _ in range(3)]),
    )


@given(plain_records(), policies())
def test_what_is_played_plain_is_what_judging_decides(
    records: list[Candidate], policy: Policy
) -> None:
    pool = pooled(records, policy)

    found = select(pool, policy)

    assert pool.is_plain
    assert is_played_plain(policy)
    assert found == select(judged(pool), policy)


@given(plain_records(), policies())
def test_a_plain_pool_holds_what_is_worked_out_of_any(
    records: list[Candidate], policy: Policy
) -> None:
    wanting = msgspec.structs.replace(policy, required=("nobody",))

    general = pooled(records, wanting)

    assert general.absent == ("nobody",)
    plain = msgspec.structs.replace(general, absent=(), is_plain=True)
    assert pooled(records, policy) == plain


@pytest.mark.parametrize(
    "fields",
    [
        {"requirement": "preferred"},
        {"projection": "b"},
        {"depends_on": ("s/a",)},
        {"group_id": "g", "is_group_required": True},
        {"coverage_keys": ("c",)},
        {"scope": Eligibility(is_eligible=False)},
        {"freshness": Eligibility(is_eligible=False)},
        {"authority": Eligibility(is_eligible=False)},
        {"expires_at": 0.5},
        {"min_rank": 1},
        {"text": "a"},
        {"content_identity": pooled([record("a")]).digests[0]},
    ],
)
def test_a_pool_with_anything_else_is_judged(fields: dict[str, object]) -> None:
    pool = pooled([record("a"), record("b", **fields)])

    assert not pool.is_plain


def test_what_is_placed_or_required_is_judged() -> None:
    records = [record("a"), record("b")]
    wanting = Policy(budget_tokens=9, required=("s/a",))
    around = Surroundings(frozenset({"s/a"}))

    placed = build_pool(records, POLICY, around=around, estimate=len)

    assert not placed.is_plain
    assert not pooled(records, wanting).is_plain


@pytest.mark.parametrize(
    "fields",
    [
        {"threshold": 0.1},
        {"search": "exact"},
        {"pricing": "declared"},
        {"empty_block": "rendered"},
        {"ranking": ("coverage", "score")},
    ],
)
def test_a_policy_that_asks_for_more_is_not_played_plain(
    fields: dict[str, object],
) -> None:
    assert is_played_plain(POLICY)
    assert not is_played_plain(msgspec.structs.replace(POLICY, **fields))
