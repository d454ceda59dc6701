"""Runs the Python frameworks of tests/clients, as talks to record.

Rules:
- They live in a virtual environment of their own: their pins are not the project's.
- One process runs all talks, one after the other: some packages take seconds to import.
- A talk sees the base-URL variables and nothing else of the test's environment.
"""

import functools
import json
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

from deuz_testing.installing import CLIENTS, INSTALLED, install_python
from deuz_testing.node import WORDS
from deuz_testing.ways import Talk, client_variables

FOLDER = INSTALLED / "clients"
PYTHON = FOLDER / "bin" / "python"
RUN_SECONDS = 240
# Looked up in the network otherwise, or reported there.
_CALM = {
    "LITELLM_LOCAL_MODEL_COST_MAP": "True",
    "OPENAI_AGENTS_DISABLE_TRACING": "true",
    "LANGSMITH_TRACING": "false",
}


def install_frameworks() -> None:
    """Make the virtual environment of requirements.txt, unless it is there."""
    install_python(CLIENTS / "requirements.txt", FOLDER)


@contextmanager
def running_frameworks() -> Iterator[None]:
    """End the process of the talks, if one was started, with the block."""
    yield
    if _process.cache_info().currsize:
        # Some packages would first wait for what they have to report.
        _process().kill()
        _process().communicate()
        _process.cache_clear()


def run_talk(name: str) -> list[Any]:
    """Let the process run one talk and return what its client understood."""
    process = _process()
    assert process.stdin is not None
    assert process.stdout is not None
    asked = {"talk": name, "environ": client_variables(), "words": WORDS}
    watch = threading.Timer(RUN_SECONDS, process.kill)
    watch.start()
    try:
        process.stdin.write(json.dumps(asked) + "\n")
        process.stdin.flush()
        line = process.stdout.readline()
    finally:
        watch.cancel()
    assert line, f"{name}: the process of the talks is gone"
    told = json.loads(line)
    assert "results" in told, told["error"]
    results: list[Any] = told["results"]
    return results


@functools.cache
def _process() -> "subprocess.Popen[str]":
    return subprocess.Popen(
        [str(PYTHON), str(CLIENTS / "frameworks.py")],
        env={**client_variables(), **_CALM},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )


def _talk(name: str, wire: str, **more: Any) -> Talk:
    return Talk(name, wire, partial(run_talk, name), needs="frameworks", **more)


FRAMEWORK_TALKS = (
    _talk("litellm-chat", "openai_chat"),
    _talk("litellm-messages", "anthropic"),
    _talk("litellm-gemini", "gemini", varying=rb"\bcall_[0-9a-f]{28}"),
    _talk("langchain-chat", "openai_chat"),
    _talk("langchain-messages", "anthropic"),
    _talk("langchain-responses", "openai_responses"),
    _talk("pydantic-chat", "openai_chat"),
    _talk("pydantic-responses", "openai_responses"),
    _talk("agents-chat", "openai_chat"),
    _talk("agents-responses", "openai_responses"),
    # It keeps each streamed piece as a turn: no server that alternates takes that.
    _talk("genai", "gemini", settings={"alternate": False}),
)
