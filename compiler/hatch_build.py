"""Build step of the distribution: compiles what is in C next to its Python callers.

Rules:
- Without a C compiler or Python's headers the build goes on, and says so: what is
  done in C is then done in Python.
- All files keep to Python's stable interface: one build serves 3.11 and all later.
"""

import os
import shlex
import subprocess
import sys
import sysconfig
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

_SOURCES = (
    Path("compiler/deuz_compiler/wires/_scanner.c"),
    Path("proxy/deuz_proxy/sinks/_span_items.c"),
    Path("proxy/deuz_proxy/sources/_best_rows.c"),
)
_TAG = "cp311-abi3"


class CompileSources(BuildHookInterface[Any]):
    """Compiles on the way to a wheel, an editable one too."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Compile, and take the result into the wheel."""
        if self.target_name != "wheel":
            return
        for source in _SOURCES:
            fault = compile_source(Path(self.root), source)
            if fault:
                name = source.stem.lstrip("_")
                self.app.display_warning(f"{name} not built, goes on without: {fault}")
                continue
            platform = sysconfig.get_platform().replace("-", "_").replace(".", "_")
            build_data["pure_python"] = False
            build_data["tag"] = f"{_TAG}-{platform}"
            build_data["artifacts"].append(f"/{built_from(source)}")


def built_from(source: Path) -> Path:
    """Return where the result of a source stands."""
    return source.with_suffix(".abi3.so")


def compile_source(root: Path, source: Path) -> str:
    """Compile inside the checkout; return what hindered it, "" if nothing did."""
    built = root / built_from(source)
    built.unlink(missing_ok=True)
    command = [
        *shlex.split(os.environ.get("CC", "cc")),
        *("-O3", "-fPIC", "-fvisibility=hidden"),
        *(("-bundle", "-undefined", "dynamic_lookup") if _is_mac() else ("-shared",)),
        f"-I{sysconfig.get_path('include')}",
        str(root / source),
        *("-o", str(built)),
    ]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603  # The builder's own compiler.
    except OSError as fault:
        return str(fault)
    return "" if done.returncode == 0 else done.stderr.strip()[:500]


def _is_mac() -> bool:
    return sys.platform == "darwin"
