"""Runs the npm packages of tests/clients in Node, as talks to record.

Rules:
- They are installed once, in the pinned versions, into a folder that git ignores.
- A talk sees the base-URL variables and nothing else of the test's environment.
"""

import json
import shutil
import subprocess
from functools import partial
from pathlib import Path
from typing import Any

from deuz_testing.installing import (
    CLIENTS,
    INSTALLED,
    give_up,
    installing_alone,
    run_installer,
)
from deuz_testing.talks_anthropic import TOOL
from deuz_testing.talks_openai import CHAT_TOOL, QUESTIONS, RESULT, SYSTEM
from deuz_testing.ways import Talk, client_variables

RUN_SECONDS = 240
AGENTS_FOLDER = INSTALLED / "agents"
WORDS = {
    "system": SYSTEM,
    "questions": QUESTIONS,
    "result": RESULT,
    "chatTool": CHAT_TOOL,
    "messagesTool": TOOL,
}


def install_agents() -> None:
    """Install the coding agents of agents.json, unless they are there."""
    AGENTS_FOLDER.mkdir(parents=True, exist_ok=True)
    shutil.copy(CLIENTS / "agents.json", AGENTS_FOLDER / "package.json")
    install_packages(AGENTS_FOLDER)


def install_packages(folder: Path = CLIENTS) -> None:
    """Install what the folder's package.json names, unless it is there already.

    No lock file is kept: it would record the addresses of this machine's registry.
    """
    wanted = json.loads((folder / "package.json").read_text())["dependencies"]
    with installing_alone(f"npm-{folder.name}"):
        if any(_installed(folder, name) != pin for name, pin in wanted.items()):
            _run_npm(folder)


def _run_npm(folder: Path) -> None:
    npm = shutil.which("npm")
    if npm is None or shutil.which("node") is None:
        give_up("no node and npm on PATH")
        return
    options = ("--no-package-lock", "--no-audit", "--no-fund")
    run_installer((npm, "install", *options), folder)


def run_talk(script: str, name: str) -> list[Any]:
    """Let Node run one talk and return what its client understood."""
    run = subprocess.run(
        ["node", str(CLIENTS / script), name],
        input=json.dumps(WORDS),
        check=False,
        env=client_variables(),
        capture_output=True,
        text=True,
        timeout=RUN_SECONDS,
    )
    assert run.returncode == 0, run.stderr[-2000:]
    results: list[Any] = json.loads(run.stdout)
    return results


def _talk(
    name: str,
    wire: str,
    *,
    is_conversation: bool = True,
    script: str = "talks.mjs",
) -> Talk:
    run = partial(run_talk, script, name)
    return Talk(f"node-{name}", wire, run, is_conversation, needs="node")


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
VERCEL_TALKS = tuple(
    _talk(f"ai-{name}", wire, script="talks_ai.mjs")
    for name, wire in (
        ("chat", "openai_chat"),
        ("messages", "anthropic"),
        ("responses", "openai_responses"),
    )
)


def _installed(folder: Path, name: str) -> str | None:
    path = folder / "node_modules" / name / "package.json"
    return json.loads(path.read_text())["version"] if path.is_file() else None
