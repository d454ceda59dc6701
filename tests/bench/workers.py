"""One worker and several, side by side: throughput, and what the keeper costs.

Rules:
- Nothing is pinned: workers, keeper, upstream and load share the machine's cores, so
  on few of them the ratio is a lower bound of what more cores give.
- Rounds are interleaved, and each figure is a median of the rounds.

Usage: python -m tests.bench.workers [--rounds N] [--workers N,N] [--without-otlp]
"""

import argparse
import contextlib
import json
import os
import statistics
import subprocess
import tempfile
from collections.abc import Mapping
from pathlib import Path

from tests.bench import machine, sample, subjects
from tests.bench.__main__ import prepare
from tests.bench.cells import MAX_SECONDS, Cell, list_cells

CELLS = ("2k c64", "100k first c64")
Figures = dict[str, float]


def compare(
    folder: Path, counts: list[int], rounds: int, *, is_exported: bool
) -> dict[tuple[str, int], Figures]:
    """Return the medians of each cell and number of workers."""
    prepare(folder)
    taken: dict[tuple[str, int], list[Figures]] = {}
    cells = [cell for cell in list_cells(primed=0, scale=1) if cell.name in CELLS]
    with contextlib.ExitStack() as stack:
        upstream = start(folder, stack, [str(folder / "upstream")], "upstream")
        running = {
            count: start_sidecar(
                folder, stack, (upstream.port, count), is_exported=is_exported
            )
            for count in counts
        }
        for _ in range(rounds):
            for cell in cells:
                for count, subject in running.items():
                    figures = take(subject, cell, folder)
                    taken.setdefault((cell.name, count), []).append(figures)
    return {key: median_of(several) for key, several in taken.items()}


def median_of(several: list[Figures]) -> Figures:
    """Return the median of each figure."""
    return {
        name: statistics.median(each[name] for each in several) for name in several[0]
    }


def start(
    folder: Path, stack: contextlib.ExitStack, command: list[str], name: str
) -> sample.Running:
    """Start a process that takes its port as the last argument."""
    port = machine.find_free_port()
    command = [*command, str(port)]
    running = start_anywhere(command, port, folder / f"{name}.log")
    stack.callback(sample.stop, running)
    return running


def start_sidecar(
    folder: Path,
    stack: contextlib.ExitStack,
    what: tuple[int, int],
    *,
    is_exported: bool,
) -> sample.Running:
    """Start a sidecar that observes: the upstream's port, the number of workers."""
    upstream, count = what
    own = folder / str(count)
    own.mkdir()
    ports = subjects.Ports(machine.find_free_port(), machine.find_free_port(), upstream)
    command = [*subjects.make_observe(own, ports), "--workers", str(count)]
    environ = {**os.environ, "OTEL_SDK_DISABLED": "" if is_exported else "true"}
    running = start_anywhere(command, ports.own, folder / f"{count}.log", environ)
    stack.callback(sample.stop, running)
    return running


def start_anywhere(
    command: list[str], port: int, log: Path, environ: Mapping[str, str] | None = None
) -> sample.Running:
    """Start a process on no particular core and wait until it listens."""
    with log.open("wb") as output:
        process = subprocess.Popen(
            command, stdout=output, stderr=subprocess.STDOUT, env=environ
        )
    if not machine.wait_for_port(port, seconds=30):
        process.kill()
        raise RuntimeError(f"{log.stem} does not listen: {log.read_text()[-600:]}")
    return sample.Running(log.stem, process, port)


def take(subject: sample.Running, cell: Cell, folder: Path) -> Figures:
    """Run one cell and return its throughput and the CPU of keeper and workers."""
    numbers = (cell.concurrency, cell.talks, cell.primed, cell.steps, MAX_SECONDS)
    command = [str(folder / "load"), str(subject.port)]
    command += [str(folder / f"{cell.size}.template"), *map(str, numbers)]
    pid = subject.process.pid
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as load:
        if load.stdin is None or load.stdout is None:
            raise RuntimeError("load generator has no pipes")
        load.stdout.readline()
        whole, keeper = machine.read_cpu_seconds(pid), read_own_cpu_seconds(pid)
        load.stdin.write("\n")
        load.stdin.flush()
        figures: Figures = json.loads(load.stdout.readline())
    whole = machine.read_cpu_seconds(pid) - whole
    keeper = read_own_cpu_seconds(pid) - keeper
    requests = figures["requests"] - figures["bad_status"]
    return {
        "requests_per_second": requests / figures["wall_seconds"],
        "whole_us": whole / requests * 1e6,
        "keeper_us": keeper / requests * 1e6,
    }


def read_own_cpu_seconds(pid: int) -> float:
    """Return the CPU time of this process alone, without its children."""
    threads = Path(f"/proc/{pid}/task").glob("*/schedstat")
    return sum(int(thread.read_text().split()[0]) for thread in threads) / 1e9


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench.workers")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--workers", default="1,2")
    parser.add_argument("--without-otlp", action="store_true")
    arguments = parser.parse_args()
    counts = [int(count) for count in arguments.workers.split(",")]
    with tempfile.TemporaryDirectory(prefix="deuz-workers-") as name:
        found = compare(
            Path(name),
            counts,
            arguments.rounds,
            is_exported=not arguments.without_otlp,
        )
    print(f"{os.cpu_count()} cores for everything, load and upstream included")
    for (cell, count), figures in found.items():
        first = found[cell, counts[0]]["requests_per_second"]
        keeper = f", keeper {figures['keeper_us']:.0f}" if count > 1 else ""
        print(
            f"{cell:<16}{count} workers {figures['requests_per_second']:7.0f}/s, "
            f"ratio {figures['requests_per_second'] / first:.2f}, "
            f"CPU a request {figures['whole_us']:.0f} us{keeper}"
        )


if __name__ == "__main__":
    main()
