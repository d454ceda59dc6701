"""Every rule of the compiler names a test that exists, and every word has its rule."""

import ast
import re
from functools import cache
from pathlib import Path
from typing import NamedTuple

from deuz_compiler.records.candidate import REQUIREMENTS
from deuz_compiler.records.reasons import REASONS
from deuz_compiler.records.refusal import REFUSALS

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "compiler-rules.md"

GROUPS = (
    "Input",
    "Budget",
    "Gates",
    "Classes",
    "Closures",
    "Groups",
    "Shares",
    "Ranking",
    "Forms and projections",
    "Mandatory and required",
    "Rendering and repair",
    "Order",
    "Manifest",
    "Refusals",
    "Exact search",
    "Explaining",
    "The project-context-compiler form",
    "Placement",
    "Compaction",
    "Refresh",
    "Working memory",
    "Tokens",
    "Tail placement",
    "Redaction",
    "Prediction",
)
"""What the page has rules about, at least; a new room of the compiler adds its own."""


class Rule(NamedTuple):
    """A numbered rule: what it says, and the tests that pin it."""

    number: int
    text: str
    tests: tuple[str, ...]


def list_rules() -> list[Rule]:
    page = re.sub(r"^## .*$", "", PAGE.read_text(), flags=re.M)
    found = re.findall(r"^- \*\*R(\d+)\*\* (.*?)(?=^- \*\*R|\Z)", page, re.M | re.S)
    return [
        Rule(int(number), text, tuple(re.findall(r"`(\S+\.py::\w+)`", text)))
        for number, text in found
    ]


@cache
def list_tests(path: Path) -> tuple[str, ...]:
    """Return the names of a file's tests; none where there is no file."""
    if not path.is_file():
        return ()
    functions = ast.walk(ast.parse(path.read_text()))
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef)
    return tuple(node.name for node in functions if isinstance(node, kinds))


def exists(name: str) -> bool:
    file, _, test = name.partition("::")
    folder = ROOT if file.startswith("tests/") else ROOT / "tests" / "compiler"
    return test.startswith("test_") and test in list_tests(folder / file)


def test_rules_are_numbered_from_one_without_a_gap() -> None:
    numbers = [rule.number for rule in list_rules()]

    assert numbers == list(range(1, len(numbers) + 1))
    assert len(numbers) >= 138


def test_every_rule_names_a_test() -> None:
    bare = [f"R{rule.number}" for rule in list_rules() if not rule.tests]

    assert bare == [], "write the test, then name it"


def test_every_named_test_exists() -> None:
    lost = [
        f"R{rule.number}: {name}"
        for rule in list_rules()
        for name in rule.tests
        if not exists(name)
    ]

    assert lost == [], "the test was renamed or never written"


def test_a_test_that_does_not_exist_is_noticed() -> None:
    assert exists("selection/test_gates.py::test_eligible_candidate_passes")
    assert not exists("selection/test_gates.py::test_nobody_wrote")
    assert not exists("selection/test_nowhere.py::test_eligible_candidate_passes")


def test_every_room_of_the_compiler_has_its_group_of_rules() -> None:
    headings = re.findall(r"^## (.*)$", PAGE.read_text(), re.M)

    assert [group for group in GROUPS if group not in headings] == []


def test_every_reason_refusal_and_class_has_a_rule() -> None:
    text = " ".join(rule.text for rule in list_rules())
    told = set(re.findall(r"`([a-z-]+)`", text))

    assert set(REASONS) - told == set()
    assert set(REFUSALS) - told == set()
    assert [name for name in REQUIREMENTS if name not in text] == []
