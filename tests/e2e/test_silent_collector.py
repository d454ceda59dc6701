"""A collector that never answers costs no request anything, nor the process's end."""

import asyncio
import json
import signal
import socket
import statistics
import time
from pathlib import Path

import pytest

from deuz_testing.bodies import anthropic_body, user
from deuz_testing.raw_client import post, raw_client
from deuz_testing.sidecar_process import running_sidecar
from deuz_testing.upstreams import raw_upstream

pytestmark = pytest.mark.e2e

BODY = anthropic_body([user("hi")])
CLIENTS, REQUESTS = 10, 40
# Far above what a shared machine adds, far below any timeout of an export.
MOST_TIMES, MOST_MORE_SECONDS = 3.0, 0.05


async def ask_on(url: str, seconds: list[float]) -> None:
    async with raw_client(url) as client:
        for _ in range(REQUESTS):
            start = time.perf_counter()
            await client.send(post("/v1/messages", BODY))
            assert (await client.read_answer()).status == 200
            seconds.append(time.perf_counter() - start)


async def measured(folder: Path, collector: str | None) -> tuple[list[float], float]:
    """Return how long requests took, and how long the process took to end."""
    seconds: list[float] = []
    async with raw_upstream() as upstream:
        config = {
            "upstreams": {"anthropic": {"url": upstream.url, "wire": "anthropic"}},
            "routes": [{"path": "/v1/messages", "mode": "observe"}],
            "telemetry": {"otlp": {"endpoint": collector}},
        }
        with running_sidecar(folder, json.dumps(config)) as side:
            await asyncio.gather(*(ask_on(side.url, seconds) for _ in range(CLIENTS)))
            start = time.perf_counter()
            side.process.send_signal(signal.SIGTERM)
            await asyncio.to_thread(side.process.wait, 20)
            return seconds, time.perf_counter() - start


async def test_a_black_hole_for_telemetry_slows_no_request_and_no_end(
    tmp_path: Path,
) -> None:
    for name in ("with", "without"):
        (tmp_path / name).mkdir()
    with socket.create_server(("127.0.0.1", 0)) as silent:
        at = f"http://127.0.0.1:{silent.getsockname()[1]}"
        with_it, ending_seconds = await measured(tmp_path / "with", at)
        silent.settimeout(1)
        # It was really asked.
        silent.accept()[0].close()
    without, _ = await measured(tmp_path / "without", None)

    assert len(with_it) == len(without) == CLIENTS * REQUESTS
    for share in (statistics.median, max):
        most = share(without) * MOST_TIMES + MOST_MORE_SECONDS
        assert share(with_it) < most
    # The default grace for telemetry is 3 seconds; nothing was in flight.
    assert ending_seconds < 8
