"""Finished requests that are still to be counted: together, those alike at once.

Rules:
- A request costs a place in a queue; counting a hundred of a kind costs little more
  than counting one. What is shown is exact: who reads counts first (`Settled`).
- The queue is bounded: where nobody reads, it is counted when it is full.
- One thread adds, the event loop's; any thread may read. Only one counts at a time, and
  the event loop does not wait for another that does.
"""

import threading
from collections import defaultdict, deque
from collections.abc import Callable, Iterable
from typing import Generic, TypeVar

from prometheus_client.metrics_core import Metric as Samples
from prometheus_client.registry import Collector

from deuz_proxy.observe.events import RequestFinished

MOST_WAITING = 32
"""More would be counted in one go for longer than a request should wait (0.3 ms)."""

Kind = TypeVar("Kind")


class Backlog(Generic[Kind]):
    """`read_kind` tells what requests alike have in common, `count` counts them."""

    def __init__(
        self,
        read_kind: Callable[[RequestFinished], Kind],
        count: Callable[[Kind, list[RequestFinished]], None],
        *,
        most_waiting: int = MOST_WAITING,
    ) -> None:
        self._read_kind = read_kind
        self._count = count
        self._most_waiting = most_waiting
        self._waiting: deque[RequestFinished] = deque()
        self._counting = threading.Lock()

    def add(self, event: RequestFinished) -> None:
        """Take a request that is to be counted."""
        self._waiting.append(event)
        if len(self._waiting) >= self._most_waiting and self._counting.acquire(
            blocking=False
        ):
            try:
                self._count_waiting()
            finally:
                self._counting.release()

    def settle(self) -> None:
        """Count all that came before this call."""
        with self._counting:
            self._count_waiting()

    def _count_waiting(self) -> None:
        kinds: defaultdict[Kind, list[RequestFinished]] = defaultdict(list)
        for _ in range(len(self._waiting)):
            event = self._waiting.popleft()
            kinds[self._read_kind(event)].append(event)
        for kind, events in kinds.items():
            self._count(kind, events)


class Settled(Collector):
    """The first collector of a registry: what the others show is counted by then."""

    def __init__(self, backlog: Backlog[Kind]) -> None:
        self._settle = backlog.settle

    def collect(self) -> Iterable[Samples]:
        """Count what waits, and show nothing."""
        self._settle()
        return ()
