"""The Dockerfile: it lints, copies all that it needs, and starts what exists."""

import json
import re
import shutil
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest

from deuz_proxy.cli import make_parser
from deuz_proxy.config.model import Config
from deuz_testing.sidecar_process import running_sidecar


@pytest.fixture(scope="module")
def steps(deploy: Path) -> list[tuple[str, str]]:
    """The Dockerfile's instructions with their arguments, lines joined."""
    text = (deploy / "Dockerfile").read_text().replace("\\\n", " ")
    lines = [line for line in text.splitlines() if line and line[0] not in "# "]
    return [(line.split()[0], line.partition(" ")[2].strip()) for line in lines]


def arguments(steps: list[tuple[str, str]], name: str) -> list[str]:
    return [text for step, text in steps if step == name]


def copied(steps: list[tuple[str, str]]) -> set[str]:
    """Return what is copied from the repository, not from another stage."""
    copies = [text.split() for text in arguments(steps, "COPY")]
    return {
        source
        for words in copies
        for source in words[:-1]
        if not words[0].startswith("--from")
    }


def run(
    command: list[str], folder: Path | None = None
) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        command, check=False, cwd=folder, capture_output=True, text=True
    )


def test_hadolint_finds_nothing(deploy: Path) -> None:
    hadolint = Path(sys.executable).with_name("hadolint")

    done = run([str(hadolint), str(deploy / "Dockerfile")])

    assert done.returncode == 0, done.stdout


def test_hadolint_finds_what_it_is_for(tmp_path: Path) -> None:
    bad = tmp_path / "Dockerfile"
    bad.write_text("FROM python\nRUN cd /srv && pip install x\n")

    done = run([str(Path(sys.executable).with_name("hadolint")), str(bad)])

    assert done.returncode == 1


def test_both_stages_have_the_same_base_pinned_to_a_python_that_we_support(
    root: Path, steps: list[tuple[str, str]]
) -> None:
    project = tomllib.loads((root / "pyproject.toml").read_text())["project"]
    build, final = (text.split()[0] for text in arguments(steps, "FROM"))

    # What is compiled on the one runs on the other, which has no compiler.
    assert build == final.replace("-slim-", "-")
    version = re.fullmatch(r"python:(\d+\.\d+)\.\d+-slim-\w+", final)
    assert version is not None
    assert project["requires-python"] == f">={version[1]}"


def test_build_gets_exactly_the_files_that_it_copies(
    root: Path, deploy: Path, steps: list[tuple[str, str]]
) -> None:
    ignore = (deploy / "Dockerfile.dockerignore").read_text().splitlines()

    let_through = {line[1:] for line in ignore if line.startswith("!")}

    assert "*" in ignore
    assert let_through == copied(steps)
    assert [name for name in let_through if not (root / name).exists()] == []


def test_it_does_not_run_as_root_and_says_so_by_number(
    steps: list[tuple[str, str]],
) -> None:
    assert arguments(steps, "USER") == ["10001:10001"]


def test_what_it_starts_is_a_command_that_listens_on_the_exposed_ports(
    steps: list[tuple[str, str]],
) -> None:
    assert json.loads(arguments(steps, "ENTRYPOINT")[0]) == ["deuz-sidecar"]

    options = make_parser().parse_args(json.loads(arguments(steps, "CMD")[0]))

    ports = [text.rpartition(":")[2] for text in (options.listen, options.admin)]
    defaults = Config()
    assert ports == arguments(steps, "EXPOSE")[0].split()
    assert ports == [
        text.rpartition(":")[2] for text in (defaults.listen, defaults.admin.listen)
    ]


@pytest.mark.e2e
def test_health_check_tells_a_running_sidecar_from_none(
    tmp_path: Path, steps: list[tuple[str, str]]
) -> None:
    check = arguments(steps, "HEALTHCHECK")[0]
    program, flag, code = json.loads(check[check.index("[") :])
    assert (program, flag) == ("python", "-c")
    assert "4142" in code

    with running_sidecar(tmp_path, "") as sidecar:
        port = sidecar.admin.rpartition(":")[2]
        command = [sys.executable, flag, code.replace("4142", port)]
        running = run(command)
    stopped = run(command)

    assert running.returncode == 0, running.stderr
    assert stopped.returncode != 0


@pytest.mark.e2e
def test_copied_files_are_enough_to_build_a_wheel_with_every_file_of_ours(
    root: Path, tmp_path: Path, steps: list[tuple[str, str]]
) -> None:
    context = tmp_path / "context"
    caches = shutil.ignore_patterns("__pycache__", "*.pyc")
    for name in copied(steps):
        (context / name).parent.mkdir(parents=True, exist_ok=True)
        if (root / name).is_dir():
            shutil.copytree(root / name, context / name, ignore=caches)
        else:
            shutil.copy(root / name, context / name)

    # Before the build, which may leave compiled Python behind.
    ours = {
        str(path.relative_to(context / side))
        for side in ("proxy", "compiler")
        for path in (context / side).rglob("*")
        if path.is_file()
    }

    wheels = tmp_path / "wheels"
    built = next(t for t in arguments(steps, "RUN") if t.startswith("pip wheel "))
    words = built.partition(" && ")[0].replace("/wheels", str(wheels)).split()
    done = run([sys.executable, "-m", *words, "--no-index"], folder=context)

    assert done.returncode == 0, done.stderr
    wheel = next(wheels.glob("*.whl"))
    packed = set(zipfile.ZipFile(wheel).namelist())
    assert ours - packed == {"hatch_build.py"}
    assert "-abi3-" in wheel.name
    assert "deuz_compiler/wires/_scanner.abi3.so" in packed
    assert "deuz_proxy/sinks/_span_items.abi3.so" in packed
    assert "deuz_proxy/sources/_best_rows.abi3.so" in packed


@pytest.mark.e2e
def test_without_a_c_compiler_the_wheel_is_built_all_the_same(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    context = tmp_path / "context"
    for name in ("compiler", "proxy"):
        shutil.copytree(root / name, context / name)
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(root / name, context / name)
    monkeypatch.setenv("CC", "no-such-compiler")
    command = [sys.executable, "-m", "pip", "wheel", "--verbose", "--no-deps"]
    command += ["--no-index", "--no-build-isolation", "--wheel-dir", "wheels", "."]

    done = run(command, folder=context)

    assert done.returncode == 0, done.stderr
    assert "scanner not built" in done.stdout + done.stderr
    wheel = next((context / "wheels").glob("*.whl"))
    assert wheel.name.endswith("-py3-none-any.whl")
    assert not [n for n in zipfile.ZipFile(wheel).namelist() if n.endswith(".so")]
