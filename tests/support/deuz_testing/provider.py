"""Starts the fake provider for one test, on a free port.

Rules:
- Build a `FakeProvider` with the settings of the test and hand it in; read its
  `requests` afterwards.
"""

import asyncio
import threading
from collections.abc import AsyncIterator, Coroutine, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any

from deuz_proxy.demo.provider import FakeProvider
from deuz_testing.loops import PlainLoop
from deuz_testing.waiting import WAIT_SECONDS


@asynccontextmanager
async def running_provider(
    provider: FakeProvider | None = None,
) -> AsyncIterator[FakeProvider]:
    """Serve in the test's own event loop."""
    served = provider or FakeProvider()
    await served.start()
    try:
        yield served
    finally:
        await served.close()


@contextmanager
def provider_in_thread(provider: FakeProvider | None = None) -> Iterator[FakeProvider]:
    """Serve in a thread with its own event loop, for clients that block."""
    served = provider or FakeProvider()
    loop = PlainLoop()
    thread = threading.Thread(target=loop.run_forever, name="fake-provider")
    thread.start()
    try:
        _wait_for(served.start(), loop)
        try:
            yield served
        finally:
            _wait_for(served.close(), loop)
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


def _wait_for(step: Coroutine[Any, Any, None], loop: asyncio.AbstractEventLoop) -> None:
    asyncio.run_coroutine_threadsafe(step, loop).result(WAIT_SECONDS)
