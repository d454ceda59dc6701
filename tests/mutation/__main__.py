"""Change the compiler's selection in small ways, and see whether a test notices.

Rules:
- mutmut works on a copy: nothing in the checkout is touched. The copy has the layout it
  understands (`src/deuz_compiler`), and the tests of the compiler's engine.
- Properties draw the same examples for every mutant: what is killed once stays killed.
- Not part of CI: it takes a quarter of an hour of two cores. What survived the last
  time, and why, is in README.md.

Usage: python -m tests.mutation [--folder DIR] [--jobs N] [mutant names or patterns …]
"""

import argparse
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
TESTS = (
    "tests/compiler/selection",
    "tests/compiler/profiles",
    "tests/compiler/test_compilation.py",
    "tests/support/deuz_testing/__init__.py",
    "tests/support/deuz_testing/plain_reading.py",
)


def main() -> int:
    """Run mutmut on a copy, then print what survived."""
    arguments = read_arguments()
    folder = arguments.folder or Path(tempfile.mkdtemp(prefix="deuz-mutants-"))
    copy_tree(folder)
    run = ("run", "--max-children", str(arguments.jobs), *arguments.names)
    ended = call_mutmut(folder, *run)
    print(f"\nSurvivors, in {folder}:")
    call_mutmut(folder, "results")
    return ended


def read_arguments() -> argparse.Namespace:
    """Return the command line's choices."""
    parser = argparse.ArgumentParser(prog="python -m tests.mutation")
    parser.add_argument("--folder", type=Path, help="the copy; a new one by default")
    parser.add_argument("--jobs", type=int, default=2, help="mutants at a time")
    parser.add_argument("names", nargs="*", help="mutants to run; all by default")
    return parser.parse_args()


def copy_tree(folder: Path) -> None:
    """Copy the package, its tests and the configuration, over what was there."""
    here = ROOT / "tests" / "mutation"
    package = folder / "src" / "deuz_compiler"
    ignored = shutil.ignore_patterns("__pycache__")
    shutil.copytree(
        ROOT / "compiler" / "deuz_compiler", package, ignore=ignored, dirs_exist_ok=True
    )
    for name in TESTS:
        source, target = ROOT / name, folder / name
        target.parent.mkdir(parents=True, exist_ok=True)
        if source.is_dir():
            shutil.copytree(source, target, ignore=ignored, dirs_exist_ok=True)
        else:
            shutil.copy(source, target)
    shutil.copy(here / "mutmut.toml", folder / "pyproject.toml")
    shutil.copy(here / "settings.py", folder / "tests" / "conftest.py")


def call_mutmut(folder: Path, *arguments: str) -> int:
    """Run mutmut in the copy; return its exit code."""
    command = (sys.executable, "-m", "mutmut", *arguments)
    return subprocess.run(command, cwd=folder, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
