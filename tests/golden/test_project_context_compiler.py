"""The 42 stored cases of project-context-compiler, byte for byte; its known limit."""

import json
from pathlib import Path

import pytest

from deuz_compiler.profiles.project_context.form import compile_profile

BUDGETS = ("tight", "medium", "roomy")
FIXTURES = (
    "budget-slack",
    "conflict-trap",
    "dependency-cycle",
    "dependency-trap",
    "heterogeneous-basic",
    "mandatory-overflow",
    "no-legal-representation",
    "qualification-trap",
    "rendered-overflow",
    "representation-alternatives",
    "required-unavailable",
    "shared-dependency",
    "stale-cheap",
    "wrong-scope",
)


@pytest.fixture
def folder(reference: Path) -> Path:
    found = reference / "conformance" / "project-context-compiler"
    if not found.is_dir():
        pytest.skip("no conformance data beside the checkout")
    return found


@pytest.mark.parametrize("budget", BUDGETS)
@pytest.mark.parametrize("fixture", FIXTURES)
def test_stored_case_is_reproduced_byte_for_byte(
    folder: Path, fixture: str, budget: str
) -> None:
    inputs = folder / "compiler-v1"
    known = json.loads((inputs / "manifest.json").read_bytes())["budgets"]
    request = json.loads((inputs / f"{fixture}.request.json").read_bytes())
    request["request_id"] += f"-{budget}"
    request["usable_token_budget"] = known[fixture][budget]
    expected = folder / "golden" / "python-v0.1.0" / f"{fixture}-{budget}.json"

    text, code = compile_profile(
        json.dumps(request).encode(),
        (inputs / f"{fixture}.candidates.json").read_bytes(),
        (inputs / "compiler-policy-v1.json").read_bytes(),
    )

    assert text.encode() == expected.read_bytes()
    assert code == (0 if json.loads(text)["success"] else 3)


def test_every_stored_case_is_covered(folder: Path) -> None:
    stored = {path.stem for path in (folder / "golden" / "python-v0.1.0").glob("*-*")}

    assert stored == {f"{name}-{budget}" for name in FIXTURES for budget in BUDGETS}


def test_greedy_refuses_the_completeness_case_and_exact_search_solves_it(
    folder: Path,
) -> None:
    case = folder / "completeness-v1"
    files = (
        (case / "greedy-false-refusal.request.json").read_bytes(),
        (case / "greedy-false-refusal.candidates.json").read_bytes(),
        (folder / "compiler-v1" / "compiler-policy-v1.json").read_bytes(),
    )

    greedy, refused = compile_profile(*files)
    exact, bundled = compile_profile(*files, search="exact")

    assert (refused, json.loads(greedy)["failure"]["reason"]) == (
        3,
        "INSUFFICIENT_BUDGET",
    )
    # 650 declared, and as rendered: 3 labels of 3, 2 separators, a header of 4.
    assert (bundled, json.loads(exact)["bundle_tokens"]) == (0, 665)
    assert sorted(json.loads(exact)["admitted_candidate_ids"]) == ["a1", "b1", "r"]
