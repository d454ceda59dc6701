"""A collector that never answers holds up no request, nor the process's end."""

import asyncio
import json
import os
import signal
import socket
from pathlib import Path

import pytest

from deuz_testing.bodies import anthropic_body, user
from deuz_testing.raw_client import post, raw_client
from deuz_testing.sidecar_process import running_sidecar
from deuz_testing.upstreams import raw_upstream
from deuz_testing.waiting import WAIT_SECONDS

pytestmark = pytest.mark.e2e

BODY = anthropic_body([user("hi")])
CLIENTS, REQUESTS = 10, 40
# Who waits for an export waits far longer than any test does; and more is told than
# may wait to be sent.
PATIENT = {
    "OTEL_EXPORTER_OTLP_TIMEOUT": "600",
    "OTEL_BSP_SCHEDULE_DELAY": "20",
    "OTEL_BSP_MAX_QUEUE_SIZE": "100",
    "OTEL_BSP_MAX_EXPORT_BATCH_SIZE": "10",
}


async def ask_on(url: str, count: int) -> None:
    async with raw_client(url) as client:
        for _ in range(count):
            await client.send(post("/v1/messages", BODY))
            assert (await client.read_answer()).status == 200


async def test_a_black_hole_for_telemetry_holds_up_no_request_and_no_end(
    tmp_path: Path,
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        silent.settimeout(WAIT_SECONDS)
        async with raw_upstream() as upstream:
            config = {
                "upstreams": {"anthropic": {"url": upstream.url, "wire": "anthropic"}},
                "routes": [{"path": "/v1/messages", "mode": "observe"}],
                "telemetry": {
                    "otlp": {"endpoint": f"http://127.0.0.1:{silent.getsockname()[1]}"}
                },
            }
            environ = {**os.environ, **PATIENT}
            with running_sidecar(tmp_path, json.dumps(config), environ) as side:
                await ask_on(side.url, 1)
                export, _ = await asyncio.to_thread(silent.accept)
                await asyncio.gather(
                    *(ask_on(side.url, REQUESTS) for _ in range(CLIENTS))
                )
                side.process.send_signal(signal.SIGTERM)
                code = await asyncio.to_thread(side.process.wait, WAIT_SECONDS)
                export.close()

    assert code == 0
    assert len(upstream.requests) == 1 + CLIENTS * REQUESTS
