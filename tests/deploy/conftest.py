"""What the tests of deploy/ share."""

from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def deploy(root: Path) -> Path:
    """The folder of everything that runs the sidecar elsewhere."""
    return root / "deploy"
