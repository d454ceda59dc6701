"""Every module has its own test file, in the same place below tests/."""

from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = {
    "proxy": ROOT / "proxy/deuz_proxy",
    "compiler": ROOT / "compiler/deuz_compiler",
}

TESTED_ELSEWHERE: dict[str, str] = {
    "proxy/observe/zstandard.py": "tests/proxy/observe/test_inflate.py",
    "compiler/errors.py": "tests/repo/test_docs.py",
    "proxy/errors.py": "tests/repo/test_docs.py",
    "compiler/wires/table.py": "tests/compiler/wires/conformance/test_table.py",
}
"""Module to the test file that covers it, where its own would only repeat that one."""

MORE_THAN_ONE_MODULE = {
    "tests/proxy/edge/test_inbound.py": "the server half, as clients see it",
    "tests/proxy/edge/test_upstream.py": "the client half, as upstreams see it",
    "tests/proxy/test_binding_models.py": "models that bind thinking, by the line",
    "tests/proxy/test_second_pass.py": "recovery, where something is lost meanwhile",
    "tests/proxy/memory/test_forgetting_races.py": "forgetting, where requests run",
    "tests/proxy/sources/test_ranking.py": "what searches find, and how it scores",
    "tests/proxy/stages/test_recall_sources.py": "recall, where sources misbehave",
    "tests/proxy/stages/test_compile_standing.py": "compile and settle: what stands",
    "tests/proxy/edge/test_http1_upstreams_tls.py": "the upstream pool over TLS",
    "tests/proxy/edge/test_http1_upstreams_heads.py": "heads like the last one",
    "tests/proxy/demo/provider/test_hostile_bodies.py": "the whole provider",
    "tests/proxy/demo/provider/test_official_sdks.py": "the provider as SDKs see it",
    "tests/proxy/demo/provider/test_recorded_clients.py": "the same, as agents see it",
    **{
        f"tests/compiler/wires/conformance/test_{law}.py": "every wire, by one law"
        for law in (
            "table",
            "bodies",
            "turns",
            "placing",
            "parts",
            "condensing",
            "answers",
            "errors",
        )
    },
}
"""Test file below a package to what it tests there, where that is no single module."""

NOTHING_TO_TEST = {
    "proxy/calls.py": "values without behaviour",
    "proxy/ports.py": "protocols without behaviour",
}


def list_modules() -> dict[str, Path]:
    """Return the expected test file of each module that holds code."""
    expected = {}
    for side, package in PACKAGES.items():
        for path in sorted(package.rglob("*.py")):
            if path.name.startswith("__"):
                continue
            inner = path.relative_to(package)
            test = Path("tests") / side / inner.parent / f"test_{inner.name}"
            expected[f"{side}/{inner}"] = test
    return expected


def test_every_module_has_its_own_test_file() -> None:
    missing = {
        name: str(test)
        for name, test in list_modules().items()
        if name not in {**TESTED_ELSEWHERE, **NOTHING_TO_TEST}
        and not (ROOT / test).exists()
    }

    assert missing == {}, "write these, or name the file in TESTED_ELSEWHERE"


def test_every_test_file_has_its_module() -> None:
    expected = {str(test) for test in list_modules().values()}
    found = {
        str(path.relative_to(ROOT))
        for side in PACKAGES
        for path in (ROOT / "tests" / side).rglob("test_*.py")
    }

    known = expected | set(TESTED_ELSEWHERE.values()) | set(MORE_THAN_ONE_MODULE)
    orphans = sorted(found - known)
    assert orphans == [], "rename these after their module, or say what they test above"


def test_exceptions_name_modules_and_tests_that_exist() -> None:
    modules = list_modules()
    stale = [
        name
        for name, test in TESTED_ELSEWHERE.items()
        if name not in modules
        or (ROOT / modules[name]).exists()
        or not (ROOT / test).exists()
    ]
    stale += [name for name in NOTHING_TO_TEST if name not in modules]
    stale += [name for name in MORE_THAN_ONE_MODULE if not (ROOT / name).exists()]

    assert stale == []
