"""Sends a picture of the metrics every so often, from a thread of its own.

Rules:
- A picture that cannot be taken or sent is told of, and the next one is tried.
- Closing sends a last one, so that what came since the one before is not missing.
"""

import threading
from collections.abc import Callable

from deuz_proxy.sinks.otlp_logs import QuietLog
from deuz_proxy.sinks.otlp_send import Sending


class MetricPusher:
    """The running thread. Closed once."""

    def __init__(
        self,
        take: Callable[[], bytes],
        sender: Sending,
        interval_seconds: float,
        log: QuietLog,
    ) -> None:
        self._take = take
        self._sender = sender
        self._interval_seconds = interval_seconds
        self._log = log
        self._closing = threading.Event()
        # A daemon: a collector that never answers must not keep the process alive.
        self._thread = threading.Thread(
            target=self._run, name="deuz-metrics", daemon=True
        )
        self._thread.start()

    def close(self) -> None:
        """Ask for the last picture and wait until it is sent."""
        self._closing.set()
        self._thread.join()

    def give_up(self) -> None:
        """Let a picture that is tried again and again be the last try."""
        self._sender.give_up()

    def _run(self) -> None:
        while not self._closing.wait(self._interval_seconds):
            self._push()
        self._push()
        self._sender.close()

    def _push(self) -> None:
        try:
            self._sender.send(self._take())
        except Exception as fault:  # noqa: BLE001  # One bad picture must not be the last.
            self._log.complain("metrics", type(fault).__name__)
