"""How a test waits for a fact: it looks until the fact is there, and then goes on.

Rules:
- What another task, thread or process does is waited for, never looked at once.
- The bound is for a fact that never comes. It is no promise about time: a machine that
  others use as well may take seconds for what takes it a millisecond alone.
"""

import asyncio
import time
from collections.abc import Callable
from pathlib import Path

WAIT_SECONDS = 30.0
POLL_SECONDS = 0.005


async def until(is_true: Callable[[], bool], seconds: float = WAIT_SECONDS) -> None:
    """Return once it is true; other tasks run meanwhile."""
    async with asyncio.timeout(seconds):
        while not is_true():  # noqa: ASYNC110  # Anything a test can look at.
            await asyncio.sleep(POLL_SECONDS)


def block_until(is_true: Callable[[], bool], seconds: float = WAIT_SECONDS) -> None:
    """Return once it is true, for tests without a loop of their own."""
    deadline = time.monotonic() + seconds
    while not is_true():
        if time.monotonic() > deadline:
            raise TimeoutError("what the test waits for did not come")
        time.sleep(POLL_SECONDS)


def is_running(process: int) -> bool:
    """Tell whether a process lives; one that nobody has looked for yet is dead."""
    try:
        stat = Path(f"/proc/{process}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return False
    return stat.rpartition(")")[2].split()[0] not in ("Z", "X")
