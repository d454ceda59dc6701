"""The compiler's benchmark prints every subject at every size, with its ratios."""

import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.e2e

ROOT = Path(__file__).resolve().parents[2]
SUBJECTS = ("sort by score", "greedy", "greedy, by cost", "exact")
SIZES = ("100", "1,000", "10,000")


def test_every_subject_is_timed_and_grows_far_slower_than_the_square() -> None:
    done = subprocess.run(
        (sys.executable, "-m", "tests.bench.compiler", "--short"),
        cwd=ROOT,
        check=False,
        capture_output=True,
        text=True,
        timeout=120,
    )

    assert done.returncode == 0, done.stderr
    rows = [line.rsplit(maxsplit=4) for line in done.stdout.splitlines()[1:]]
    assert [(row[0].strip(), row[1]) for row in rows] == [
        (subject, size) for size in SIZES for subject in SUBJECTS
    ]
    assert {row[3] for row in rows if row[0].strip() == SUBJECTS[0]} == {"1.0"}
    # Ten times the records: the square would be 100, and sorting alone is 12 to 20.
    growths = [float(row[4]) for row in rows if row[4] != "-"]
    assert max(growths) < 80
