"""Coding agents and command-line clients, recorded on each way to the provider.

Rules:
- Each turn is a command that a user could type; the next one resumes the conversation.
- Through the sidecar, all turns run behind one `deuz-sidecar exec`: it alone says where
  the provider is. Directly, the same variables name the provider itself.
- The home and the work folder are made anew for each way, at the same place: agents
  tell the model of both.
"""

import functools
import json
import re
import shutil
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from deuz_proxy.demo.provider import (
    FakeProvider,
    ProviderRequest,
    Reply,
    Script,
    Text,
    Thinking,
    ToolCall,
)
from deuz_proxy.demo.provider.answers import compose_answer, digest_of
from deuz_proxy.demo.provider.wires import WIRES
from deuz_testing.frameworks import PYTHON
from deuz_testing.installing import CLIENTS, INSTALLED, install_python
from deuz_testing.node import AGENTS_FOLDER
from deuz_testing.provider import provider_in_thread
from deuz_testing.sidecar import Json, Sidecar
from deuz_testing.ways import (
    DIRECT,
    KEYS,
    NOTES,
    Recording,
    direct_variables,
    way_config,
)

NOTE = "The database pool has twenty connections.\n"
READ_NOTE = "cat note.txt"
AIDER = INSTALLED / "aider"
# The questions of the talks bring quotes and emoji; a shell has its own view of those.
FIRST = "What does our retry policy for payments say?"
SECOND = "How many connections has the pool of the database?"
# Ids, clocks and durations that an agent makes up anew each time.
_VARYING = (
    rb"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"
    rb"|\b[0-9a-f]{64}\b|(?<!\d)1[78]\d{8,11}(?!\d)|\bses_\w+"
    rb"|\bChunk ID: [0-9a-f]{6}|Wall time: \d+\.\d{4}"
    # Codex writes its members in another order each time.
    rb'|"client_metadata":\{(?:"(?:[^"\\]|\\.)*"[:,]?)*\}'
)
_ADDRESS = re.compile(r"http://127\.0\.0\.1:\d+")
RUN_SECONDS = 300


@dataclass(frozen=True, slots=True)
class Agent:
    """One agent: what is typed, what it needs at home, which tool the model calls.

    `calls_from` is the number of answers after which the model starts to call the tool,
    `answers` are the turns that the answers to both questions are. An agent without
    tools may edit files by what the model writes: then that is `edit`, below the first
    answer. One `is_rewriting` that puts turns of its own into what it sent before, and
    `asks_usage` unless it leaves usage out of its streams.
    """

    name: str
    wire: str
    turns: tuple[str, str]
    tool: str
    arguments: Json
    files: Mapping[str, str] = field(default_factory=dict)
    environ: Mapping[str, str] = field(default_factory=dict)
    calls_from: int = 0
    answers: tuple[int, int] = (2, 4)
    edit: str = ""
    is_rewriting: bool = False
    asks_usage: bool = True

    @property
    def requests(self) -> int:
        """How many requests the conversation has."""
        if not self.tool:
            return 2
        return 3 if self.calls_from else 4

    def settled(self, text: bytes) -> bytes:
        """Return the text with a stand-in for each part that is made up anew."""
        return re.sub(_VARYING, b"~", text)


def install_aider() -> None:
    """Make aider's own virtual environment: its pins are nobody else's."""
    install_python(CLIENTS / "requirements-aider.txt", AIDER)


class AgentRecorder:
    """Records agents; each on each way once. Owned by one test session."""

    def __init__(self, make_folder: Callable[[str], Path]) -> None:
        self._make_folder = make_folder
        self._known: dict[tuple[str, str], Recording] = {}

    def __call__(self, agent: Agent, way: str) -> Recording:
        """Return what happens when the agent talks on this way."""
        known = self._known.get((agent.name, way))
        if known is None:
            known = self._known[agent.name, way] = self._record(agent, way)
        return known

    def _record(self, agent: Agent, way: str) -> Recording:
        folder = self._make_folder(f"{agent.name}-{way}")
        home = make_home(folder.parent / f"home-{agent.name}", agent)
        environ = agent_environ(agent, home)
        command = [sys.executable, str(CLIENTS / "turns.py")]
        provider = FakeProvider(
            script=call_tool(agent), minimum_cached_tokens=16, cache_step_tokens=4
        )
        with provider_in_thread(provider):
            if way == DIRECT:
                environ |= direct_variables(provider.url)
                with running_turns(command, environ, home) as shell:
                    results = [shell.type(line) for line in agent.turns]
                return Recording(results, tuple(provider.requests))
            config = way_config(folder, provider.url, way, NOTES)
            command = [*exec_of(folder, config), *command]
            with running_turns(command, environ, home) as shell:
                sidecar = shell.find_sidecar()
                results = [shell.type(line) for line in agent.turns]
                told = sidecar.told(len(provider.requests))
        return Recording(results, tuple(provider.requests), tuple(told))


class Shell:
    """The process that runs the turns. Owned by one recording."""

    def __init__(self, process: "subprocess.Popen[str]") -> None:
        self._process = process

    def type(self, line: str) -> list[object]:
        """Run a command and return its exit code, output and errors."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(line) + "\n")
        self._process.stdin.flush()
        answer: list[object] = json.loads(self._process.stdout.readline())
        return answer

    def find_sidecar(self) -> Sidecar:
        """Return the sidecar of `exec`, from the line that it prints when ready."""
        assert self._process.stderr is not None
        found = _ADDRESS.search(line := self._process.stderr.readline())
        assert found is not None, line
        return Sidecar(url="", admin=found[0])


@contextmanager
def running_turns(
    command: Sequence[str], environ: Mapping[str, str], home: Path
) -> Iterator[Shell]:
    """Run the process of the turns; what it started has ended when the block ends."""
    process = subprocess.Popen(
        command,
        cwd=home / "work",
        env=dict(environ),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    watch = threading.Timer(RUN_SECONDS, process.kill)
    watch.start()
    try:
        yield Shell(process)
        _, errors = process.communicate(timeout=RUN_SECONDS)
        assert process.returncode == 0, errors
    finally:
        watch.cancel()
        process.kill()
        process.communicate()


def exec_of(folder: Path, config: Json) -> list[str]:
    """Return the command that puts a sidecar with this config around another one."""
    path = folder / "deuz.yaml"
    path.write_text(json.dumps(config))
    program = Path(sys.executable).parent / "deuz-sidecar"
    return [str(program), "exec", "--config", str(path), "--"]


def make_home(home: Path, agent: Agent) -> Path:
    """Make the agent's home anew, with its files and a folder to work in."""
    shutil.rmtree(home, ignore_errors=True)
    files = {"work/note.txt": NOTE, **agent.files}
    for name, text in files.items():
        path = home / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return home


def agent_environ(agent: Agent, home: Path) -> dict[str, str]:
    """Return all that the agent sees of an environment, but for addresses."""
    node = Path(shutil.which("node") or "node").parent
    programs = (
        AGENTS_FOLDER / "node_modules/.bin",
        PYTHON.parent,
        AIDER / "bin",
        node,
        "/usr/bin",
        "/bin",
    )
    return {
        **KEYS,
        "HOME": str(home),
        "LANG": "C.UTF-8",
        "PATH": ":".join(map(str, programs)),
        "TERM": "xterm-256color",
        "TZ": noon_zone(),
        **agent.environ,
    }


@functools.cache
def noon_zone() -> str:
    """Return a time zone where it is about noon when the first agent starts.

    Agents tell the model the date: midnight must not come between two commands.
    """
    # In these names, what is east of Greenwich has a minus.
    return f"Etc/GMT{datetime.now(UTC).hour - 12:+d}"


def call_tool(agent: Agent) -> Script:
    """Return the script of a model that calls the agent's tool for each question."""

    def answer(asked: ProviderRequest) -> Reply | None:
        if asked.wire not in WIRES or asked.purpose != "generate":
            return None
        ask = WIRES[asked.wire].ask(asked)
        if agent.edit and ask.assistant_turns + 1 == agent.answers[0]:
            answer = compose_answer(asked, ask)
            parts = answer.parts if isinstance(answer, Reply) else ()
            return Reply((*parts, Text(agent.edit)))
        is_early = ask.assistant_turns < agent.calls_from
        if ask.is_continuation or is_early or agent.tool not in dict(ask.tools):
            return None
        call = ToolCall(agent.tool, dict(agent.arguments), digest_of(asked, ask))
        thought = (Thinking("A look helps."),) if ask.wants_thinking else ()
        return Reply((*thought, call))

    return answer


_OPENCODE: Json = {
    "autoupdate": False,
    "share": "disabled",
    "enabled_providers": ["fake"],
    "model": "fake/fake",
    "permission": {"bash": "allow"},
    "provider": {
        "fake": {
            "npm": "@ai-sdk/openai-compatible",
            "options": {
                "baseURL": "{env:OPENAI_BASE_URL}",
                "apiKey": "{env:OPENAI_API_KEY}",
            },
            "models": {"fake": {"limit": {"context": 200_000, "output": 8_000}}},
        }
    },
}
_CODEX = """
model = "fake"
model_provider = "sidecar"
[model_providers.sidecar]
name = "sidecar"
wire_api = "responses"
env_key = "OPENAI_API_KEY"
"""
_GEMINI: Json = {
    "security": {"auth": {"selectedType": "gemini-api-key"}},
    "general": {"disableAutoUpdate": True},
    "privacy": {"usageStatisticsEnabled": False},
    # It lists them in the order in which their folders happen to be read: some starts
    # have another system prompt.
    "skills": {"enabled": False},
}
_CODEX_WORDS = (
    "codex exec --skip-git-repo-check --dangerously-bypass-approvals-and-sandbox "
    '-c model_providers.sidecar.base_url="$OPENAI_BASE_URL"'
)
_CLAUDE_WORDS = "--model claude-sonnet-4-5 --allowedTools Bash"
# Without a list of its own it reads that of all models of the world, or fetches it.
_OPENCODE_WORDS = 'OPENCODE_MODELS_PATH="$HOME/models.json" opencode run'
_GEMINI_WORDS = "gemini --skip-trust --yolo -m gemini-2.5-flash"
_AIDER_WORDS = (
    "aider --model openai/gpt-4o-mini --no-git --map-tokens 0 --yes-always --no-pretty "
    "--no-check-update --no-show-release-notes --no-show-model-warnings "
    "--analytics-disable plan.txt"
)
# Else it looks the prices of all models of the world up, in the network.
_AIDER_PRICES: Json = {"gpt-4o-mini": {"litellm_provider": "openai", "mode": "chat"}}
_LLM_WORDS = "llm -m gpt-4o-mini --functions work_tools.py"

AGENTS = (
    Agent(
        "claude-code",
        "anthropic",
        (
            f"claude -p '{FIRST}' {_CLAUDE_WORDS}",
            f"claude -c -p '{SECOND}' {_CLAUDE_WORDS}",
        ),
        "Bash",
        {"command": READ_NOTE, "description": "Read the note"},
        environ={"CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1"},
    ),
    Agent(
        "opencode",
        "openai_chat",
        (f"{_OPENCODE_WORDS} '{FIRST}'", f"{_OPENCODE_WORDS} -c '{SECOND}'"),
        "bash",
        {"command": READ_NOTE, "description": "Read the note"},
        files={"work/opencode.json": json.dumps(_OPENCODE), "models.json": "{}"},
    ),
    Agent(
        "llm",
        "openai_chat",
        (f"{_LLM_WORDS} '{FIRST}'", f"{_LLM_WORDS} -c '{SECOND}'"),
        "read_note",
        {},
        files={
            "work/work_tools.py": "def read_note() -> str:\n"
            '    """Return the note of the team."""\n'
            '    return open("note.txt").read()\n'
        },
    ),
    Agent(
        "codex",
        "openai_responses",
        (f"{_CODEX_WORDS} '{FIRST}'", f"{_CODEX_WORDS} resume --last '{SECOND}'"),
        "exec_command",
        # The longest that it waits: then it tells what is there so far.
        {"cmd": READ_NOTE, "yield_time_ms": 30_000},
        files={".codex/config.toml": _CODEX},
    ),
    Agent(
        "gemini-cli",
        "gemini",
        (
            f"{_GEMINI_WORDS} -p '{FIRST}'",
            f"{_GEMINI_WORDS} --resume latest -p '{SECOND}'",
        ),
        "read_file",
        {"file_path": "note.txt"},
        files={".gemini/settings.json": json.dumps(_GEMINI)},
        # Resuming, it sends the result of an earlier call twice, which is refused.
        calls_from=1,
        answers=(1, 3),
    ),
    Agent(
        "aider",
        "openai_chat",
        (
            f"{_AIDER_WORDS} --message '{FIRST}'",
            f"{_AIDER_WORDS} --restore-chat-history --message '{SECOND}'",
        ),
        "",
        {},
        files={
            ".aider/caches/model_prices_and_context_window.json": json.dumps(
                _AIDER_PRICES
            )
        },
        environ={"LITELLM_LOCAL_MODEL_COST_MAP": "True"},
        answers=(4, 5),
        edit=f"\n\nplan.txt\n```\n{NOTE}```\n",
        is_rewriting=True,
        asks_usage=False,
    ),
)
