import msgspec
import pytest

from deuz_compiler.records.candidate import Candidate, Eligibility
from deuz_compiler.selection.gates import Gate, gate_of, gates_of

GOOD = Candidate(source="s", kind="rag", record_id="r", text="", score=0.99)
NO = {name: Eligibility(False, name) for name in ("scope", "freshness", "authority")}


def changed(**fields: object) -> Candidate:
    return msgspec.structs.replace(GOOD, **fields)


def test_eligible_candidate_passes() -> None:
    assert gate_of(GOOD, None) is None


@pytest.mark.parametrize("name", ["scope", "freshness", "authority"])
def test_verdict_is_final_whatever_the_score_and_gives_its_reason(name: str) -> None:
    assert gate_of(changed(**{name: NO[name]}), None) == Gate(
        f"{name}-ineligible", name
    )


def test_first_of_scope_freshness_authority_and_floor_counts() -> None:
    codes = []
    candidate = changed(**NO, form_rank=1, min_rank=3)
    for name in ("scope", "freshness", "authority"):
        codes.append(gate_of(candidate, None))
        candidate = msgspec.structs.replace(candidate, **{name: Eligibility()})
    codes.append(gate_of(candidate, None))

    assert [gate and gate.code for gate in codes] == [
        "scope-ineligible",
        "freshness-ineligible",
        "authority-ineligible",
        "below-floor",
    ]


def test_form_at_its_floor_passes_and_below_it_names_both_ranks() -> None:
    assert gate_of(changed(form_rank=2, min_rank=2), None) is None
    gate = gate_of(changed(form_rank=1, min_rank=2), None)
    assert gate == Gate("below-floor", "form_rank 1 below floor 2")


@pytest.mark.parametrize(
    ("now", "code"),
    [(None, None), (99.0, None), (100.0, "expired"), (101.0, "expired")],
)
def test_record_is_over_from_its_own_second_on(
    now: float | None, code: str | None
) -> None:
    gate = gate_of(changed(expires_at=100.0, scope=Eligibility()), now)

    assert (gate and gate.code) == code


def test_expiry_comes_before_every_verdict() -> None:
    gate = gate_of(changed(**NO, expires_at=1.0), 2.0)

    assert gate == Gate("expired", "")


def test_gates_of_many_are_those_of_each() -> None:
    records = [
        changed(),
        changed(scope=NO["scope"]),
        changed(freshness=NO["freshness"]),
        changed(authority=NO["authority"]),
        # One verdict may stand for several.
        changed(scope=NO["scope"], freshness=NO["scope"]),
        changed(scope=NO["scope"], freshness=NO["scope"], authority=NO["scope"]),
        changed(expires_at=1.0),
        changed(expires_at=3.0),
        changed(form_rank=1, min_rank=2),
        changed(form_rank=2, min_rank=2),
    ]

    gates = gates_of(records, 2.0)

    assert gates == [gate_of(record, 2.0) for record in records]
    assert [gate is None for gate in gates] == [True, *[False] * 6, True, False, True]
