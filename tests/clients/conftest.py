"""What the tests of real clients share: each talk is recorded once on each way."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from deuz_testing.agents import AgentRecorder, install_aider
from deuz_testing.frameworks import install_frameworks, running_frameworks
from deuz_testing.node import install_agents, install_packages
from deuz_testing.ways import Recorder, Talk


@pytest.fixture(scope="session")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Recorder:
    """Give the recording of a talk on a way."""

    def make_folder(name: str) -> Path:
        return tmp_path_factory.mktemp(name)

    return Recorder(make_folder)


@pytest.fixture(scope="session")
def _node() -> None:
    install_packages()


@pytest.fixture(scope="session")
def _frameworks() -> Iterator[None]:
    install_frameworks()
    with running_frameworks():
        yield


@pytest.fixture(scope="session")
def _agents(_frameworks: None) -> None:
    install_agents()
    install_aider()


@pytest.fixture(scope="session")
def started(_agents: None, tmp_path_factory: pytest.TempPathFactory) -> AgentRecorder:
    """Give the recording of an agent on a way."""

    def make_folder(name: str) -> Path:
        return tmp_path_factory.mktemp(name)

    return AgentRecorder(make_folder)


@pytest.fixture(autouse=True)
def _with_what_it_needs(request: pytest.FixtureRequest) -> None:
    """Install a client when the first test that runs it comes."""
    callspec = getattr(request.node, "callspec", None)
    talk = callspec.params.get("talk") if callspec else None
    if isinstance(talk, Talk) and talk.needs:
        request.getfixturevalue(f"_{talk.needs}")
