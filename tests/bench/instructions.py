"""Instructions a request, counted by valgrind: a figure that no load disturbs.

Rules:
- Two runs that differ in nothing but the number of requests: what start and end cost is
  in both, and falls out of the difference.
- Instructions in user space only: the kernel's part and waiting for memory are not in
  it, so that a ratio of these is not a ratio of CPU time.
- Bytes are copied in steps of vectors. The one instruction that copies any number of
  them is counted once for each byte, and who copies most would look dearest.
- Nothing that a clock starts is counted, where it can be helped: at `placed`, what is
  placed stands in the config. What looking at a folder costs is in the other figures.

Usage: python -m tests.bench.instructions SUBJECT SIZE first|known|placed
  as in: python -m tests.bench.instructions observe 2k first
"""

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.bench import bodies, machine, sample, subjects
from tests.bench.__main__ import prepare
from tests.bench.cells import Cell

# Of each conversation: enough that what grows with the first ones has grown.
_STEPS = 6, 56
# Of twice as many that start at their full size and grow.
_PLACED_STEPS = 4, 29
# Requests of each conversation that come before those.
_PRIMED = {"first": 0, "known": 1, "placed": bodies.PLACED_STEPS}
_TALKS = {"2k": 8, "100k": 8, "1m": 2}
# Fifty times as slow as without valgrind.
_START_SECONDS, _LOAD_SECONDS, _END_SECONDS = 400, 400, 60
_VECTORS = "glibc.cpu.x86_rep_movsb_threshold=0x40000000"
_COUNTED = re.compile(r"I\s+refs:\s+([\d,]+)")


def main() -> int:
    """Count, and print one line."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench.instructions")
    known = {each.name: each for each in subjects.SUBJECTS if each.name != "nginx"}
    parser.add_argument("subject", choices=known)
    parser.add_argument("size", choices=_TALKS)
    parser.add_argument("sight", choices=_PRIMED)
    asked = parser.parse_args()
    subject = known[asked.subject]
    if subject.name == "compile" and asked.sight == "placed":
        subject = subjects.Subject(subject.name, subjects.make_compile_unclocked)
    few, many = (
        count(subject, asked.size, steps=steps, sight=asked.sight)
        for steps in (_PLACED_STEPS if asked.sight == "placed" else _STEPS)
    )
    print(f"{per_request(few, many) / 1e3:,.1f} thousand instructions a request")
    return 0


def per_request(few: tuple[int, int], many: tuple[int, int]) -> float:
    """Return what one more request costs; both are requests and instructions."""
    return (many[1] - few[1]) / (many[0] - few[0])


def count(
    subject: subjects.Subject, size: str, *, steps: int, sight: str
) -> tuple[int, int]:
    """Return requests and instructions of one run of the subject.

    Raises:
        FileNotFoundError: valgrind or gcc is not installed.
        RuntimeError: the subject did not start, or a request failed.
    """
    with tempfile.TemporaryDirectory(prefix="deuz-instructions-") as name:
        folder = Path(name)
        prepare(folder)
        port = machine.find_free_port()
        command = [str(folder / "upstream"), str(port)]
        upstream = sample.start(
            command, port, core=sample.LOAD_CORE, log=folder / "direct.log"
        )
        try:
            own, admin = machine.find_free_port(), machine.find_free_port()
            ports = subjects.Ports(own=own, admin=admin, upstream=port)
            return _counted(subject, ports, folder, (size, steps, sight))
        finally:
            sample.stop(upstream)


def _counted(
    subject: subjects.Subject,
    ports: subjects.Ports,
    folder: Path,
    asked: tuple[str, int, str],
) -> tuple[int, int]:
    log, output = folder / "valgrind.log", folder / "subject.log"
    command = ["valgrind", "--tool=cachegrind", "--cache-sim=no"]
    command += ["--cachegrind-out-file=/dev/null", f"--log-file={log}"]
    with output.open("wb") as said:
        # One order of all sets and dicts of names: else each run differs.
        process = subprocess.Popen(
            [*command, *subject.command(folder, ports)],
            stdin=subprocess.DEVNULL,
            stdout=said,
            stderr=subprocess.STDOUT,
            env={**os.environ, "PYTHONHASHSEED": "0", "GLIBC_TUNABLES": _VECTORS},
        )
    try:
        if not machine.wait_for_port(ports.own, seconds=_START_SECONDS):
            raise RuntimeError(f"it does not listen: {output.read_text()[-600:]}")
        requests = _load(ports.own, folder, *asked)
    finally:
        process.terminate()
        process.wait(_END_SECONDS)
    return requests, read_count(log.read_text())


def _load(port: int, folder: Path, size: str, steps: int, sight: str) -> int:
    is_placed = sight == "placed"
    talks, primed = _TALKS[size] * (1 + is_placed), _PRIMED[sight]
    cell = Cell(sight, size, talks, talks, primed, steps, is_placed=is_placed)
    # Fewer at once: sources answer within their time, at whatever load.
    at_once = min(talks, 4) if is_placed else talks
    numbers = (at_once, talks, primed, steps, _LOAD_SECONDS)
    command = [str(folder / "load"), str(port), str(folder / cell.template)]
    command += [str(number) for number in numbers]
    done = subprocess.run(
        command, check=True, input="\n", capture_output=True, text=True
    )
    figures = json.loads(done.stdout.removeprefix("primed\n"))
    if figures["errors"] or figures["bad_status"]:
        raise RuntimeError(f"requests failed: {figures}")
    return int(figures["requests"])


def read_count(log: str) -> int:
    """Return the instructions that valgrind's log tells at its end.

    Raises:
        RuntimeError: it tells none: the process was not let to end.
    """
    found = _COUNTED.findall(log)
    if not found:
        raise RuntimeError(f"no count in valgrind's log: {log[-600:]}")
    return int(found[-1].replace(",", ""))


if __name__ == "__main__":
    sys.exit(main())
