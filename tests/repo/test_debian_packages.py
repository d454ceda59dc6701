"""Tests that need a Debian package: skipped without it, but never in CI."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SAMPLE = """\
import pytest

@pytest.mark.needs("prometheus")
def test_with_a_package():
    pass
"""
INI = """\
[pytest]
markers =
  needs(package): as in pyproject
"""


def list_packages() -> set[str]:
    lines = (ROOT / "tests/debian-packages.txt").read_text().splitlines()
    return {line for line in lines if line and not line.startswith("#")}


def run_sample(folder: Path, *, ci: str) -> "subprocess.CompletedProcess[str]":
    (folder / "conftest.py").write_text((ROOT / "tests/conftest.py").read_text())
    (folder / "test_sample.py").write_text(SAMPLE)
    (folder / "pytest.ini").write_text(INI)
    nothing = folder / "empty"
    nothing.mkdir()
    environment = {**os.environ, "PATH": str(nothing), "CI": ci}
    return subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-rs", "-p", "no:cacheprovider", "."],
        check=False,
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
    )


@pytest.mark.parametrize("ci", ["", "0", "false"])
def test_without_the_package_the_test_is_skipped_and_says_why(
    tmp_path: Path, ci: str
) -> None:
    done = run_sample(tmp_path, ci=ci)

    assert done.returncode == 0
    assert "1 skipped" in done.stdout
    assert "Debian package prometheus is missing" in done.stdout


def test_without_the_package_the_test_fails_in_ci(tmp_path: Path) -> None:
    done = run_sample(tmp_path, ci="true")

    assert done.returncode == 1
    assert "Debian package prometheus is missing" in done.stdout


def test_every_package_that_a_test_needs_is_installed_by_ci() -> None:
    used = {
        name
        for path in (ROOT / "tests").rglob("test_*.py")
        for name in re.findall(r"mark\.needs\(\"([\w.-]+)\"\)", path.read_text())
    }

    assert used <= list_packages()


def test_every_listed_package_has_programs_to_look_for() -> None:
    source = (ROOT / "tests/conftest.py").read_text()
    known = set(re.findall(r"^    \"([\w.-]+)\": \(", source, re.M))

    assert known == list_packages()
