"""Write the boards as Grafana JSON; with --check, tell whether they are up to date.

Usage: python -m dashboards.boards [--check]
"""

import sys
from pathlib import Path

from dashboards.boards.context_rows import CONTEXT, OVERFLOW
from dashboards.boards.grafana import build_board
from dashboards.boards.health_rows import HEALTH
from dashboards.boards.holdout_rows import HOLDOUT
from dashboards.boards.prefix_rows import COST, PREFIX
from grafana_foundation_sdk.cog.encoder import JSONEncoder

ROWS = (PREFIX, COST, CONTEXT, HOLDOUT, OVERFLOW, HEALTH)
TARGET = Path(__file__).resolve().parents[1] / "grafana" / "deuz-sidecar.json"


def main() -> int:
    """Write the file, or compare it; 1 when it is out of date."""
    text = JSONEncoder(sort_keys=True, indent=2).encode(build_board(ROWS)) + "\n"
    if "--check" in sys.argv[1:]:
        is_same = TARGET.exists() and TARGET.read_text() == text
        if not is_same:
            sys.stderr.write(f"{TARGET.name} is out of date: run `make dashboards`\n")
        return 0 if is_same else 1
    TARGET.parent.mkdir(exist_ok=True)
    TARGET.write_text(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
