"""Other gateways beside the sidecar, in one run: what a request costs in each.

Rules:
- Peers are installed by hand, each in a folder of its own below one: how, says
  docs/performance.md. Those that are not there are left out.
- Each is run as its makers advise for production: one worker, no log of requests, no
  database, no cache of answers. What must be known to reach the upstream is given.
- Cells are small: the slowest of them does some twenty requests a second.
- Streams are asked of an upstream that always streams: some gateways drop the header
  that asks for one.

Usage: python -m tests.bench.peers FOLDER [--rounds N]
"""

import argparse
import contextlib
import json
import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from tests.bench import __main__ as bench
from tests.bench import machine, report, sample, subjects
from tests.bench.cells import BURST_EVENTS, Cell, make_burst
from tests.bench.subjects import Ports

KEY = "bench"  # What the load sends.
START_SECONDS = 120

CELLS = (
    Cell("2k c64", "2k", 64, 64, 0, 6),
    Cell("100k known c64", "100k", 64, 64, 1, 3),
    Cell("1m known c16", "1m", 16, 16, 1, 2),
)
BURST = make_burst(1)

Command = Callable[[Path, Path, Ports], list[str]]


@dataclass(frozen=True, slots=True)
class Peer:
    """A gateway: its command, given where it is installed and a folder of the run.

    `headers` are lines that the load sends with each request; `{upstream}` is a port.
    """

    name: str
    program: str
    command: Command
    environment: Callable[[Path, Path], Mapping[str, str]] = lambda _home, _own: {}
    headers: tuple[str, ...] = ()


def make_litellm(program: Path, own: Path, ports: Ports) -> list[str]:
    """Return the command of LiteLLM's proxy with one model and one worker."""
    base = f"http://127.0.0.1:{ports.upstream}/v1"
    parameters = {"model": "openai/bench", "api_base": base, "api_key": KEY}
    config = {
        "model_list": [{"model_name": "bench", "litellm_params": parameters}],
        "litellm_settings": {"num_retries": 0, "drop_params": True, "telemetry": False},
    }
    written = own / "litellm.json"
    written.write_text(json.dumps(config))
    where = ["--host", "127.0.0.1", "--port", str(ports.own)]
    return [str(program), "--config", str(written), *where, "--num_workers", "1"]


def make_portkey(program: Path, _own: Path, ports: Ports) -> list[str]:
    """Return the command of Portkey's gateway without its console."""
    return ["node", str(program), f"--port={ports.own}", "--headless"]


def make_headroom(program: Path, _own: Path, ports: Ports) -> list[str]:
    """Return the command of Headroom's proxy with its optimisation off."""
    where = ["--host", "127.0.0.1", "--port", str(ports.own)]
    url = f"http://127.0.0.1:{ports.upstream}"
    flags = ["--no-cache", "--no-rate-limit", "--no-optimize"]
    return [str(program), "proxy", *where, "--openai-api-url", url, *flags]


def make_vllm_router(program: Path, _own: Path, ports: Ports) -> list[str]:
    """Return the command of vLLM's router with one worker behind it."""
    where = ["--host", "127.0.0.1", "--port", str(ports.own)]
    worker = f"http://127.0.0.1:{ports.upstream}"
    flags = ["--policy", "round_robin", "--log-level", "error"]
    size = ["--max-payload-size", str(64 << 20)]
    return [str(program), *where, "--worker-urls", worker, *flags, *size]


def litellm_environment(program: Path, own: Path) -> Mapping[str, str]:
    """Return LiteLLM's environment: production, nothing fetched from the network."""
    return {
        "LITELLM_MASTER_KEY": KEY,
        "LITELLM_DANGEROUSLY_PERMIT_WEAK_OR_UNSET_MASTER_KEY": "True",
        "LITELLM_LOG": "ERROR",
        "LITELLM_MODE": "PRODUCTION",
        "LITELLM_LOCAL_MODEL_COST_MAP": "True",
        "LITELLM_LOCAL_ANTHROPIC_BETA_HEADERS": "True",
        "LITELLM_LOCAL_POLICY_TEMPLATES": "True",
        "LITELLM_LOCAL_BLOG_POSTS": "True",
        "NO_DOCS": "True",
        "HOME": str(own),
        "PATH": f"{program.parent}{os.pathsep}{os.environ['PATH']}",
    }


def headroom_environment(program: Path, own: Path) -> Mapping[str, str]:
    """Return Headroom's environment: encodings from its own packages, no telemetry."""
    packages = program.parent.parent.glob("lib/python*/site-packages")
    tokenizers = "litellm/litellm_core_utils/tokenizers"
    return {
        "TIKTOKEN_CACHE_DIR": str(next(packages) / tokenizers),
        "HOME": str(own),
        "HEADROOM_WORKSPACE_DIR": str(own),
        "HEADROOM_TELEMETRY": "off",
        "HEADROOM_BINARIES_OFFLINE": "1",
        "HF_HUB_OFFLINE": "1",
    }


PORTKEY = "portkey/node_modules/@portkey-ai/gateway/build/start-server.js"
PEERS = (
    Peer("vllm-router", "vllmr/bin/vllm-router", make_vllm_router),
    Peer("litellm", "litellm/bin/litellm", make_litellm, litellm_environment),
    Peer(
        "portkey",
        PORTKEY,
        make_portkey,
        lambda _home, _own: {"NODE_ENV": "production"},
        (
            "x-portkey-provider: openai",
            "x-portkey-custom-host: http://127.0.0.1:{upstream}/v1",
        ),
    ),
    Peer("headroom", "headroom/bin/headroom", make_headroom, headroom_environment),
)


@dataclass(frozen=True, slots=True)
class Started:
    """What runs, the upstream first, with the lines each wants, and its start in s."""

    running: list[sample.Running]
    headers: Mapping[str, str]
    start_seconds: Mapping[str, float]


def main() -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench.peers")
    parser.add_argument("folder", type=Path, help="where the peers are installed")
    parser.add_argument("--rounds", type=int, default=3)
    arguments = parser.parse_args()
    taken: report.Rounds = {}
    start_seconds: Mapping[str, float] = {}
    for cells, stream in ((CELLS, ""), ((BURST,), f"{BURST_EVENTS},0")):
        with tempfile.TemporaryDirectory(prefix="deuz-peers-") as name:
            bench.prepare(Path(name))
            with contextlib.ExitStack() as stack:
                started = start_all(Path(name), arguments.folder, stack, stream)
                start_seconds = started.start_seconds
                taken |= take_all(Path(name), started, cells, rounds=arguments.rounds)
    print(report.format_table(report.summarise(taken)), "", sep="\n")
    for name, seconds in start_seconds.items():
        print(f"{name:<18}listens after {seconds:.1f} s")
    return 0


def start_all(
    folder: Path, home: Path, stack: contextlib.ExitStack, stream: str
) -> Started:
    """Start the upstream and all behind it; `stream` makes every answer a stream."""
    port = machine.find_free_port()
    command = [str(folder / "upstream"), str(port), *([stream] if stream else [])]
    log = folder / "direct.log"
    running = [sample.start(command, port, core=sample.LOAD_CORE, log=log)]
    stack.callback(sample.stop, running[0])
    start_seconds: dict[str, float] = {}
    for name, command, own in (
        *plan_own(folder, port),
        *plan_peers(folder, home, port),
    ):
        begun = time.monotonic()
        log, core = folder / f"{name}.log", sample.SUBJECT_CORE
        item = sample.start(command, own, core=core, log=log, seconds=START_SECONDS)
        stack.callback(sample.stop, item)
        start_seconds[name] = time.monotonic() - begun
        running.append(item)
    headers = {
        peer.name: "".join(f"{line.format(upstream=port)}\r\n" for line in peer.headers)
        for peer in PEERS
    }
    return Started(running, headers, start_seconds)


def plan_own(folder: Path, upstream: int) -> Iterator[tuple[str, list[str], int]]:
    """Yield the name, the command and the port of the floor and of the sidecar."""
    for subject in subjects.SUBJECTS:
        if subject.name in {"aio-floor", "observe"}:
            own, ports = make_place(folder, subject.name, upstream)
            yield subject.name, subject.command(own, ports), ports.own


def plan_peers(
    folder: Path, home: Path, upstream: int
) -> Iterator[tuple[str, list[str], int]]:
    """Yield the same of each peer that is installed; say which are not."""
    for peer in PEERS:
        program = home.resolve() / peer.program
        if not program.exists():
            print(f"{peer.name}: not installed in {home}", file=sys.stderr)
            continue
        own, ports = make_place(folder, peer.name, upstream)
        environment = peer.environment(program, own)
        settings = [f"{name}={value}" for name, value in environment.items()]
        yield (
            peer.name,
            ["env", *settings, *peer.command(program, own, ports)],
            ports.own,
        )


def make_place(folder: Path, name: str, upstream: int) -> tuple[Path, Ports]:
    """Return a new folder and free ports for one subject."""
    own = folder / name
    own.mkdir()
    return own, Ports(machine.find_free_port(), machine.find_free_port(), upstream)


def take_all(
    folder: Path, started: Started, cells: tuple[Cell, ...], *, rounds: int
) -> report.Rounds:
    """Take every cell of every subject, round after round."""
    running = started.running
    taken: report.Rounds = {
        cell.name: {item.name: [] for item in running} for cell in cells
    }
    for number in range(rounds):
        for cell in cells:
            print(f"round {number + 1}: {cell.name}", file=sys.stderr, flush=True)
            for item in running:
                headers = started.headers.get(item.name, "")
                figures = sample.take(item, running[0], cell, folder, headers=headers)
                taken[cell.name][item.name].append(figures)
    return taken


if __name__ == "__main__":
    sys.exit(main())
