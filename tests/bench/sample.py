"""One sample: the load generator against one running subject, and what it cost.

Rules:
- The subject is pinned to the first core; upstream and load share the other, so that
  the proxy's CPU is its own. With one core everything shares it.
- Only processes started here are stopped.
"""

import json
import os
import subprocess
from dataclasses import dataclass
from pathlib import Path

from tests.bench import machine
from tests.bench.cells import MAX_SECONDS, Cell

CORES = sorted(os.sched_getaffinity(0))
SUBJECT_CORE, LOAD_CORE = CORES[0], CORES[-1]

# For one that never listens: on a machine that others use as well, an interpreter takes
# long to start.
START_SECONDS = 60.0

Figures = dict[str, float]


@dataclass(frozen=True, slots=True)
class Running:
    """A process that listens on a port. `direct` is the upstream under that name."""

    name: str
    process: subprocess.Popen[bytes]
    port: int


def start(
    command: list[str],
    port: int,
    *,
    core: int,
    log: Path,
    seconds: float = START_SECONDS,
) -> Running:
    """Start a process pinned to a core and wait until it listens.

    Raises:
        RuntimeError: it ended or did not listen; the message holds its last output.
    """
    with log.open("wb") as output:
        process = subprocess.Popen(
            ["taskset", "--cpu-list", str(core), *command],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
        )
    if not machine.wait_for_port(port, seconds=seconds) or process.poll() is not None:
        process.kill()
        process.wait()
        raise RuntimeError(f"{log.stem} does not listen: {log.read_text()[-600:]}")
    return Running(log.stem, process, port)


def stop(running: Running) -> None:
    """End a process that `start` began, by force after a grace."""
    running.process.terminate()
    try:
        running.process.wait(5)
    except subprocess.TimeoutExpired:
        running.process.kill()
        running.process.wait()


def take(
    subject: Running, upstream: Running, cell: Cell, folder: Path, *, headers: str = ""
) -> Figures:
    """Run one cell against one subject and return its figures.

    `headers` are lines, each with its CRLF, that the load sends with every request.
    """
    template = folder / cell.template
    numbers = (cell.concurrency, cell.talks, cell.primed, cell.steps, MAX_SECONDS)
    command = [str(folder / "load"), str(subject.port), str(template)]
    command += [str(number) for number in numbers]
    if cell.is_streamed:
        command.append(f"{cell.events},{cell.gap_microseconds}")
    machine.reset_peak_memory(subject.process.pid)
    with subprocess.Popen(
        ["taskset", "--cpu-list", str(LOAD_CORE), *command],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "BENCH_HEADERS": headers},
    ) as load:
        return _measure(load, subject, upstream)


def _measure(
    load: "subprocess.Popen[str]", subject: Running, upstream: Running
) -> Figures:
    if load.stdout is None or load.stdin is None:
        raise RuntimeError("load generator has no pipes")
    if load.stdout.readline() != "primed\n":
        return {"failed": 1.0}
    own = {subject.process.pid, upstream.process.pid, load.pid}
    before = {pid: machine.read_cpu_seconds(pid) for pid in own}
    busy = machine.read_machine_busy_seconds()
    load.stdin.write("\n")
    load.stdin.flush()
    figures: Figures = json.loads(load.stdout.readline())
    spent = {pid: machine.read_cpu_seconds(pid) - before[pid] for pid in own}
    busy = machine.read_machine_busy_seconds() - busy
    if subject.process is not upstream.process:
        figures["cpu_seconds"] = spent[subject.process.pid]
    foreign = busy - sum(max(0.0, seconds) for seconds in spent.values())
    figures["foreign_cores"] = max(0.0, foreign) / figures["wall_seconds"]
    figures["peak_mib"] = machine.read_memory_mib(subject.process.pid, "VmHWM")
    return derive(figures)


def derive(figures: Figures) -> Figures:
    """Add rates and costs per request and per event."""
    requests = figures["requests"] - figures["bad_status"]
    if requests <= 0 or figures["errors"]:
        return {**figures, "failed": 1.0}
    wall, events = figures["wall_seconds"], figures["events"]
    derived = {"requests_per_second": requests / wall}
    if events:
        derived["events_per_second"] = events / wall
    if "cpu_seconds" in figures:
        # Direct has no proxy whose CPU one could count.
        derived["cpu_ms_per_request"] = figures["cpu_seconds"] / requests * 1e3
        if events:
            derived["cpu_us_per_event"] = figures["cpu_seconds"] / events * 1e6
    return {**figures, **derived}
