import json
from typing import Any

import pytest

from deuz_compiler.profiles.json_form import compile_json

RECORD = {"source": "docs", "kind": "rag", "record_id": "1", "text": "hello"}


def answer(payload: object) -> tuple[Any, int]:
    text, code = compile_json(json.dumps(payload).encode(), estimate=len)
    assert text.endswith(b"}\n")
    return json.loads(text), code


def faults(payload: object) -> list[str]:
    found, code = answer(payload)
    assert code == 2
    assert found["error"]["code"] == "malformed_input"
    told: list[str] = found["error"]["faults"]
    return told


def test_bundle_comes_with_texts_manifest_and_trace() -> None:
    found, code = answer({"candidates": [RECORD], "policy": {"budget_tokens": 9}})

    assert code == 0
    assert [chosen["text"] for chosen in found["selected"]] == ["hello"]
    assert found["tokens"] == 5
    assert found["manifest"]["entries"][0]["reason"] == "ranked"
    assert found["manifest_digest"].startswith("sha256:")
    assert [entry["key"] for entry in found["trace"]] == ["docs/1"]
    assert found["refusal"] is None


def test_refusal_has_its_own_code_and_reason() -> None:
    record = {**RECORD, "requirement": "mandatory"}

    found, code = answer({"candidates": [record], "policy": {"budget_tokens": 4}})

    assert code == 3
    assert found["refusal"]["reason"] == "insufficient-budget"
    assert found["refusal"]["required_tokens"] == 5
    assert found["selected"] == []


def test_facts_are_taken_into_account() -> None:
    placed = {"source": "docs", "record_id": "1", "revision": "7"}

    found, _ = answer(
        {
            "candidates": [{**RECORD, "revision": "7"}],
            "policy": {"budget_tokens": 9},
            "facts": {"placed": [placed], "refresh_reason": "host-request"},
        }
    )

    assert found["manifest"]["entries"][0]["reason"] == "already-placed"
    assert found["manifest"]["refresh_reason"] == "host-request"


def test_all_faults_of_all_parts_are_told_at_once() -> None:
    assert faults(
        {
            "candidates": [{**RECORD, "color": 1}, {**RECORD, "requirement": "vital"}],
            "policy": {
                "budget_tokens": -1.5,
                "shares": [{"kind": "rag", "weight": 1, "part": 1}],
            },
            "facts": {"now": "noon"},
            "more": 1,
        }
    ) == [
        "input: unknown field more",
        "candidates[0]: unknown field color",
        "candidates[1]: requirement: is not one of the allowed words "
        "(allowed: mandatory, required, preferred, discretionary)",
        "policy: budget_tokens: is not a whole number",
        "policy: shares[0]: unknown field part",
        "facts: now: is not a number or null",
    ]


def test_records_that_could_be_read_are_judged_beside_those_that_could_not() -> None:
    bad = {**RECORD, "tokens": -1}

    assert faults(
        {"candidates": [{**RECORD, "color": 1}, bad], "policy": {"budget_tokens": -1}}
    ) == [
        "candidates[0]: unknown field color",
        "policy: budget_tokens -1 is negative",
        "candidate docs/1: tokens -1 is negative",
    ]


def test_records_are_judged_though_the_policy_could_not_be_read() -> None:
    lost = {**RECORD, "depends_on": ["docs/ghost", "docs/placed"]}
    facts = {"placed": [{"source": "docs", "record_id": "placed"}]}
    whole = {"candidates": [lost], "policy": {}, "facts": facts}

    assert faults({"candidates": [RECORD, RECORD], "policy": {"more": 1}}) == [
        "policy: unknown field more",
        "policy: budget_tokens is missing",
        "candidate docs/1: duplicate",
    ]
    assert faults(whole) == [
        "policy: budget_tokens is missing",
        "candidate docs/1: depends on unknown docs/ghost",
    ]
    # Where facts or records are missing, or records may be left out, it is no fault.
    assert faults({**whole, "facts": 1})[1:] == ["facts: not an object"]
    assert faults({**whole, "candidates": [lost, 1]})[0] == (
        "candidates[1]: not an object"
    )
    lenient = {"budget_tokens": -1, "faults": "exclude"}
    assert faults({**whole, "policy": lenient, "more": 1}) == [
        "input: unknown field more",
        "policy: budget_tokens -1 is negative",
    ]


@pytest.mark.parametrize(
    ("payload", "told"),
    [
        ({}, ["input: candidates is missing", "input: policy is missing"]),
        ([], ["input: not an object"]),
        (
            {"candidates": {}, "policy": []},
            ["candidates: not a list", "policy: not an object"],
        ),
    ],
)
def test_other_shapes_are_faults(payload: object, told: list[str]) -> None:
    assert faults(payload) == told


def test_text_that_is_not_json_is_a_fault() -> None:
    text, code = compile_json(b"{,", estimate=len)

    assert code == 2
    assert b"input: not JSON" in text


def test_faulty_records_are_faults_unless_the_policy_leaves_them_out() -> None:
    twice = [RECORD, RECORD]

    assert faults({"candidates": twice, "policy": {"budget_tokens": 9}}) == [
        "candidate docs/1: duplicate"
    ]
    policy = {"budget_tokens": 9, "faults": "exclude"}
    found, code = answer({"candidates": twice, "policy": policy})
    assert code == 0
    assert [e["reason"] for e in found["manifest"]["entries"]] == [
        "ranked",
        "duplicate-record",
    ]
