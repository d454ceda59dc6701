"""Compare the ratios of a benchmark run with generous bounds.

Rules:
- Only ratios within one run are compared, and only those that are steady on a shared
  machine: CPU per request and memory, against the aiohttp floor. No times.
- A bound is twice what the first version must reach (docs/performance.md), so that it
  tells a lost order of magnitude, not noise. Where compile mode searches at each
  request it is twice what was measured: that is far above what is wanted.

Usage: python -m tests.bench.check_ratios FILE
"""

import json
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

FLOOR = "aio-floor"
MODES = ("observe", "compile")


@dataclass(frozen=True, slots=True)
class Bound:
    """A figure of a mode may be so many times the floor's in the same cell."""

    cell: str
    figure: str
    observe: float
    compile: float

    def limit(self, mode: str) -> float:
        """Return the mode's bound."""
        return self.compile if mode == "compile" else self.observe


BOUNDS = (
    Bound("2k c64", "cpu_ms_per_request", 2.6, 7.4),
    Bound("100k known c64", "cpu_ms_per_request", 2.8, 7.4),
    Bound("100k first c64", "cpu_ms_per_request", 3.2, 7.2),
    Bound("1m known c64", "cpu_ms_per_request", 3.0, 6.6),
    Bound("1m first c64", "cpu_ms_per_request", 4.8, 8.2),
    Bound("2k placed c64", "cpu_ms_per_request", 2.6, 2.6),
    Bound("100k placed c64", "cpu_ms_per_request", 2.8, 2.8),
    Bound("1m placed c64", "cpu_ms_per_request", 3.0, 3.0),
    Bound("64 streams", "cpu_us_per_event", 2.6, 2.6),
    Bound("burst of 4 streams", "cpu_us_per_event", 2.6, 2.6),
)
IDLE_MEMORY_LIMIT = 3.6


def find_excesses(result: dict[str, Any]) -> list[str]:
    """Return one line for each ratio over its bound, or that cannot be told."""
    excesses = []
    for mode in MODES:
        idle = result["idle_mib"]
        excesses += _compare(
            f"{mode}: idle memory", idle.get(mode), idle.get(FLOOR), IDLE_MEMORY_LIMIT
        )
        for bound in BOUNDS:
            by_subject = result["summary"].get(bound.cell, {})
            excesses += _compare(
                f"{mode}: {bound.cell}, {bound.figure}",
                by_subject.get(mode, {}).get(bound.figure),
                by_subject.get(FLOOR, {}).get(bound.figure),
                bound.limit(mode),
            )
    return excesses


def _compare(
    name: str, figure: float | None, floor: float | None, limit: float
) -> list[str]:
    if figure is None or not floor:
        return [f"{name}: not measured"]
    ratio = figure / floor
    return [] if ratio <= limit else [f"{name}: {ratio:.2f} x floor, bound {limit}"]


def main() -> int:
    """Check the file named on the command line; 1 when a bound is broken."""
    excesses = find_excesses(json.loads(Path(sys.argv[1]).read_text()))
    for line in excesses or ["all ratios are within their bounds"]:
        print(line)
    return 1 if excesses else 0


if __name__ == "__main__":
    sys.exit(main())
