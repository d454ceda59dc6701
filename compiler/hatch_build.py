"""Build step of the distribution: compiles the scanner next to its Python callers.

Rules:
- Without a C compiler or Python's headers the build goes on, and says so: what is
  scanned in C is then scanned with msgspec.
- The scanner keeps to Python's stable interface: one file serves 3.11 and all later.
"""

import os
import shlex
import subprocess
import sys
import sysconfig
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

_FOLDER = Path("compiler/deuz_compiler/wires")
_SOURCE, _BUILT = _FOLDER / "_scanner.c", _FOLDER / "_scanner.abi3.so"
_TAG = "cp311-abi3"


class CompileScanner(BuildHookInterface[Any]):
    """Compiles on the way to a wheel, an editable one too."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Compile, and take the result into the wheel."""
        if self.target_name != "wheel":
            return
        fault = compile_scanner(Path(self.root))
        if fault:
            self.app.display_warning(f"scanner not built, goes on without: {fault}")
            return
        platform = sysconfig.get_platform().replace("-", "_").replace(".", "_")
        build_data["pure_python"] = False
        build_data["tag"] = f"{_TAG}-{platform}"
        build_data["artifacts"].append(f"/{_BUILT}")


def compile_scanner(root: Path) -> str:
    """Compile inside the checkout; return what hindered it, "" if nothing did."""
    (root / _BUILT).unlink(missing_ok=True)
    command = [
        *shlex.split(os.environ.get("CC", "cc")),
        *("-O2", "-fPIC", "-fvisibility=hidden"),
        *(("-bundle", "-undefined", "dynamic_lookup") if _is_mac() else ("-shared",)),
        f"-I{sysconfig.get_path('include')}",
        str(root / _SOURCE),
        *("-o", str(root / _BUILT)),
    ]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603  # The builder's own compiler.
    except OSError as fault:
        return str(fault)
    return "" if done.returncode == 0 else done.stderr.strip()[:500]


def _is_mac() -> bool:
    return sys.platform == "darwin"
