"""Starts the real sidecar inside the test's process and reads what it tells.

Rules:
- In the test's own event loop, or in a thread for clients that block; as a process of
  its own it is started by `sidecar_process`.
- What it says of its requests is read from its admin address, as a user would.
- Ports are free ones; the built-in upstreams are never reached.
"""

import asyncio
import contextlib
import json
import threading
import time
import urllib.request
from collections.abc import AsyncIterator, Coroutine, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from prometheus_client.parser import text_string_to_metric_families

from deuz_proxy.app import App, Settings, running_app
from deuz_testing.loops import PlainLoop
from deuz_testing.waiting import WAIT_SECONDS

Json = dict[str, Any]
T = TypeVar("T")

ROUTES = (
    "/v1/messages",
    "/v1/chat/completions",
    "/v1/responses",
    "/api/*",
)
_UPSTREAMS = ("anthropic", "openai", "gemini", "ollama")
_MOST_REQUESTS = 500


@dataclass(frozen=True, slots=True)
class Sidecar:
    """A running sidecar: where it answers, and what it tells there."""

    url: str
    admin: str

    def told(self, count: int) -> list[Json]:
        """Return what it tells of its requests, oldest first, once there are so many.

        A request is told of when it is over, a moment after the client has its answer.
        """
        deadline = time.monotonic() + WAIT_SECONDS
        told: list[Json] = []
        while len(told) < count:
            assert time.monotonic() < deadline, f"{len(told)} of {count} told"
            page = self._read(f"/api/v1/requests?limit={_MOST_REQUESTS}")
            told = list(reversed(json.loads(page)["requests"]))
        return told

    def told_in_full(self, request_id: str) -> Json:
        """Return all that it tells of one request."""
        described: Json = json.loads(self._read(f"/api/v1/requests/{request_id}"))
        return described

    def counted(self, name: str, **labels: str) -> float:
        """Return the sum of a metric's samples that have these labels."""
        text = self._read("/metrics").decode()
        return sum(
            sample.value
            for family in text_string_to_metric_families(text)
            for sample in family.samples
            if sample.name == name and labels.items() <= sample.labels.items()
        )

    def _read(self, path: str) -> bytes:
        with urllib.request.urlopen(self.admin + path, timeout=WAIT_SECONDS) as reply:
            body: bytes = reply.read()
            return body


def sidecar_config(
    provider: str,
    *,
    mode: str = "compile",
    placement: str = "turn",
    sources: Sequence[Mapping[str, object]] = (),
    **sections: object,
) -> Json:
    """Return a config whose upstreams all lead to one provider.

    `sections` replace whole top-level sections.
    """
    upstreams: Json = {
        name: {"url": provider, "wire": name, "placement": placement}
        for name in _UPSTREAMS
    }
    return {
        "listen": "127.0.0.1:0",
        "admin": {"listen": "127.0.0.1:0"},
        "upstreams": upstreams,
        "routes": [{"path": path, "mode": mode} for path in ROUTES],
        # The machine that runs the tests is shared: a slow index must not be late.
        "context": {"sources": list(sources), "refresh": {"deadline_ms": 10_000}},
        "limits": {"drain_seconds": 1},
        **sections,
    }


@contextlib.asynccontextmanager
async def sidecar_in_loop(
    folder: Path, config: Mapping[str, object]
) -> AsyncIterator[App]:
    """Run in the test's own event loop; its parts are there to be looked at."""
    async with running_app(_settings(folder, config), {}) as app:
        yield app


@contextlib.contextmanager
def sidecar_in_thread(folder: Path, config: Mapping[str, object]) -> Iterator[Sidecar]:
    """Run in a thread with its own event loop, for clients that block."""
    loop = PlainLoop()
    thread = threading.Thread(target=loop.run_forever, name="sidecar")
    thread.start()
    stack = contextlib.AsyncExitStack()
    try:
        running = stack.enter_async_context(sidecar_in_loop(folder, config))
        app = _wait_for(running, loop)
        try:
            yield Sidecar(app.addresses.listen, app.addresses.admin)
        finally:
            _wait_for(stack.aclose(), loop)
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


def _settings(folder: Path, config: Mapping[str, object]) -> Settings:
    path = folder / "deuz.yaml"
    path.write_text(json.dumps(config))  # Each JSON text is YAML too.
    return Settings(path)


def _wait_for(step: Coroutine[Any, Any, T], loop: asyncio.AbstractEventLoop) -> T:
    return asyncio.run_coroutine_threadsafe(step, loop).result(WAIT_SECONDS)
