"""What every test shares: hypothesis profiles, Debian packages, reference material.

Rules:
- `@pytest.mark.needs("package")` names a Debian package of tests/debian-packages.txt:
  without its programs the test is skipped, but with CI set it fails.
- `reference` is the folder of public facts beside the checkout; tests that read it are
  skipped where it does not exist, and product code never reads it.
"""

import gc
import os
import shutil
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

ROOT = Path(__file__).resolve().parents[1]

PROGRAMS = {
    "chromium": ("chromium",),
    "docker-compose": ("docker-compose",),
    "nginx-light": ("nginx",),
    # Its programs are at a path of their version; this one leads to them.
    "postgresql": ("pg_ctlcluster",),
    "prometheus": ("prometheus", "promtool"),
    "redis-server": ("redis-server",),
    "systemd": ("systemd-analyze",),
}

# Files of `make e2e` that take longest, though some hold few tests. One process runs a
# whole file: the last of these to start would keep the others waiting.
LONGEST_FIRST = (
    "tests/clients/test_clients.py",
    "tests/clients/test_agents.py",
    "tests/e2e/test_conversations_machine.py",
    "tests/e2e/test_binding_machine.py",
    "tests/e2e/test_replicas.py",
    "tests/e2e/test_real_engine.py",
    "tests/e2e/test_workers_end.py",
    "tests/bench/test_peers.py",
    "tests/repo/test_docs_code.py",
    "tests/deploy/test_image.py",
)

IS_CI = os.environ.get("CI", "").lower() not in ("", "0", "false")

# Two cores run the whole suite: a slow example is about the machine, not the code.
_COMMON = (HealthCheck.too_slow,)
settings.register_profile(
    "dev", max_examples=50, deadline=None, suppress_health_check=_COMMON
)
settings.register_profile(
    "ci",
    max_examples=300,
    derandomize=True,
    deadline=None,
    suppress_health_check=_COMMON,
)
settings.register_profile(
    "deep", max_examples=20_000, deadline=None, suppress_health_check=_COMMON
)
settings.load_profile("ci" if IS_CI else "dev")


def absent_programs(package: str) -> list[str]:
    """Return the programs of a Debian package that are not on PATH."""
    if package not in PROGRAMS:
        known = ", ".join(PROGRAMS)
        raise pytest.UsageError(f"needs({package!r}): known packages are {known}")
    return [name for name in PROGRAMS[package] if shutil.which(name) is None]


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Leave a file aside that holds no end-to-end test when only those are to run.

    Each process that runs tests imports every file: most of `make e2e`'s first half
    minute would go into files of which it runs nothing.
    """
    if config.getoption("markexpr") != "e2e" or collection_path.suffix != ".py":
        return None
    is_needed = "mark.e2e" in collection_path.read_text()
    return None if is_needed else True


def pytest_collection_modifyitems(
    config: pytest.Config, items: list[pytest.Item]
) -> None:
    """Put the files that take longest before the others, where files are shared out."""
    if config.getoption("markexpr") == "e2e":
        places = {ROOT / name: place for place, name in enumerate(LONGEST_FIRST)}
        items.sort(key=lambda item: places.get(item.path, len(places)))


def pytest_collection_finish() -> None:
    """Take what is there before the first test out of the collector's sight.

    Modules, tests and strategies are 650,000 objects that stay to the end; looking
    through them again and again took 7 % of a worker's time.
    """
    gc.collect()
    gc.freeze()


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skip, or in CI fail, a test whose Debian package is not installed."""
    for marker in item.iter_markers("needs"):
        package = str(marker.args[0])
        absent = absent_programs(package)
        if not absent:
            continue
        reason = f"Debian package {package} is missing: no {', '.join(absent)} on PATH"
        if IS_CI:
            pytest.fail(reason, pytrace=False)
        pytest.skip(reason)


@pytest.fixture(scope="session")
def root() -> Path:
    """The repository's root."""
    return ROOT


@pytest.fixture(scope="session")
def reference() -> Path:
    """The folder of public facts beside the checkout, for example its corpus."""
    folder = ROOT.parent / "shared"
    if not folder.is_dir():
        pytest.skip("no folder of reference material beside the checkout")
    return folder
