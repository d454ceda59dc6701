"""Installs the clients that are no part of the development environment.

Rules:
- Each has a list of names and versions beside its tests, and goes into a folder that
  git ignores; what is there already is not installed again.
- One process installs at a time: two that run tests may need the same client first.
- A client that cannot be installed is a failure in CI and a skip elsewhere.
"""

import fcntl
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
CLIENTS = ROOT / "tests" / "clients"
INSTALLED = ROOT / ".venv"
INSTALL_SECONDS = 240


@contextmanager
def installing_alone(name: str) -> Iterator[None]:
    """Wait until no other process installs what has this name; then none can.

    A process that ends, however it ends, makes room for the next.
    """
    with (INSTALLED / f"{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def run_installer(command: Sequence[str], folder: Path) -> None:
    """Run a package manager in the folder; the test gives up if it fails."""
    try:
        run = subprocess.run(
            command,
            cwd=folder,
            capture_output=True,
            check=False,
            text=True,
            timeout=INSTALL_SECONDS,
        )
    except subprocess.TimeoutExpired:
        give_up(f"{command[0]} was not through after {INSTALL_SECONDS} s")
        return
    if run.returncode:
        give_up(f"{' '.join(command)} failed: {run.stderr[-500:]}")


def install_python(pins: Path, folder: Path) -> None:
    """Make a virtual environment with exactly these packages, unless it is there."""
    wanted, stamp = pins.read_text(), folder / "installed.txt"
    with installing_alone(folder.name):
        if not stamp.is_file() or stamp.read_text() != wanted:
            _make_environment(pins, folder)
            stamp.write_text(wanted)


def _make_environment(pins: Path, folder: Path) -> None:
    command = (sys.executable, "-m", "venv", "--clear", "--without-pip", str(folder))
    run_installer(command, CLIENTS)
    python = str(folder / "bin" / "python")
    pip = (sys.executable, "-m", "pip", "--python", python, "install", "--quiet")
    run_installer((*pip, "--no-deps", "--no-compile", "-r", str(pins)), CLIENTS)


def give_up(reason: str) -> None:
    """Skip the test, or fail it where nothing may be missing."""
    if os.environ.get("CI", "").lower() not in ("", "0", "false"):
        pytest.fail(reason, pytrace=False)
    pytest.skip(reason)
