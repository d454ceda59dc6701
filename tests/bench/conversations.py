"""What the sidecar keeps of a conversation that rests, in bytes of its process.

Rules:
- A real sidecar, requests over loopback. Conversations come one after the other; each
  has its requests, and is not heard of again. All share tools and system text.
- Growth is of the process's resident memory, each time after a collection. The first
  conversations are told apart: they fill what is bounded, pools and ring buffers, and
  where each has many entries the ledger, whose table of them grows by doubling.
- Blocks are what the ledger says that it holds; the rest is `beyond` them.
- All of them together are about as many as are known at once: what comes in place of
  others costs nothing. A full ledger grows no more, in neither figure.

Usage: python -m tests.bench.conversations [--short] [--only SHAPE]
"""

import argparse
import contextlib
import gc
import http.client
import re
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.bench import bodies, machine, sample, subjects

from deuz_proxy.cli import main as run_sidecar

_FIRST, _MORE = 3_500, 2_500
_FIRST_SHORT, _MORE_SHORT = 100, 100
_SLOT = bodies.SLOT.encode()
_LEDGER_BYTES = re.compile(r"^deuz_ledger_bytes(?:{[^}]*})? (\S+)$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Shape:
    """How a conversation begins and goes on, and how many requests it has."""

    name: str
    template: bytes
    requests: int


@dataclass(frozen=True, slots=True)
class Growth:
    """Bytes that one conversation takes, of the first ones and of those behind them."""

    shape: str
    mode: str
    body_bytes: int
    first_bytes: float
    more_bytes: float
    block_bytes: float

    @property
    def beyond_bytes(self) -> float:
        """What one of the later conversations takes beside its blocks."""
        return self.more_bytes - self.block_bytes


@dataclass(frozen=True, slots=True)
class Reading:
    """Bytes in use, and those of them that the ledger holds."""

    resident: float
    ledger: float


def list_shapes() -> tuple[Shape, ...]:
    """Return what is measured: short and long bodies, two and twelve requests."""
    return (
        Shape("2 KB", bodies.make_template("2k"), 2),
        Shape("2 KB, 12 requests", bodies.make_placed("2k"), 12),
        Shape("100 KB", bodies.make_template("100k"), 2),
        Shape("100 KB, 12 requests", bodies.make_placed("100k"), 12),
        Shape("100 KB, 210 turns", bodies.make_template("100k-calls"), 2),
    )


MODES: dict[str, Callable[[Path, subjects.Ports], list[str]]] = {
    "observe": subjects.make_observe,
    "compile": subjects.make_compile_unclocked,
}


def measure(shapes: Sequence[Shape], *, first: int, more: int) -> Iterator[Growth]:
    """Measure each shape in each mode, in a process of its own."""
    with tempfile.TemporaryDirectory(prefix="deuz-conversations-") as name:
        folder = Path(name)
        subjects.build_native(folder)
        port = machine.find_free_port()
        command = [str(folder / "upstream"), str(port)]
        log = folder / "direct.log"
        upstream = sample.start(command, port, core=sample.LOAD_CORE, log=log)
        try:
            for number, shape in enumerate(shapes):
                for mode in MODES:
                    own = folder / f"{mode}-{number}"
                    own.mkdir()
                    with Sidecar(own, mode, upstream=port) as sidecar:
                        yield _growth(sidecar, shape, first=first, more=more)
        finally:
            sample.stop(upstream)


def _growth(sidecar: "Sidecar", shape: Shape, *, first: int, more: int) -> Growth:
    # What is loaded or made at the first request of all is no conversation's.
    size = sidecar.talk(shape, range(20))
    readings = [sidecar.read()]
    for numbers in (range(20, 20 + first), range(20 + first, 20 + first + more)):
        sidecar.talk(shape, numbers)
        readings.append(sidecar.read())
    start, middle, end = readings
    return Growth(
        shape.name,
        sidecar.mode,
        size,
        (middle.resident - start.resident) / first,
        (end.resident - middle.resident) / more,
        (end.ledger - middle.ledger) / more,
    )


class Sidecar:
    """A sidecar that runs while the block does, and collects when it is asked to."""

    def __init__(self, folder: Path, mode: str, *, upstream: int) -> None:
        self.mode = mode
        ports = subjects.Ports(
            machine.find_free_port(), machine.find_free_port(), upstream
        )
        *_, config = MODES[mode](folder, ports)
        self._command = [sys.executable, "-m", __spec__.name, "serve", config]
        self._log = folder / "sidecar.log"
        self._ports = ports

    def __enter__(self) -> "Sidecar":
        """Start it."""
        with self._log.open("wb") as said:
            self._process = subprocess.Popen(
                self._command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=said,
                text=True,
            )
        if not machine.wait_for_port(self._ports.own, seconds=sample.START_SECONDS):
            self.__exit__()
            raise RuntimeError(f"it does not listen: {self._log.read_text()[-600:]}")
        self._client = http.client.HTTPConnection("127.0.0.1", self._ports.own)
        return self

    def __exit__(self, *_: object) -> None:
        """Stop it."""
        self._process.terminate()
        self._process.communicate(timeout=30)

    def talk(self, shape: Shape, numbers: range) -> int:
        """Have one conversation for each number; return the last body's length.

        Raises:
            RuntimeError: a request was not answered well.
        """
        opening, *steps, close = shape.template.split(b"\0")
        size = 0
        for number in numbers:
            history = _filled(opening, number << 8)
            for at in range(shape.requests):
                step = steps[min(at, len(steps) - 1)]
                history += _filled(step, (number << 8) + at + 1)
                size = self._ask(history + close)
        return size

    def _ask(self, body: bytes) -> int:
        headers = {
            "authorization": "Bearer bench",
            "content-type": "application/json",
        }
        self._client.request("POST", "/v1/chat/completions", body, headers)
        answer = self._client.getresponse()
        answer.read()
        if answer.status != http.client.OK:
            raise RuntimeError(f"answered with {answer.status}")
        return len(body)

    def read(self) -> Reading:
        """Return what is in use once nothing is left that is to be thrown away."""
        admin = http.client.HTTPConnection("127.0.0.1", self._ports.admin)
        with contextlib.closing(admin):
            admin.request("GET", "/metrics")
            told = _LEDGER_BYTES.search(admin.getresponse().read().decode())
        if self._process.stdin is None or self._process.stdout is None:
            raise RuntimeError("the sidecar has no pipes")
        self._process.stdin.write("collect\n")
        self._process.stdin.flush()
        while self._process.stdout.readline() != "collected\n":
            pass
        resident = machine.read_memory_mib(self._process.pid, "VmRSS") * 2**20
        return Reading(resident, float(told[1]) if told else 0.0)


def _filled(part: bytes, number: int) -> bytes:
    return part.replace(_SLOT, b"%016x" % number)


def serve(config: str) -> int:
    """Be a sidecar that collects for each line that it reads."""
    threading.Thread(target=_collect_when_asked, daemon=True).start()
    return run_sidecar(["run", "--config", config])


def _collect_when_asked() -> None:
    for _ in sys.stdin:
        gc.collect()
        print("collected", flush=True)


def format_growths(growths: Sequence[Growth]) -> str:
    """Return the table that is printed."""
    titles = ("body", "first", "then", "blocks", "beyond")
    lines = [f"{'bytes a conversation':<30}" + "".join(f"{t:>10}" for t in titles)]
    for each in growths:
        figures = (
            each.body_bytes,
            each.first_bytes,
            each.more_bytes,
            each.block_bytes,
            each.beyond_bytes,
        )
        values = "".join(f"{figure:>10,.0f}" for figure in figures)
        lines.append(f"{each.shape:<22}{each.mode:<8}{values}")
    return "\n".join(lines)


def main() -> int:
    """Measure and print, or be the sidecar that is measured."""
    if sys.argv[1:2] == ["serve"]:
        return serve(sys.argv[2])
    parser = argparse.ArgumentParser(prog="python -m tests.bench.conversations")
    parser.add_argument("--short", action="store_true", help="few of each, seconds")
    shapes = {shape.name: shape for shape in list_shapes()}
    parser.add_argument("--only", choices=shapes, help="one shape")
    asked = parser.parse_args()
    first, more = (_FIRST_SHORT, _MORE_SHORT) if asked.short else (_FIRST, _MORE)
    chosen = [shapes[asked.only]] if asked.only else list(shapes.values())
    print(format_growths(list(measure(chosen, first=first, more=more))))
    return 0


if __name__ == "__main__":
    sys.exit(main())
