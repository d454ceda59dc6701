"""`deuz-sidecar compile --profile …` prints every stored case byte for byte."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from deuz_proxy.cli import main

CASES = 42


@pytest.fixture
def folder(reference: Path) -> Path:
    found = reference / "conformance" / "project-context-compiler"
    if not found.is_dir():
        pytest.skip("no conformance data beside the checkout")
    return found


def list_cases(folder: Path) -> list[tuple[str, str, int]]:
    """Return fixture, budget's name and budget of every stored case."""
    inputs = json.loads((folder / "compiler-v1" / "manifest.json").read_bytes())
    return [
        (fixture, name, tokens)
        for fixture, by_name in sorted(inputs["budgets"].items())
        for name, tokens in sorted(by_name.items())
    ]


def options(folder: Path, case: tuple[str, str, int], into: Path) -> list[str]:
    """Write the request of a case; return the command line for it."""
    fixture, name, tokens = case
    inputs = folder / "compiler-v1"
    request = json.loads((inputs / f"{fixture}.request.json").read_bytes())
    request["request_id"] += f"-{name}"
    request["usable_token_budget"] = tokens
    written = into / f"{fixture}-{name}.json"
    written.write_text(json.dumps(request))
    return [
        *("compile", "--profile", "project-context-compiler"),
        *("--request", str(written)),
        *("--candidates", str(inputs / f"{fixture}.candidates.json")),
        *("--policy", str(inputs / "compiler-policy-v1.json")),
    ]


def stored(folder: Path, case: tuple[str, str, int]) -> bytes:
    return (folder / f"golden/python-v0.1.0/{case[0]}-{case[1]}.json").read_bytes()


def code_of(golden: bytes) -> int:
    return 0 if json.loads(golden)["success"] else 3


def test_every_case_is_printed_byte_for_byte(
    folder: Path, tmp_path: Path, capsysbinary: pytest.CaptureFixture[bytes]
) -> None:
    cases = list_cases(folder)
    differing = []

    for case in cases:
        code = main(options(folder, case, tmp_path))
        golden = stored(folder, case)
        if (capsysbinary.readouterr().out, code) != (golden, code_of(golden)):
            differing.append(case)

    assert differing == []
    assert len(cases) == CASES


# A bundle, a refusal, and a bundle that a repair made.
@pytest.mark.parametrize(
    "name",
    [
        "heterogeneous-basic-roomy",
        "mandatory-overflow-tight",
        "rendered-overflow-tight",
    ],
)
def test_command_prints_a_case_byte_for_byte(
    folder: Path, tmp_path: Path, name: str
) -> None:
    (case,) = [c for c in list_cases(folder) if f"{c[0]}-{c[1]}" == name]
    command = (sys.executable, "-m", "deuz_proxy", *options(folder, case, tmp_path))

    ended = subprocess.run(command, check=False, capture_output=True, timeout=60)

    golden = stored(folder, case)
    assert ended.stderr == b""
    assert ended.stdout == golden
    assert ended.returncode == code_of(golden)
