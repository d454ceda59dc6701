"""A worker's only sink: its events as lines, in batches, on the way to the keeper.

Rules:
- A request never waits for it: what does not fit is counted, and told once there is
  room again.
- What was lost is told by number, and by route what it would have done to the requests
  in flight: that gauge must come back to 0.
"""

from collections import Counter
from collections.abc import Callable
from typing import Protocol

from deuz_proxy.observe.encoding import encode_event
from deuz_proxy.observe.events import (
    Event,
    EventsLost,
    RequestFinished,
    RequestStarted,
)

BATCH_SECONDS = 0.02
"""Soon enough for a page, rare enough to cost two system calls for many requests."""

BATCH_BYTES = 65_536
MOST_BYTES = 16 * 1024 * 1024
"""Unsent at most: some 10,000 requests while the keeper does not read."""


class Pipe(Protocol):
    """Where lines go: an asyncio transport."""

    def write(self, data: bytes) -> None:
        """Send, or keep until it can be sent; never wait."""

    def get_write_buffer_size(self) -> int:
        """Return the bytes that are kept."""


class Outbox:
    """Takes events in the event loop. `later` calls back after so many seconds."""

    def __init__(
        self,
        pipe: Pipe,
        later: Callable[[float, Callable[[], None]], object],
        *,
        most_bytes: int = MOST_BYTES,
    ) -> None:
        self._pipe = pipe
        self._later = later
        self._most_bytes = most_bytes
        self._lines = bytearray()
        self._is_due = False
        self._lost = 0
        self._lost_in_flight: Counter[str] = Counter()

    def __call__(self, event: Event) -> None:
        """Take an event along with the next batch."""
        line = encode_event(event)
        if self._has_room(len(line)):
            self._lines += line
        else:
            self._lose(event)
        if len(self._lines) >= BATCH_BYTES:
            self.flush()
        elif not self._is_due:
            self._is_due = True
            self._later(BATCH_SECONDS, self._send)

    def flush(self) -> None:
        """Hand over what waits."""
        if self._lost:
            self._tell_lost()
        if self._lines:
            self._pipe.write(bytes(self._lines))
            self._lines.clear()

    def _send(self) -> None:
        self._is_due = False
        self.flush()
        if self._lost:
            self._is_due = True
            self._later(BATCH_SECONDS, self._send)

    def _has_room(self, more_bytes: int) -> bool:
        unsent = len(self._lines) + self._pipe.get_write_buffer_size()
        return unsent + more_bytes < self._most_bytes

    def _lose(self, event: Event) -> None:
        self._lost += 1
        if isinstance(event, RequestStarted):
            self._lost_in_flight[event.route] += 1
        elif isinstance(event, RequestFinished):
            self._lost_in_flight[event.route] -= 1

    def _tell_lost(self) -> None:
        in_flight = tuple(self._lost_in_flight.items())
        line = encode_event(EventsLost(self._lost, in_flight))
        if self._has_room(len(line)):
            self._lines += line
            self._lost = 0
            self._lost_in_flight.clear()
