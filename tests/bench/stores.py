"""What putting blocks back costs with each ledger, beside a sidecar that only watches.

Rules:
- A conversation has ten blocks, placed turn by turn; then it grows by tool results,
  as an agent's does, or, in the row that says so, by turns of the user's.
- A reused turn is the whole history once more, nothing new to look up. A refresh is the
  history and a new question: sources are asked, and their own time is taken out.
- Subjects take turns within a round, over a connection that stays. `added` is what the
  watching sidecar does not need, in the median and in CPU of the sidecar's process;
  what others do on the machine disturbs the CPU least.

Usage: python -m tests.bench.stores [--short]
"""

import argparse
import http.client
import json
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.bench import machine, sample, subjects

BLOCKS = 10
BASELINE = "observe"
TOPICS = (
    "rivers hills roads bridges harbours forests valleys castles markets mills".split()  # noqa: SIM905  # A list of ten strings reads worse.
)
CONFIG = """\
listen: 127.0.0.1:{port}
admin: {{listen: "127.0.0.1:{admin}"}}
upstreams: {{bench: {{url: "http://127.0.0.1:{upstream}", wire: openai}}}}
routes: [{{path: /v1/chat/completions, upstream: bench, mode: {mode}}}]
models: {{bench: {{context_window: 4000000, max_output_tokens: 8000}}}}
context:
  budget: {{max_tokens: 400}}
  refresh: {{min_steps: 1, max_passes: 1000, deadline_ms: 5000}}
  sources: [{{id: notes, kind: rag, type: files, path: "{notes}"}}]
ledger: {{url: "{ledger}", deadline_ms: 5000}}
"""


@dataclass(frozen=True, slots=True)
class Shape:
    """A conversation: how many turns, of which size together, and who speaks."""

    name: str
    turns: int
    size_bytes: int
    is_chat: bool = False


@dataclass(frozen=True, slots=True)
class Timing:
    """One subject with one shape and kind of turn, in milliseconds."""

    subject: str
    shape: str
    kind: str
    p50_ms: float
    added_p50_ms: float
    cpu_ms: float
    added_cpu_ms: float


@dataclass(frozen=True, slots=True)
class Running:
    """A sidecar, and the connections to it."""

    connection: http.client.HTTPConnection
    admin: http.client.HTTPConnection
    process: int


SHAPES = (
    Shape("2 KB", 22, 2_000),
    Shape("100 KB", 100, 100_000),
    Shape("1 MB", 300, 1_000_000),
    Shape("100 turns", 100, 20_000),
    Shape("500 turns", 500, 100_000),
    Shape("2000 turns", 2_000, 400_000),
    Shape("2000 turns, chat", 2_000, 400_000, is_chat=True),
)
SHORT = ("2 KB", "100 KB", "2000 turns")
REUSED, REFRESH = "reused turn", "refresh"


def main() -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench.stores")
    parser.add_argument("--short", action="store_true", help="three shapes, seconds")
    print(format_timings(measure(is_short=parser.parse_args().short)))
    return 0


def measure(*, is_short: bool = False) -> tuple[Timing, ...]:
    """Time both kinds of turn of every shape with every ledger."""
    shapes = [s for s in SHAPES if not is_short or s.name in SHORT]
    with (
        tempfile.TemporaryDirectory(prefix="deuz-stores-") as name,
        running_subjects(Path(name)) as running,
    ):
        return tuple(
            timing
            for shape in shapes
            for timing in _measure_shape(shape, running, is_short=is_short)
        )


def _measure_shape(
    shape: Shape, running: dict[str, Running], *, is_short: bool
) -> Iterator[Timing]:
    history = make_history(shape)
    for subject in running.values():
        # One request for each block: user, answer, user, …
        for turns in range(1, 2 * BLOCKS, 2):
            ask(subject.connection, encode(history[:turns]))
        for _ in range(3):
            ask(subject.connection, encode(history))
    rounds = 20 if is_short else 150
    reused = [encode(history)] * rounds
    asked = [encode([*history, _question(number)]) for number in range(rounds)]
    for kind, bodies in ((REUSED, reused), (REFRESH, asked)):
        yield from _measure_turns(shape, kind, bodies, running)


def _question(number: int) -> dict[str, Any]:
    return {"role": "user", "content": f"{TOPICS[number % len(TOPICS)]} {number}?"}


def _measure_turns(
    shape: Shape, kind: str, bodies: Sequence[bytes], running: dict[str, Running]
) -> Iterator[Timing]:
    taken: dict[str, list[float]] = {name: [] for name in running}
    before = _cpu_ms(running)
    for body in bodies:
        for name, subject in running.items():
            start = time.perf_counter()
            ask(subject.connection, body)
            taken[name].append((time.perf_counter() - start) * 1e3)
    spent = _cpu_ms(running)
    p50 = {
        name: statistics.median(samples) - _source_ms(running[name], len(bodies))
        for name, samples in taken.items()
    }
    cpu = {name: (ms - before[name]) / len(bodies) for name, ms in spent.items()}
    for name in running:
        added = (p50[name] - p50[BASELINE], cpu[name] - cpu[BASELINE])
        yield Timing(name, shape.name, kind, p50[name], added[0], cpu[name], added[1])


def _source_ms(subject: Running, count: int) -> float:
    """Return what the sources took of the newest requests, in the median."""
    subject.admin.request("GET", f"/api/v1/requests?limit={count}")
    told = json.loads(subject.admin.getresponse().read())["requests"]
    compiles = [each["compile"] for each in told if each["compile"]]
    waits = [
        sum(source["duration_seconds"] for source in compiled["sources"])
        for compiled in compiles
    ]
    return statistics.median(waits) * 1e3 if waits else 0.0


def _cpu_ms(running: dict[str, Running]) -> dict[str, float]:
    return {
        name: machine.read_cpu_seconds(subject.process) * 1e3
        for name, subject in running.items()
    }


def make_history(shape: Shape) -> list[dict[str, Any]]:
    """Return the turns; the first twenty ask ten things, the last is no question."""
    size = max(8, shape.size_bytes // shape.turns - 60)
    turns: list[dict[str, Any]] = []
    for number, topic in enumerate(TOPICS):
        text = f"{shape.name} {topic} {number} ".ljust(size, "x")
        turns.append({"role": "user", "content": text})
        turns.append({"role": "assistant", "content": "a" * size})
    while len(turns) < shape.turns - 1:
        turns += _step(len(turns), size, is_chat=shape.is_chat)
    return turns


def _step(number: int, size: int, *, is_chat: bool) -> list[dict[str, Any]]:
    text = f"{number} ".ljust(size, "x")
    if is_chat:
        user = {"role": "user", "content": text}
        return [user, {"role": "assistant", "content": text}]
    function = {"name": "look", "arguments": "{}"}
    call = {"id": f"c{number}", "type": "function", "function": function}
    return [
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": f"c{number}", "content": text},
    ]


def encode(history: Sequence[dict[str, Any]]) -> bytes:
    """Return the body of a request with the history."""
    return json.dumps({"model": "bench", "messages": list(history)}).encode()


def ask(connection: http.client.HTTPConnection, body: bytes) -> None:
    """Send a body and read the answer.

    Raises:
        RuntimeError: it was not answered well.
    """
    connection.request("POST", "/v1/chat/completions", body, {"x-api-key": "bench"})
    answer = connection.getresponse()
    answer.read()
    if answer.status != 200:
        raise RuntimeError(f"answered with {answer.status}")


@contextmanager
def running_subjects(
    folder: Path,
) -> Iterator[dict[str, Running]]:
    """Start the upstream and a sidecar for each ledger."""
    subjects.build_native(folder)
    notes = folder / "notes"
    notes.mkdir()
    for topic in TOPICS:
        (notes / f"{topic}.md").write_text(f"{topic} {topic} {topic}. " + "x" * 500)
    with ExitStack() as stack:
        upstream = _start_upstream(folder, stack)
        ledgers = {
            BASELINE: "memory://",
            "memory": "memory://",
            "sqlite": f"sqlite:///{folder}/ledger.db",
        }
        if (program := shutil.which("redis-server")) is not None:
            ledgers["redis"] = _start_redis(folder, stack, program)
        yield {
            name: _start_sidecar(folder, stack, name, ledger, upstream)
            for name, ledger in ledgers.items()
        }


def _start_upstream(folder: Path, stack: ExitStack) -> int:
    port = machine.find_free_port()
    command = [str(folder / "upstream"), str(port)]
    log = folder / "upstream.log"
    running = sample.start(command, port, core=sample.LOAD_CORE, log=log)
    stack.callback(sample.stop, running)
    return port


def _start_redis(folder: Path, stack: ExitStack, program: str) -> str:
    port = machine.find_free_port()
    command = [program, "--port", str(port), "--bind", "127.0.0.1"]
    command += ["--save", "", "--dir", str(folder)]
    log = folder / "redis.log"
    running = sample.start(command, port, core=sample.LOAD_CORE, log=log)
    stack.callback(sample.stop, running)
    return f"redis://127.0.0.1:{port}"


def _start_sidecar(
    folder: Path, stack: ExitStack, name: str, ledger: str, upstream: int
) -> Running:
    port, admin = machine.find_free_port(), machine.find_free_port()
    config = folder / f"{name}.yaml"
    config.write_text(
        CONFIG.format(
            port=port,
            admin=admin,
            upstream=upstream,
            mode="observe" if name == BASELINE else "compile",
            notes=folder / "notes",
            ledger=ledger,
        )
    )
    command = [sys.executable, "-m", "deuz_proxy", "run", "--config", str(config)]
    log = folder / f"{name}.log"
    running = sample.start(command, port, core=sample.SUBJECT_CORE, log=log)
    stack.callback(sample.stop, running)
    connections = [
        http.client.HTTPConnection("127.0.0.1", each, timeout=30)
        for each in (port, admin)
    ]
    for connection in connections:
        stack.callback(connection.close)
    return Running(connections[0], connections[1], running.process.pid)


def format_timings(timings: Sequence[Timing]) -> str:
    """Return the table that is printed."""
    titles = ("p50 ms", "+p50 ms", "CPU ms", "+CPU ms")
    lines = [f"{'':<26}" + "".join(f"{title:>10}" for title in titles)]
    for item in timings:
        if item.subject == BASELINE:
            lines.append(f"{item.shape}: {item.kind}")
        figures = (item.p50_ms, item.added_p50_ms, item.cpu_ms, item.added_cpu_ms)
        values = "".join(f"{figure:>10.3f}" for figure in figures)
        lines.append(f"  {item.subject:<24}{values}")
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())
