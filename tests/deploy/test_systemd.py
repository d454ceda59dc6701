"""The systemd unit: valid, starts what exists, and is shut off from the machine."""

import configparser
import re
import shlex
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from deuz_proxy.cli import EXIT_MISTAKE, make_parser
from deuz_proxy.config.load import load_config
from deuz_proxy.config.model import Config

PROGRAM = "/opt/deuz-sidecar/bin/deuz-sidecar"
HIGHEST_EXPOSURE = 1.5  # 1.2 when written; what is left is the network it is there for.


@pytest.fixture(scope="module")
def service(deploy: Path) -> configparser.SectionProxy:
    """The [Service] section; of a key given twice, the last value."""
    unit = configparser.ConfigParser(strict=False, interpolation=None)
    # The default lowers names, and systemd tells them apart.
    unit.optionxform = str  # type: ignore[assignment,method-assign]  # As documented.
    unit.read(deploy / "systemd/deuz-sidecar.service")
    return unit["Service"]


@pytest.fixture
def unit(deploy: Path, tmp_path: Path) -> Path:
    """The unit with a program that exists here."""
    text = (deploy / "systemd/deuz-sidecar.service").read_text()
    assert text.count(PROGRAM) == 2
    path = tmp_path / "deuz-sidecar.service"
    path.write_text(text.replace(PROGRAM, sys.executable))
    return path


def analyze(*arguments: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        ["systemd-analyze", "--no-pager", *arguments],
        check=False,
        capture_output=True,
        text=True,
    )


@pytest.mark.needs("systemd")
def test_systemd_understands_every_line(unit: Path) -> None:
    done = analyze("verify", str(unit))

    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.needs("systemd")
def test_systemd_tells_of_a_line_that_it_does_not_understand(unit: Path) -> None:
    unit.write_text(unit.read_text().replace("ProtectHome=", "ProtectHouse="))

    done = analyze("verify", str(unit))

    assert "ProtectHouse" in done.stderr


@pytest.mark.needs("systemd")
def test_little_of_the_machine_is_within_reach(unit: Path) -> None:
    done = analyze("security", "--offline=true", str(unit))

    found = re.search(r"Overall exposure level.*: ([\d.]+)", done.stdout)
    assert found is not None, done.stderr
    assert float(found[1]) <= HIGHEST_EXPOSURE


def test_it_checks_and_runs_the_same_config_with_commands_that_exist(
    service: configparser.SectionProxy,
) -> None:
    check = shlex.split(service["ExecStartPre"])
    run = shlex.split(service["ExecStart"])

    assert check[0] == run[0] == PROGRAM
    checked = make_parser().parse_args(check[1:])
    started = make_parser().parse_args(run[1:])
    assert checked.file == started.config


def test_reload_sends_the_signal_that_the_sidecar_listens_to(
    service: configparser.SectionProxy,
) -> None:
    _, name, pid = shlex.split(service["ExecReload"])

    assert signal.Signals[f"SIG{name[1:]}"] is signal.SIGHUP
    assert pid == "$MAINPID"


def test_a_mistake_in_the_config_is_not_tried_again(
    service: configparser.SectionProxy,
) -> None:
    assert int(service["RestartPreventExitStatus"]) == EXIT_MISTAKE


def test_config_beside_it_is_valid_and_says_what_the_defaults_are(
    deploy: Path, service: configparser.SectionProxy
) -> None:
    config = load_config(deploy / "systemd/deuz.yaml", {})

    assert config == Config()
    assert int(service["TimeoutStopSec"]) >= config.limits.drain_seconds + 5
