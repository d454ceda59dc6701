"""Side by side in one run: direct, nginx, the aiohttp floor, the sidecar in two modes.

Then the compiler alone, beside sorting by score (`compiler.py`), and what it costs to
put blocks back with each ledger (`stores.py`).

Rules:
- Rounds are interleaved: for each workload every subject once, in a shuffled order.
- A process is faster or slower than another of the same program, by where its memory
  lies: what differs by less than a tenth is told by several of each (`--processes`).
- The printed table and the JSON come from the same medians.

Usage: python -m tests.bench [--short] [--rounds N] [--processes N] [--cells START]
                             [--only NAMES] [--out FILE]
"""

import argparse
import compileall
import contextlib
import json
import random
import statistics
import sys
import tempfile
import time
from dataclasses import asdict, dataclass
from pathlib import Path

from tests.bench import (
    bodies,
    compiler,
    machine,
    report,
    sample,
    stores,
    subjects,
)
from tests.bench.cells import Cell, list_cells

ROOT = Path(__file__).resolve().parents[2]
FOREIGN_CORES = 0.3  # Above it, other programs are part of what was measured.
SHORTEST_SECONDS = 0.2  # The machine's busy time comes in steps of 10 ms a core.


@dataclass(frozen=True, slots=True)
class Result:
    """All of one run, as it is written to the JSON file."""

    summary: report.Summary
    idle_mib: dict[str, float]
    start_seconds: dict[str, float]
    failed: list[str]
    foreign_cores: float
    rounds: report.Rounds


def main() -> int:
    """Measure, print the table, write the JSON; 1 when a sample failed."""
    arguments = read_arguments()
    scale, primed = (0.25, 3) if arguments.short else (1.0, 10)
    rounds = arguments.rounds or (1 if arguments.short else 3)
    wanted = list_cells(primed=primed, scale=scale)
    cells = [cell for cell in wanted if cell.name.startswith(arguments.cells)]
    only = [name for name in arguments.only.split(",") if name]
    is_whole = not only and not arguments.cells
    timings = compiler.measure(is_short=arguments.short) if is_whole else ()
    ledgers = stores.measure(is_short=arguments.short) if is_whole else ()
    with tempfile.TemporaryDirectory(prefix="deuz-bench-") as name:
        prepare(Path(name))
        result = measure(
            Path(name), cells, rounds=rounds, only=only, processes=arguments.processes
        )
    print(report.format_table(result.summary))
    if timings:
        print("", compiler.format_timings(timings), "", sep="\n")
    if ledgers:
        print(stores.format_timings(ledgers))
    print(describe_run(result))
    if arguments.out:
        arguments.out.parent.mkdir(parents=True, exist_ok=True)
        written = {
            **asdict(result),
            "compiler": [asdict(item) for item in timings],
            "stores": [asdict(item) for item in ledgers],
        }
        arguments.out.write_text(json.dumps(written, indent=1) + "\n")
    return 1 if result.failed else 0


def read_arguments() -> argparse.Namespace:
    """Return the command line's choices."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench")
    parser.add_argument("--short", action="store_true", help="under two minutes")
    parser.add_argument("--rounds", type=int, default=0, help="3, or 1 with --short")
    parser.add_argument(
        "--processes", type=int, default=1, help="of each subject, one after another"
    )
    parser.add_argument("--only", default="", help="subjects, separated by commas")
    parser.add_argument("--cells", default="", help="cells whose name starts with this")
    parser.add_argument("--out", type=Path, help="JSON file to write")
    return parser.parse_args()


def prepare(folder: Path) -> None:
    """Compile the programs and write the bodies."""
    subjects.build_native(folder)
    # As pip does when it installs: where Python is told to write no bytecode, every
    # start of an editable install would compile it again.
    for code in ("compiler", "proxy", "tests/bench"):
        compileall.compile_dir(ROOT / code, quiet=2)
    for size in bodies.HISTORIES:
        template = bodies.make_template(size)
        (folder / f"{size}.template").write_bytes(template)
        placed = bodies.make_placed(size)
        (folder / f"{size}-placed.template").write_bytes(placed)
        for name, body in ((size, template), (f"{size}-placed", placed)):
            streamed = bodies.make_streamed(body)
            (folder / f"{name}-stream.template").write_bytes(streamed)


def measure(
    folder: Path, cells: list[Cell], *, rounds: int, only: list[str], processes: int = 1
) -> Result:
    """Start everything, take the samples, stop everything; that for each process."""
    taken: report.Rounds = {cell.name: {} for cell in cells}
    start_seconds: dict[str, float] = {}
    idle_mib: dict[str, float] = {}
    for number in range(processes):
        with contextlib.ExitStack() as stack:
            own = Path(stack.enter_context(tempfile.TemporaryDirectory(dir=folder)))
            running = start_all(folder, own, stack, only, start_seconds)
            idle_mib = {
                item.name: machine.read_memory_mib(item.process.pid, "VmRSS")
                for item in running[1:]
            }
            rng = random.Random(number)
            take_rounds(folder, cells, running, taken, rounds=rounds, rng=rng)
    samples = [
        (f"{cell}: {name}", figures)
        for cell, by_subject in taken.items()
        for name, several in by_subject.items()
        for figures in several
    ]
    return Result(
        summary=report.summarise(taken),
        idle_mib=idle_mib,
        start_seconds=start_seconds,
        failed=[name for name, figures in samples if "failed" in figures],
        foreign_cores=median_foreign_cores([figures for _, figures in samples]),
        rounds=taken,
    )


def start_all(
    folder: Path,
    logs: Path,
    stack: contextlib.ExitStack,
    only: list[str],
    start_seconds: dict[str, float],
) -> list[sample.Running]:
    """Start the upstream, as `direct`, and the wanted subjects behind it.

    What was prepared is in `folder`, what they write goes to `logs`.
    """
    port = machine.find_free_port()
    command = [str(folder / "upstream"), str(port)]
    log = logs / "direct.log"
    running = [sample.start(command, port, core=sample.LOAD_CORE, log=log)]
    stack.callback(sample.stop, running[0])
    for subject in subjects.list_available():
        if only and subject.name not in only:
            continue
        own = logs / subject.name
        own.mkdir()
        ports = subjects.Ports(
            own=machine.find_free_port(), admin=machine.find_free_port(), upstream=port
        )
        begun = time.monotonic()
        command = subject.command(own, ports)
        log = logs / f"{subject.name}.log"
        running.append(
            sample.start(command, ports.own, core=sample.SUBJECT_CORE, log=log)
        )
        start_seconds[subject.name] = time.monotonic() - begun
        stack.callback(sample.stop, running[-1])
    return running


def take_rounds(
    folder: Path,
    cells: list[Cell],
    running: list[sample.Running],
    taken: report.Rounds,
    *,
    rounds: int,
    rng: random.Random,
) -> None:
    """Take every cell of every subject, round after round, in a shuffled order."""
    for number in range(rounds):
        for cell in cells:
            print(f"round {number + 1}: {cell.name}", file=sys.stderr, flush=True)
            for item in rng.sample(running, len(running)):
                figures = sample.take(item, running[0], cell, folder)
                taken[cell.name].setdefault(item.name, []).append(figures)


def median_foreign_cores(samples: list[sample.Figures]) -> float:
    """Return what other programs used; short samples are below the clock's step."""
    known = [
        figures["foreign_cores"]
        for figures in samples
        if figures.get("wall_seconds", 0.0) > SHORTEST_SECONDS
    ]
    return statistics.median(known) if known else 0.0


def describe_run(result: Result) -> str:
    """Return what the table does not show: idle memory, start, and doubts."""
    lines = [""]
    for name, mib in result.idle_mib.items():
        seconds = result.start_seconds[name]
        lines.append(f"{name:<18}idle {mib:.0f} MiB, listens after {seconds:.1f} s")
    if result.foreign_cores > FOREIGN_CORES:
        lines.append(
            f"other programs used {result.foreign_cores:.1f} cores: "
            "trust the CPU figures, not the rates"
        )
    lines += [f"failed: {name}" for name in result.failed]
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())
