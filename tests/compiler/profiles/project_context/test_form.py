"""The rules that no stored case exercises, in the form's own words."""

import json
from typing import Any

import pytest

from deuz_compiler.profiles.project_context.form import case_of, compile_profile

POLICY = {"policy_version": "compiler-policy-v1"}


def candidate(key: str, tokens: int = 10, /, **fields: object) -> dict[str, object]:
    return {
        "candidate_id": key,
        "content_identity": key.upper(),
        "representation_id": "full",
        "form_rank": 3,
        "min_rank": 0,
        "source_kind": "file",
        "source_ref": key,
        "kind": "note",
        "content": f"text {key}",
        "token_count": tokens,
        "requirement": "DISCRETIONARY",
        "order_role": "task",
        "scope_eligible": True,
        "freshness_eligible": True,
        "authority_eligible": True,
        "authority_reason": "because",
        "relevance": 0.5,
        **fields,
    }


def compiled(
    *candidates: dict[str, object], budget: int = 100, **request: object
) -> tuple[Any, int]:
    asked = {
        "request_id": "case-req-tight",
        "task_id": "t",
        "usable_token_budget": budget,
        "created_at": "2026-01-01T00:00:00Z",
        **request,
    }
    text, code = compile_profile(
        json.dumps(asked).encode(),
        json.dumps({"candidates": candidates}).encode(),
        json.dumps(POLICY).encode(),
    )
    return json.loads(text), code


def failure(*candidates: dict[str, object], budget: int = 100) -> tuple[str, str]:
    found, code = compiled(*candidates, budget=budget)
    assert code == 3
    assert found["bundle"] is found["rendered_text"] is found["bundle_hash"] is None
    return found["failure"]["reason"], found["failure"]["diagnostic"]


def entry(found: Any, key: str) -> tuple[str, str, str]:
    (one,) = [e for e in found["trace"]["entries"] if e["candidate_id"] == key]
    return one["decision"], one["reason_code"], one["reason_detail"]


NO = {"authority_eligible": False}


def test_mandatory_content_that_may_not_instruct() -> None:
    assert failure(candidate("a", requirement="MANDATORY", **NO)) == (
        "REQUIRED_INELIGIBLE",
        "mandatory A: no hard-eligible form",
    )


def test_mandatory_content_that_needs_an_ineligible_record() -> None:
    assert failure(
        candidate("a", requirement="MANDATORY", depends_on=["b"]),
        candidate("b", **NO),
    ) == (
        "UNSATISFIED_DEPENDENCY",
        "mandatory A blocked: dependency-ineligible:b(authority_ineligible)",
    )


def test_required_record_that_needs_another_form() -> None:
    assert failure(
        candidate("a", requirement="MANDATORY", content_identity="X"),
        candidate("b", requirement="REQUIRED", depends_on=["c"]),
        candidate("c", content_identity="X"),
    ) == (
        "UNSATISFIED_DEPENDENCY",
        "required form blocked: alternative-collision:c",
    )


def test_required_group_that_cannot_be_had_or_does_not_fit() -> None:
    group = {"group_id": "g", "group_required": True, "requirement": "REQUIRED"}

    assert failure(candidate("a", 60, **group), candidate("b", 60, **group)) == (
        "UNRESOLVED_REQUIRED_GROUP",
        "required group exceeds remaining budget: a, b",
    )
    assert failure(candidate("a", **group), candidate("b", **group, **NO)) == (
        "UNRESOLVED_REQUIRED_GROUP",
        "required group cannot be satisfied: "
        "dependency-ineligible:b(authority_ineligible)",
    )


def test_optional_record_with_an_ineligible_dependency_is_skipped() -> None:
    found, code = compiled(
        candidate("a", depends_on=["b"]), candidate("b", **NO), candidate("c")
    )

    assert code == 0
    assert found["admitted_candidate_ids"] == ["c"]
    assert entry(found, "a") == (
        "REJECTED_DEPENDENCY",
        "dependency-blocked",
        "dependency ineligible or collides",
    )
    assert entry(found, "b") == ("REJECTED_HARD", "authority_ineligible", "because")


def test_named_record_is_promoted_and_shown_so() -> None:
    found, _ = compiled(candidate("a", relevance=0.0), required_ids=["a"])

    (one,) = found["trace"]["entries"]
    assert (one["priority_band"], one["reason_detail"]) == ("REQUIRED", "required")


def test_unknown_roles_come_last() -> None:
    found, _ = compiled(
        candidate("a", order_role="odd"), candidate("b", order_role="tool")
    )

    assert found["bundle_order"] == ["b", "a"]


def test_repair_drops_a_group_whole() -> None:
    group = {"group_id": "g", "group_required": True}

    found, _ = compiled(
        candidate("a", 40, requirement="MANDATORY"),
        candidate("b", 30, **group),
        candidate("c", 30, **group),
    )

    assert found["admitted_candidate_ids"] == ["a"]
    assert entry(found, "b") == entry(found, "c")
    assert entry(found, "c")[1] == "repair-drop"


def test_repair_without_anything_to_drop_refuses() -> None:
    mandatory = {"requirement": "MANDATORY"}

    assert failure(
        candidate("a", 50, **mandatory), candidate("b", 50, **mandatory)
    ) == (
        "INSUFFICIENT_BUDGET",
        "rendered 111 exceeds budget 100 with no legal repair",
    )


def test_budget_below_the_mandatory_minimum_refuses() -> None:
    assert failure(candidate("a", requirement="MANDATORY"), budget=9) == (
        "INSUFFICIENT_BUDGET",
        "mandatory A closure exceeds remaining budget",
    )


def test_empty_bundle_is_rendered_without_a_body() -> None:
    found, _ = compiled()

    assert found["rendered_text"] == (
        "[CONTEXT BUNDLE]\nid: case-req-tight-bundle\nitems: 0\n[/CONTEXT BUNDLE]\n"
    )
    assert found["bundle_tokens"] == 4


@pytest.mark.parametrize(
    ("candidates", "fault"),
    [
        ([candidate("a"), candidate("a")], "candidate a: duplicate"),
        ([candidate("a", -1)], "candidate a: tokens -1 is negative"),
        (
            [candidate("a", depends_on=["z"])],
            "candidate a: depends on unknown z",
        ),
        (
            [
                candidate("a", group_id="g", group_required=True),
                candidate(
                    "b", group_id="g", group_required=True, requirement="REQUIRED"
                ),
            ],
            "group g: members of classes discretionary, required",
        ),
    ],
)
def test_input_errors_are_told_before_any_decision(
    candidates: list[dict[str, object]], fault: str
) -> None:
    found, code = compiled(*candidates)

    assert code == 2
    assert found == {"error": {"code": "malformed_input", "faults": [fault]}}


@pytest.mark.parametrize(
    ("request_id", "case"),
    [
        ("budget-slack-req-tight", ("budget-slack", "tight")),
        ("budget-slack-req", ("budget-slack", None)),
        ("anything", ("anything", None)),
        ("a-req-b-req-roomy", ("a-req-b", "roomy")),
    ],
)
def test_case_is_named_by_the_requests_id(
    request_id: str, case: tuple[str, str | None]
) -> None:
    assert case_of(request_id) == case


def told(candidates: object, **policy: object) -> list[str]:
    asked = {
        "request_id": "r",
        "task_id": "t",
        "usable_token_budget": 9,
        "created_at": "now",
    }
    text, code = compile_profile(
        json.dumps(asked).encode(),
        json.dumps(candidates).encode(),
        json.dumps({**POLICY, **policy}).encode(),
    )
    assert code == 2
    faults: list[str] = json.loads(text)["error"]["faults"]
    return faults


def test_candidates_are_judged_though_another_file_is_not_readable() -> None:
    twice = candidate("a", -1)
    lost = candidate("b", depends_on=["ghost"])

    assert told([twice, twice, lost], mandatory_form="richest") == [
        "policy: mandatory_form: is not one of the allowed words (allowed: cheapest)",
        "candidate a: tokens -1 is negative",
        "candidate a: duplicate",
        "candidate b: depends on unknown ghost",
    ]
    assert told([twice], policy_version="v2") == [
        "request: policy_version is not the policy's",
        "candidate a: tokens -1 is negative",
    ]


def test_what_an_unreadable_candidate_may_offer_is_not_called_unknown() -> None:
    assert told([candidate("a", depends_on=["b"]), candidate("b", mood=1)]) == [
        "candidates[1]: unknown field mood"
    ]
