"""Runs the npm packages of tests/clients in Node, as talks to record.

Rules:
- They are installed once, in the pinned versions, into a folder that git ignores.
- Without Node or a registry the tests are skipped; with CI set they fail instead.
- A talk sees the base-URL variables and nothing else of the test's environment.
"""

import json
import os
import shutil
import subprocess
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from deuz_testing.talks_anthropic import TOOL
from deuz_testing.talks_openai import CHAT_TOOL, QUESTIONS, RESULT, SYSTEM
from deuz_testing.ways import Talk

FOLDER = Path(__file__).resolve().parents[3] / "tests" / "clients"
INSTALL_SECONDS = 180
RUN_SECONDS = 60
_PASSED_ON = (
    "OPENAI_BASE_URL",
    "OPENAI_API_KEY",
    "ANTHROPIC_BASE_URL",
    "ANTHROPIC_API_KEY",
    "PATH",
)
WORDS = {
    "system": SYSTEM,
    "questions": QUESTIONS,
    "result": RESULT,
    "chatTool": CHAT_TOOL,
    "messagesTool": TOOL,
}


def install_packages() -> None:
    """Install what package.json names, unless it is there in just these versions."""
    wanted = json.loads((FOLDER / "package.json").read_text())["dependencies"]
    if all(_installed(name) == version for name, version in wanted.items()):
        return
    npm = shutil.which("npm")
    if npm is None or shutil.which("node") is None:
        _give_up("no node and npm on PATH")
        return
    # No lock file: it would record the addresses of this machine's registry.
    command = [npm, "install", "--no-package-lock", "--no-audit", "--no-fund"]
    run = subprocess.run(
        command,
        cwd=FOLDER,
        capture_output=True,
        check=False,
        text=True,
        timeout=INSTALL_SECONDS,
    )
    if run.returncode:
        _give_up(f"npm install failed: {run.stderr[-500:]}")


def run_talk(name: str) -> list[Any]:
    """Let Node run one talk and return what its client understood."""
    run = subprocess.run(
        ["node", str(FOLDER / "talks.mjs"), name],
        input=json.dumps(WORDS),
        check=False,
        env={key: os.environ[key] for key in _PASSED_ON},
        capture_output=True,
        text=True,
        timeout=RUN_SECONDS,
    )
    assert run.returncode == 0, run.stderr[-2000:]
    results: list[Any] = json.loads(run.stdout)
    return results


def _talk(name: str, wire: str, *, is_conversation: bool = True) -> Talk:
    return Talk(f"node-{name}", wire, partial(run_talk, name), is_conversation)


NODE_TALKS = (
    _talk("openai-buffered", "openai_chat"),
    _talk("openai-streamed", "openai_chat"),
    _talk("openai-tools", "openai_chat"),
    _talk("openai-responses", "openai_responses", is_conversation=False),
    _talk("openai-errors", "openai_chat", is_conversation=False),
    _talk("anthropic-buffered", "anthropic"),
    _talk("anthropic-streamed", "anthropic"),
    _talk("anthropic-tools", "anthropic"),
    _talk("anthropic-errors", "anthropic", is_conversation=False),
)


def _installed(name: str) -> str | None:
    path = FOLDER / "node_modules" / name / "package.json"
    return json.loads(path.read_text())["version"] if path.is_file() else None


def _give_up(reason: str) -> None:
    if os.environ.get("CI", "").lower() not in ("", "0", "false"):
        pytest.fail(reason, pytrace=False)
    pytest.skip(reason)
