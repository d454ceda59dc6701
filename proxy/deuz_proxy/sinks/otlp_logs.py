"""Keeps the exporters' own complaints short, rare and free of content.

Rules:
- One line a minute for each logger, with the number of those that were left out.
- A line holds the logger's name, the level and the kind of error: the exporters' own
  texts may quote addresses, headers or a collector's answer.
- The exporters' loggers do not propagate while this is in force: nothing that exports
  logs can be fed by its own failure.
"""

import logging
from collections.abc import Callable

_EXPORTERS = "opentelemetry"
_INTERVAL_SECONDS = 60.0
_log = logging.getLogger("deuz_proxy.telemetry")


class QuietLogs(logging.Handler):
    """Stands in for all handlers of the exporters' loggers until closed."""

    def __init__(self, clock: Callable[[], float]) -> None:
        super().__init__(logging.WARNING)
        self._clock = clock
        self._said_at: dict[str, float] = {}
        self._unsaid: dict[str, int] = {}
        self._logger = logging.getLogger(_EXPORTERS)
        self._was_propagating = self._logger.propagate
        self._logger.addHandler(self)
        self._logger.propagate = False

    def emit(self, record: logging.LogRecord) -> None:
        """Say that a logger complained, unless it was said within the last minute."""
        now, name = self._clock(), record.name
        said_at = self._said_at.get(name)
        if said_at is not None and now - said_at < _INTERVAL_SECONDS:
            self._unsaid[name] = self._unsaid.get(name, 0) + 1
            return
        self._said_at[name] = now
        _log.log(
            record.levelno,
            "telemetry: %s reports %s (%d more since the last line)",
            name,
            _kind_of(record),
            self._unsaid.pop(name, 0),
        )

    def close(self) -> None:
        """Give the loggers back what they had."""
        self._logger.removeHandler(self)
        self._logger.propagate = self._was_propagating
        super().close()


def _kind_of(record: logging.LogRecord) -> str:
    if record.exc_info and record.exc_info[0]:
        return record.exc_info[0].__name__
    arguments = record.args if isinstance(record.args, tuple) else ()
    kinds = [
        type(value).__name__ for value in arguments if isinstance(value, Exception)
    ]
    return kinds[0] if kinds else record.levelname.lower()
