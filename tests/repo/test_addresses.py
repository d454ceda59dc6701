"""Nothing of the machine or of a person is in a tracked file: paths, mirrors, keys."""

import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
# Own patterns must not find themselves: written in pieces.
PATTERNS = {
    "path of a user's folder": re.compile(r"(?<![\w.$}])/(?:ro" r"ot|Users)/[\w.]"),
    "address of a package index": re.compile(
        r"https?://[^\s\"'`)]+/(?:sim" r"ple/?\b|[^\s\"'`)]+\.(?:whl|tgz)\b)"
    ),
    "index option": re.compile(r"--(?:extra-)?ind" r"ex-url|--find-li" r"nks[ =]"),
    "lock file's address": re.compile(r"\"resol" r"ved\": *\"https?://"),
    "real key": re.compile(
        r"\b(?:sk-ant-api\d\d-[\w-]{40,}|sk-proj-[\w-]{40,}|AIza[\w-]{35}|ghp_\w{36})"
    ),
}


@pytest.fixture(scope="module")
def texts() -> dict[str, str]:
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(
        command, check=True, cwd=ROOT, capture_output=True, text=True
    ).stdout.splitlines()
    found = {}
    for name in listed:
        path = ROOT / name
        if path.is_file():
            found[name] = path.read_bytes().decode("utf-8", "replace")
    return found


@pytest.mark.parametrize("what", sorted(PATTERNS))
def test_no_tracked_file_holds_it(what: str, texts: dict[str, str]) -> None:
    found = [
        f"{name}: {match[0]}"
        for name, text in texts.items()
        for match in PATTERNS[what].finditer(text)
    ]

    assert found == [], f"{what}: take it out"


def test_no_tracked_file_knows_where_the_checkout_is(texts: dict[str, str]) -> None:
    here = re.compile(rf"(?<![\w.]){re.escape(str(ROOT))}\b")

    found = [name for name, text in texts.items() if here.search(text)]

    assert found == []


def test_the_patterns_find_what_they_are_for() -> None:
    samples = {
        "path of a user's folder": "/ro" + "ot/.cache",
        "address of a package index": "https://mirror.example/sim" + "ple/",
        "index option": "--ind" + "ex-url x",
        "lock file's address": '"resol' + 'ved": "https://x/y',
        "real key": "sk-ant-" + "api03-" + "a" * 50,
    }

    assert {
        what for what, text in samples.items() if PATTERNS[what].search(text)
    } == set(PATTERNS)
