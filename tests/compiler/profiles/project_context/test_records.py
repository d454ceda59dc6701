import json

import pytest

from deuz_compiler.profiles.project_context.records import (
    ORDER_ROLES,
    Reading,
    read_declared,
)

CANDIDATE = {
    "candidate_id": "a",
    "content_identity": "A",
    "representation_id": "full",
    "form_rank": 3,
    "min_rank": 0,
    "source_kind": "file",
    "source_ref": "f",
    "kind": "note",
    "content": "text",
    "token_count": 4,
    "requirement": "MANDATORY",
    "order_role": "task",
    "scope_eligible": True,
    "freshness_eligible": True,
    "authority_eligible": True,
}
REQUEST = {
    "request_id": "r",
    "task_id": "t",
    "usable_token_budget": 9,
    "created_at": "2026-01-01T00:00:00Z",
}
POLICY = {"policy_version": "compiler-policy-v1"}


def read(
    candidate: dict[str, object] | None = None,
    request: dict[str, object] | None = None,
    policy: dict[str, object] | None = None,
) -> Reading:
    """Read the sound files with these members changed."""
    return read_declared(
        json.dumps({**REQUEST, **(request or {})}).encode(),
        json.dumps({"candidates": [{**CANDIDATE, **(candidate or {})}]}).encode(),
        json.dumps({**POLICY, **(policy or {})}).encode(),
    )


def test_required_members_are_enough_and_defaults_are_the_published_ones() -> None:
    declared = read({"relevance": 1}).declared

    assert declared is not None
    (candidate,) = declared.candidates
    assert (candidate.token_source, candidate.relevance) == ("approximation", 1.0)
    assert declared.request.policy_version == "compiler-policy-v1"
    assert declared.policy.min_discretionary_relevance == 0.3
    assert declared.policy.order_roles == ORDER_ROLES


@pytest.mark.parametrize(
    ("changes", "fault"),
    [
        ({"candidate": {"mood": 1}}, "candidates[0]: unknown field mood"),
        (
            {"candidate": {"token_count": 1.5}},
            "candidates[0]: token_count: is not a whole number",
        ),
        (
            {"candidate": {"schema_version": "v9"}},
            "candidates[0]: schema_version is not project_context.context_candidate.v1",
        ),
        ({"request": {"mood": 1}}, "request: unknown field mood"),
        (
            {"request": {"usable_token_budget": -1}},
            "request: usable_token_budget is negative",
        ),
        (
            {"request": {"policy_version": "other"}},
            "request: policy_version is not the policy's",
        ),
        (
            {"request": {"schema_version": "v9"}},
            "request: schema_version is not project_context.context_request.v1",
        ),
        (
            {"policy": {"schema_version": "v9"}},
            "policy: schema_version is not project_context.compiler_policy.v1",
        ),
        (
            {"policy": {"mandatory_form": "richest"}},
            "policy: mandatory_form: is not one of the allowed words "
            "(allowed: cheapest)",
        ),
    ],
)
def test_each_breach_is_a_fault(
    changes: dict[str, dict[str, object]], fault: str
) -> None:
    reading = read(**changes)

    assert (reading.declared, reading.faults) == (None, (fault,))


def test_expected_schema_ids_are_accepted() -> None:
    reading = read(
        {"schema_version": "project_context.context_candidate.v1"},
        {"schema_version": "project_context.context_request.v1"},
        {"schema_version": "project_context.compiler_policy.v1"},
    )

    assert reading.declared is not None
    assert len(reading.candidates) == 1


def test_all_three_files_are_read_before_the_faults_are_told() -> None:
    faults = read_declared(b"{", b'{"candidates": 1, "extra": 2}', b"[]").faults

    assert faults[0].startswith("request: not JSON")
    assert faults[1:] == (
        "policy: not an object",
        "candidates: unknown field extra",
        "candidates: not a list",
    )


def test_what_could_be_read_is_judged_beside_what_could_not() -> None:
    request = {**REQUEST, "usable_token_budget": -1, "policy_version": "v9"}
    policy = {**POLICY, "schema_version": "v9"}

    reading = read_declared(
        json.dumps(request).encode(), b"{", json.dumps(policy).encode()
    )

    assert not reading.is_whole
    assert reading.faults[0].startswith("candidates: not JSON")
    assert reading.faults[1:] == (
        "policy: schema_version is not project_context.compiler_policy.v1",
        "request: usable_token_budget is negative",
        "request: policy_version is not the policy's",
    )


def test_bare_list_of_candidates_is_accepted() -> None:
    reading = read_declared(
        json.dumps(REQUEST).encode(),
        json.dumps([CANDIDATE]).encode(),
        json.dumps(POLICY).encode(),
    )

    assert reading.is_whole
    assert reading.candidates[0].candidate_id == "a"
