"""What a conversation takes is measured of a real sidecar, its blocks apart."""

import subprocess
import sys
from pathlib import Path

import pytest
from tests.bench.conversations import Growth, format_growths

ROOT = Path(__file__).resolve().parents[2]
COLUMNS = ["body", "first", "then", "blocks", "beyond"]


def test_what_is_beyond_the_blocks_is_told_by_itself() -> None:
    growth = Growth("short", "compile", 2_000, 9_000.0, 5_000.0, 1_500.0)

    table = [line.split() for line in format_growths([growth]).splitlines()]

    assert table[0][-5:] == COLUMNS
    assert table[1] == ["short", "compile", "2,000", "9,000", "5,000", "1,500", "3,500"]


@pytest.mark.e2e
def test_blocks_are_in_the_memory_that_is_measured() -> None:
    command = (sys.executable, "-m", "tests.bench.conversations", "--short")

    done = subprocess.run(
        (*command, "--only", "2 KB, 12 requests"),
        cwd=ROOT,
        check=False,
        capture_output=True,
        text=True,
        timeout=180,
    )

    assert done.returncode == 0, done.stderr
    rows = [line.replace(",", "").split() for line in done.stdout.splitlines()]
    told = {
        row[-6]: dict(zip(COLUMNS, map(int, row[-5:]), strict=True)) for row in rows[1:]
    }
    assert list(told) == ["observe", "compile"]
    assert told["observe"]["blocks"] == 0
    # Ten blocks, each with the text of a note of 700 characters at least.
    assert told["compile"]["blocks"] > 7_000
    assert told["compile"]["first"] > 7_000
