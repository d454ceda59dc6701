"""Who imports whom, and what the compiler must not touch."""

import ast
import subprocess
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
BANNED_BUILTINS = {"hash", "id", "open", "print", "input", "eval", "exec", "breakpoint"}


def list_compiler_trees() -> dict[str, ast.Module]:
    folder = ROOT / "compiler/deuz_compiler"
    return {
        str(path.relative_to(ROOT)): ast.parse(path.read_text())
        for path in sorted(folder.rglob("*.py"))
    }


def is_set(node: ast.expr) -> bool:
    """Tell whether the expression is a set by its own form."""
    if isinstance(node, ast.Set | ast.SetComp):
        return True
    return (
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Name)
        and node.func.id in {"set", "frozenset"}
    )


def find_iterated(tree: ast.Module) -> list[ast.expr]:
    """Return what loops and comprehensions iterate over."""
    return [
        node.iter
        for node in ast.walk(tree)
        if isinstance(node, ast.For | ast.comprehension)
    ]


def test_import_contracts_hold() -> None:
    script = (
        "import sys; sys.path[:0] = ['proxy', 'compiler'];"
        "from importlinter.cli import lint_imports_command as run; run()"
    )
    command = [sys.executable, "-c", script, "--no-cache"]

    done = subprocess.run(
        command, check=False, cwd=ROOT, capture_output=True, text=True
    )

    assert done.returncode == 0, done.stdout + done.stderr


def test_a_sidecar_starts_without_what_only_some_configs_use() -> None:
    heavy = {"aiohttp", "redis", "asyncpg", "mcp", "httpx2", "grpc"}
    script = "import sys, deuz_proxy.worker, deuz_proxy.running; print(*sys.modules)"

    done = subprocess.run(
        [sys.executable, "-c", script], check=True, capture_output=True, text=True
    )

    loaded = {name.partition(".")[0] for name in done.stdout.split()}
    assert loaded & heavy == set()


def test_compiler_uses_no_builtin_that_differs_between_runs_or_talks() -> None:
    found = [
        f"{name}:{node.lineno}: {node.func.id}"
        for name, tree in list_compiler_trees().items()
        for node in ast.walk(tree)
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Name)
        and node.func.id in BANNED_BUILTINS
    ]

    assert found == []


def test_compiler_iterates_over_no_set() -> None:
    found = [
        f"{name}:{iterated.lineno}"
        for name, tree in list_compiler_trees().items()
        for iterated in find_iterated(tree)
        if is_set(iterated)
    ]

    assert found == [], "sort it first: the order of a set differs between runs"


def test_no_task_is_started_outside_a_task_group() -> None:
    found = [
        f"{path.relative_to(ROOT)}:{node.lineno}"
        for path in sorted((ROOT / "proxy").rglob("*.py"))
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Attribute)
        and node.attr in {"ensure_future", "create_task"}
        and isinstance(node.value, ast.Name)
        and node.value.id in {"asyncio", "loop"}
    ]

    assert found == []


def test_what_some_versions_of_python_lack_is_imported_in_one_place_each() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    some = [each for each in project["dependencies"] if "python_version" in each]
    names = {each.partition(">")[0].partition(".")[0] for each in some}
    importing = [
        str(path.relative_to(ROOT))
        for folder in ("compiler", "proxy", "tests", "dashboards")
        for path in sorted((ROOT / folder).rglob("*.py"))
        for node in ast.walk(ast.parse(path.read_text()))
        if names & {part.partition(".")[0] for part in imported_by(node)}
    ]

    assert names
    assert importing == ["proxy/deuz_proxy/observe/zstandard.py"]


def imported_by(node: ast.AST) -> list[str]:
    if isinstance(node, ast.Import):
        return [each.name for each in node.names]
    return [node.module or ""] if isinstance(node, ast.ImportFrom) else []
