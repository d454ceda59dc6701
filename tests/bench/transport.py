"""The relay's own HTTP/1.1 halves against aiohttp's, both as bare pass-throughs.

Rules:
- Neither does anything but forward: what differs is the transport alone.
- Rounds are interleaved, and each figure is a median of the rounds.

Usage: python -m tests.bench.transport [--rounds N]
"""

import argparse
import asyncio
import contextlib
import statistics
import sys
import tempfile
from pathlib import Path

import uvloop
from tests.bench import machine, sample
from tests.bench.__main__ import prepare
from tests.bench.cells import list_cells

from deuz_proxy.edge.http1_call import Http1Client, Http1Incoming
from deuz_proxy.edge.http1_server import make_http1_server
from deuz_proxy.edge.http1_upstreams import Http1Upstreams

SUBJECTS = {"floor": "tests.bench.floor", "own": "tests.bench.transport"}
CELLS = ("2k c64", "100k first c64", "1m first c64", "64 streams")
LIMIT_BYTES = 2**26


async def forward_all(listen_port: int, upstream_port: int) -> None:
    """Forward everything to the upstream until the process ends."""
    base = f"http://127.0.0.1:{upstream_port}"
    upstreams = await Http1Upstreams(connect_seconds=10, idle_seconds=3600).open()

    async def forward(incoming: Http1Incoming, client: Http1Client) -> None:
        has_body = incoming.has_body
        reply = await upstreams.send(
            method=incoming.method,
            base=base,
            path=incoming.target,
            headers=incoming.headers,
            body=await incoming.read_body(limit_bytes=LIMIT_BYTES)
            if has_body
            else None,
        )
        try:
            client.start(reply.status, reply.reason, reply.headers)
            async for chunk in reply.chunks():
                client.write(chunk)
                await client.drain()
            client.finish()
        finally:
            reply.close()

    server = await make_http1_server(forward)
    await server.listen("127.0.0.1", listen_port)
    await asyncio.Event().wait()


def compare(folder: Path, *, rounds: int) -> dict[str, dict[str, float]]:
    """Return the CPU of a request in milliseconds, for each cell and subject."""
    prepare(folder)
    port = machine.find_free_port()
    cells = [cell for cell in list_cells(primed=0, scale=0.5) if cell.name in CELLS]
    taken: dict[str, dict[str, list[float]]] = {
        cell.name: {name: [] for name in SUBJECTS} for cell in cells
    }
    with contextlib.ExitStack() as stack:
        command = [str(folder / "upstream"), str(port)]
        log = folder / "upstream.log"
        upstream = sample.start(command, port, core=sample.LOAD_CORE, log=log)
        stack.callback(sample.stop, upstream)
        running = {}
        for name, module in SUBJECTS.items():
            own = machine.find_free_port()
            command = [sys.executable, "-m", module, str(own), str(port)]
            log = folder / f"{name}.log"
            running[name] = sample.start(
                command, own, core=sample.SUBJECT_CORE, log=log
            )
            stack.callback(sample.stop, running[name])
        for _ in range(rounds):
            for cell in cells:
                for name, subject in running.items():
                    figures = sample.take(subject, upstream, cell, folder)
                    taken[cell.name][name].append(figures["cpu_ms_per_request"])
    return {
        cell: {name: statistics.median(several) for name, several in each.items()}
        for cell, each in taken.items()
    }


def main() -> None:
    """Measure and print, or, with two ports, be the pass-through."""
    if len(sys.argv) == 3 and sys.argv[1].isdigit():
        uvloop.run(forward_all(int(sys.argv[1]), int(sys.argv[2])))
        return
    parser = argparse.ArgumentParser(prog="python -m tests.bench.transport")
    parser.add_argument("--rounds", type=int, default=5)
    rounds = parser.parse_args().rounds
    with tempfile.TemporaryDirectory(prefix="deuz-transport-") as name:
        figures = compare(Path(name), rounds=rounds)
    for cell, by_subject in figures.items():
        ratio = by_subject["own"] / by_subject["floor"]
        shown = "  ".join(f"{name} {ms:.3f}" for name, ms in by_subject.items())
        print(f"{cell:<16}{shown}  ms CPU a request, ratio {ratio:.2f}")


if __name__ == "__main__":
    main()
