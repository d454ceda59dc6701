"""Complaints of the exporting threads: short, rare and free of content.

Rules:
- One line a minute for each signal, with the number of those that were left out.
- A line holds the signal and one word, a status or a kind of error: an error's own text
  may quote addresses, headers or a collector's answer.
"""

import logging
import threading
from collections.abc import Callable

_INTERVAL_SECONDS = 60.0
_log = logging.getLogger("deuz_proxy.telemetry")


class QuietLog:
    """Warns of what was not sent. Used by several threads."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._said_at: dict[str, float] = {}
        self._unsaid: dict[str, int] = {}

    def complain(self, signal: str, word: str) -> None:
        """Say that something of a signal is lost, unless that was just said."""
        now = self._clock()
        with self._lock:
            said_at = self._said_at.get(signal)
            if said_at is not None and now - said_at < _INTERVAL_SECONDS:
                self._unsaid[signal] = self._unsaid.get(signal, 0) + 1
                return
            self._said_at[signal] = now
            unsaid = self._unsaid.pop(signal, 0)
        _log.warning(
            "telemetry: %s were not sent: %s (%d more since the last line)",
            signal,
            word,
            unsaid,
        )
