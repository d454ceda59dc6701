from typing import Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deuz_compiler.profiles.project_context.records import (
    Declared,
    DeclaredCandidate,
    DeclaredPolicy,
    DeclaredRequest,
)
from deuz_compiler.profiles.project_context.translate import (
    engine_candidate,
    engine_policy,
    rough_tokens,
)
from deuz_compiler.records.candidate import Eligibility
from deuz_compiler.records.policy import Overhead

REQUEST = DeclaredRequest(
    request_id="r",
    task_id="t",
    usable_token_budget=9,
    created_at="",
    required_ids=("a",),
)


@pytest.mark.parametrize(
    ("text", "tokens"),
    [
        ("", 0),
        (" \n\t ", 0),
        ("one", 1),
        ("one two", 3),
        ("a\u2003b\n c", 4),
        ("w " * 5, 6),
        ("w " * 15, 20),
        ("w " * 25, 32),
    ],
)
def test_rough_count_rounds_half_to_even(text: str, tokens: int) -> None:
    assert rough_tokens(text) == tokens


@given(st.integers(0, 5_000))
def test_rough_count_is_the_published_formula(words: int) -> None:
    assert rough_tokens("w " * words) == (max(1, round(words * 1.3)) if words else 0)


@pytest.mark.parametrize(
    ("search", "pricing"), [("greedy", "declared"), ("exact", "rendered")]
)
def test_form_is_a_policy(search: Literal["greedy", "exact"], pricing: str) -> None:
    rules = DeclaredPolicy(policy_version="compiler-policy-v1", order_roles=("task",))

    policy = engine_policy(Declared(REQUEST, (), rules), search)

    assert (policy.search, policy.pricing, policy.faults) == (search, pricing, "raise")
    assert policy.budget_tokens == 9
    assert policy.required == ("a",)
    assert policy.roles == ("task",)
    assert policy.overhead == Overhead(block_tokens=4, between_tokens=1)


def test_candidate_keeps_every_judgement() -> None:
    candidate = engine_candidate(
        DeclaredCandidate(
            candidate_id="a",
            content_identity="A",
            representation_id="full",
            form_rank=1,
            min_rank=2,
            source_kind="some file",
            source_ref="ref",
            kind="note",
            content="text",
            token_count=4,
            requirement="PREFERRED",
            order_role="task",
            scope_eligible=False,
            scope_reason="other",
            freshness_eligible=True,
            authority_eligible=True,
            depends_on=("b",),
            group_id="g",
            group_required=True,
            coverage_keys=("k",),
            relevance=0.5,
        )
    )

    assert candidate.key == "a"
    assert candidate.requirement == "preferred"
    assert candidate.scope == Eligibility(False, "other")
    assert candidate.freshness == candidate.authority == Eligibility(True, "")
    assert (candidate.form_rank, candidate.min_rank) == (1, 2)
    assert (candidate.tokens, candidate.label_tokens) == (4, 4)
    assert candidate.depends_on == ("b",)
    assert (candidate.group_id, candidate.is_group_required) == ("g", True)
    assert (candidate.score, candidate.coverage_keys) == (0.5, ("k",))
    assert candidate.provenance == (("source_ref", "ref"),)
