"""The stores' benchmark times every ledger with every shape, and puts blocks back."""

import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = [pytest.mark.e2e, pytest.mark.needs("redis-server")]

ROOT = Path(__file__).resolve().parents[2]
SUBJECTS = ("observe", "memory", "sqlite", "redis")
SHAPES = [
    f"{shape}: {kind}"
    for shape in ("2 KB", "100 KB", "2000 turns")
    for kind in ("reused turn", "refresh")
]


def test_every_ledger_is_timed_with_every_shape_and_turn() -> None:
    done = subprocess.run(
        (sys.executable, "-m", "tests.bench.stores", "--short"),
        cwd=ROOT,
        check=False,
        capture_output=True,
        text=True,
        timeout=180,
    )

    assert done.returncode == 0, done.stderr
    rows = [line.split() for line in done.stdout.splitlines()[1:]]
    told = [row for row in rows if row[0] in SUBJECTS]
    assert [row[0] for row in told] == list(SUBJECTS) * len(SHAPES)
    assert [line for line in done.stdout.splitlines() if line in SHAPES] == SHAPES
    assert {row[2] for row in told if row[0] == "observe"} == {"0.000"}
    # Ten thousand milliseconds would be a deadline that was waited for.
    assert all(0 < float(row[1]) < 1_000 for row in told)
