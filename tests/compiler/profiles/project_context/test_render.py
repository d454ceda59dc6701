import json
from hashlib import sha256
from typing import Any

import pytest

from deuz_compiler.profiles.project_context.records import (
    Declared,
    DeclaredCandidate,
    DeclaredPolicy,
    DeclaredRequest,
)
from deuz_compiler.profiles.project_context.render import Outcome, golden_form
from deuz_compiler.records.refusal import INSUFFICIENT_BUDGET, Refusal
from deuz_compiler.records.trace import Block, Decision


def item(key: str, content: str) -> DeclaredCandidate:
    return DeclaredCandidate(
        candidate_id=key,
        content_identity=key,
        representation_id="full",
        form_rank=0,
        min_rank=0,
        source_kind="file",
        source_ref="",
        kind="note",
        content=content,
        token_count=5,
        requirement="PREFERRED",
        order_role="task",
        scope_eligible=True,
        freshness_eligible=True,
        authority_eligible=True,
    )


ITEMS = (item("b", "second é"), item("a", "first"))
DECLARED = Declared(
    DeclaredRequest(
        request_id="r", task_id="t", usable_token_budget=9, created_at="now"
    ),
    ITEMS,
    DeclaredPolicy(policy_version="compiler-policy-v1"),
)


def rendered(
    items: tuple[DeclaredCandidate, ...] = ITEMS,
    trace: tuple[Decision, ...] = (),
    refusal: Refusal | None = None,
) -> tuple[str, Any]:
    outcome = Outcome(items, (8,) * len(items), 21, trace, refusal)
    text = golden_form(DECLARED, outcome, fixture="f", budget="tight")
    return text, json.loads(text)


def decision(**fields: object) -> Decision:
    known = {
        "key": "a",
        "is_selected": False,
        "reason": "over-budget",
        "requirement": "preferred",
        **fields,
    }
    return Decision(**known)  # type: ignore[arg-type]  # Fields of a builder.


def test_text_has_sorted_members_two_spaces_and_a_final_newline() -> None:
    text, found = rendered()

    assert text == json.dumps(found, sort_keys=True, indent=2) + "\n"


def test_body_parts_its_contents_and_closes() -> None:
    assert rendered()[1]["rendered_text"] == (
        "[CONTEXT BUNDLE]\nid: r-bundle\nitems: 2\n"
        "---\nsecond é\n---\nfirst\n[/CONTEXT BUNDLE]\n"
    )


def test_hash_covers_ids_and_contents_in_order() -> None:
    expected = sha256("b\0second é\0a\0first\0".encode()).hexdigest()

    assert rendered()[1]["bundle_hash"] == expected
    assert rendered(ITEMS[::-1])[1]["bundle_hash"] != expected


def test_items_stand_in_order_with_their_rendered_cost() -> None:
    bundle = rendered()[1]["bundle"]

    assert [(i["id"], i["position"], i["token_count"]) for i in bundle["items"]] == [
        ("b", 0, 8),
        ("a", 1, 8),
    ]
    assert bundle["layout_trace"] == ["b", "a"]


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        (
            {"is_selected": True, "reason": "dependency", "stage": "discretionary"},
            ("ADMITTED", "admitted", "discretionary-greedy"),
        ),
        (
            {"reason": "below-floor", "detail": "form_rank 1 below floor 2"},
            (
                "REJECTED_HARD",
                "illegal_representation",
                "form_rank 1 below floor 2",
            ),
        ),
        (
            {"stage": "preferred"},
            ("REJECTED_BUDGET", "budget", "unit exceeds remaining budget"),
        ),
    ],
)
def test_decisions_are_told_in_the_forms_words(
    fields: dict[str, object], words: tuple[str, str, str]
) -> None:
    (entry,) = rendered(trace=(decision(**fields),))[1]["trace"]["entries"]

    assert (entry["decision"], entry["reason_code"], entry["reason_detail"]) == words


def test_first_trace_version_repeats_the_budget_before() -> None:
    trace = (decision(before_tokens=50, after_tokens=40, position=1),)

    (entry,) = rendered(trace=trace)[1]["trace"]["entries"]

    assert (entry["budget_before"], entry["budget_after"]) == (50, 50)
    assert entry["dependency_closure"] == []
    assert entry["position"] == 1


def test_refusal_has_no_bundle_and_no_positions() -> None:
    refusal = Refusal(
        reason=INSUFFICIENT_BUDGET,
        blocking=("a",),
        detail="too dear",
        used_tokens=3,
        total_tokens=9,
    )

    _, found = rendered((), (decision(position=1),), refusal)

    assert found["success"] is False
    assert found["failure"]["budget_used"] == 3
    assert found["failure"]["diagnostic"] == "too dear"
    assert found["result"]["bundle_id"] is None
    assert found["trace"]["entries"][0]["position"] is None


def test_obstacle_is_told_in_the_words_of_the_form() -> None:
    block = Block("ineligible", "b", "scope-ineligible")
    refusal = Refusal(reason=INSUFFICIENT_BUDGET, block=block, detail="blocked")

    _, found = rendered((), refusal=refusal)

    assert found["failure"]["diagnostic"] == (
        "blocked: dependency-ineligible:b(scope_ineligible)"
    )
