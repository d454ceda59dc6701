"""Same input, same bytes: under any hash seed and locale, in processes of their own."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PROBE = Path(__file__).with_name("probe_determinism.py")
SETTINGS = (("0", "C"), ("1", "C.UTF-8"), ("4242", "POSIX"))


def run_probe(seed: str, locale: str) -> dict[str, str]:
    """Return what the compiler makes of fixed inputs, by the name of each step."""
    environment = {**os.environ, "PYTHONHASHSEED": seed, "LC_ALL": locale}
    done = subprocess.run(
        [sys.executable, str(PROBE)],
        check=False,
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    outcome: dict[str, str] = json.loads(done.stdout)
    return outcome


@pytest.fixture(scope="module")
def outcomes() -> list[dict[str, str]]:
    return [run_probe(seed, locale) for seed, locale in SETTINGS]


def test_every_step_gives_the_same_bytes_in_every_process(
    outcomes: list[dict[str, str]],
) -> None:
    first, *others = outcomes

    differing = [name for name in first if any(o[name] != first[name] for o in others)]

    assert differing == []


def test_the_probe_walks_every_part_of_the_compiler(
    outcomes: list[dict[str, str]],
) -> None:
    steps = {name.split(":")[0] for name in outcomes[0]}

    assert steps >= {"lineage", "prefix", "surface", "verdict", "selection"}
