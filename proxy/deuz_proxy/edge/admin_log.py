"""What aiohttp's server says of the admin address, without what it was asked.

Rules:
- Bytes that are no HTTP are answered, not logged: aiohttp would quote them, with a
  trace for each, and whoever reaches the address could fill the log.
"""

import logging

from aiohttp.http_exceptions import HttpProcessingError


def quiet_log() -> logging.Logger:
    """Return the log for aiohttp's server: faults of ours alone are in it."""
    log = logging.getLogger("deuz_proxy.admin")
    log.addFilter(_is_ours)
    return log


def _is_ours(record: logging.LogRecord) -> bool:
    fault = record.exc_info[1] if record.exc_info else None
    return not isinstance(fault, HttpProcessingError)
