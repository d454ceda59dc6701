"""One set of commands: Makefile, README, CI and hooks agree, and pins are complete."""

import re
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PROMISED = {
    "setup",
    "demo",
    "fix",
    "check",
    "test",
    "deep",
    "e2e",
    "bench",
    "docs",
    "all",
}
PIN = re.compile(r"^[a-z0-9][a-z0-9._-]*==[0-9a-z!.+]+(?: ; .+)?$")


def read_targets() -> dict[str, str]:
    """Return the targets of the Makefile with their prerequisites."""
    text = (ROOT / "Makefile").read_text()
    return dict(re.findall(r"^([a-z0-9]+):(.*)$", text, re.M))


def find_made(text: str) -> set[str]:
    return set(re.findall(r"\bmake ([a-z0-9]+)\b", text))


def normalise(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def test_makefile_has_every_promised_target() -> None:
    assert set(read_targets()) >= PROMISED


def test_every_target_that_needs_the_environment_makes_it_first() -> None:
    targets = read_targets()

    assert [
        n for n in ("demo", "test", "check", "e2e") if "setup" not in targets[n]
    ] == []


def test_ci_calls_only_targets_of_the_makefile_and_the_readmes_commands() -> None:
    called = find_made((ROOT / ".ci/run").read_text())

    assert called <= set(read_targets())
    assert {"demo", "test", "check", "bench", "e2e"} <= called


def test_readme_leads_with_the_two_first_commands() -> None:
    text = (ROOT / "README.md").read_text()

    demo, test = text.find("make demo"), text.find("make test")

    assert 0 <= demo < 3_000
    assert 0 <= test < 3_000
    assert find_made(text) <= set(read_targets())


def test_pins_are_names_and_versions_and_nothing_else() -> None:
    lines = (ROOT / "requirements-dev.txt").read_text().splitlines()
    lines += (ROOT / "requirements.txt").read_text().splitlines()

    assert [line for line in lines if not PIN.match(line)] == []


def test_every_declared_dependency_is_pinned() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    groups = project["dependency-groups"]
    declared = project["project"]["dependencies"] + groups["check"] + groups["test"]
    text = (ROOT / "requirements-dev.txt").read_text()
    pinned = {normalise(name) for name in re.findall(r"^([\w.-]+)==", text, re.M)}

    names = [re.split(r"[<>=!~; \[]", item, maxsplit=1)[0] for item in declared]

    assert [name for name in names if normalise(name) not in pinned] == [], "make pins"


def test_readme_shows_every_folder_and_no_other() -> None:
    text = (ROOT / "README.md").read_text()
    shown = set(re.findall(r"^ *([a-z_][\w/.-]*/)(?=\s)", text, re.M))
    folders = {
        path.name
        for path in ROOT.iterdir()
        if path.is_dir() and not path.name.startswith(".")
    } - {"artifacts", "build", "dist", "node_modules", "__pycache__"}
    packages = {
        f"{side}/{package}"
        for side, package in (("proxy", "deuz_proxy"), ("compiler", "deuz_compiler"))
    }

    assert {path for path in shown if not (ROOT / path).is_dir()} == set()
    assert {
        name for name in folders if not any(s.startswith(f"{name}/") for s in shown)
    } == set(), "list these in the README's tree, one path a line, ending in /"
    assert {name for name in packages if f"{name}/" not in shown} == set()
