"""The programs of the page about compiling by hand print what the page says."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

PAGE = Path(__file__).resolve().parents[2] / "docs" / "compiling-by-hand.md"
FENCE = re.compile(
    r"^```python compile\n(.*?)^```$.*?^```text compile\n(.*?)^```$", re.M | re.S
)


def programs() -> list[tuple[str, str]]:
    return FENCE.findall(PAGE.read_text())


@pytest.mark.parametrize(("program", "printed"), programs())
def test_program_prints_what_the_page_says(program: str, printed: str) -> None:
    ended = subprocess.run(
        (sys.executable, "-W", "error", "-c", program),
        check=False,
        capture_output=True,
        text=True,
        timeout=60,
    )

    assert ended.stderr == ""
    assert ended.stdout == printed


def test_first_program_has_about_ten_lines_and_every_one_is_run() -> None:
    text = PAGE.read_text()
    lines = [line for line in programs()[0][0].splitlines() if line.strip()]

    assert len(lines) <= 10
    assert len(programs()) == text.count("```python") == text.count("```text")
