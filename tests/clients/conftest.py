"""What the tests of real clients share: each talk is recorded once on each way."""

from pathlib import Path

import pytest

from deuz_testing.node import install_packages
from deuz_testing.ways import Recorder


@pytest.fixture(scope="session")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Recorder:
    """Give the recording of a talk on a way."""

    def make_folder(name: str) -> Path:
        return tmp_path_factory.mktemp(name)

    return Recorder(make_folder)


@pytest.fixture(scope="session")
def _npm_packages() -> None:
    install_packages()


@pytest.fixture(autouse=True)
def _with_npm_packages(request: pytest.FixtureRequest) -> None:
    """Install the npm packages when the first test that runs Node comes."""
    if "node-" in request.node.name:
        request.getfixturevalue("_npm_packages")
