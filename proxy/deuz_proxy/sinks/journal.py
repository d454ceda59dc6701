"""One JSON line for each finished request and each fault; off by default.

Rules:
- A line has the fields listed here and no others: a new field of an event does not get
  out by itself. No content, no header, no credential, no query.
- The event loop only puts a line into a bounded queue; a thread writes. A full disk or
  a reader that stopped loses lines, which are counted, and holds up nobody.
"""

import queue
import threading
from typing import BinaryIO

import msgspec

from deuz_compiler import Usage, Verdict
from deuz_proxy.observe.events import Event, FaultCaught, RequestFinished
from deuz_proxy.observe.redact import shown_name, shown_path, shown_word

MAX_LINES = 4096

REQUEST_FIELDS = (
    "event",
    "at",
    "request_id",
    "trace_id",
    "route",
    "upstream",
    "wire",
    "mode",
    "group",
    "method",
    "path",
    "model",
    "status",
    "outcome",
    "error",
    "passthrough",
    "duration_seconds",
    "first_byte_seconds",
    "overhead_seconds",
    "request_bytes",
    "response_bytes",
    "is_streamed",
    "conversation",
    "tokens",
    "usage_status",
    "prefix",
    "context_tokens",
    "overflows",
    "compactions",
)
FAULT_FIELDS = ("event", "route", "where", "code")

_TOKEN_FIELDS = ("input_uncached", "cache_read", "cache_write", "output", "reasoning")
_PREFIX_FIELDS = ("verdict", "segment", "cause", "owner", "lost_tokens")
_END = b""


class Journal:
    """Listens to events and writes lines. Closed by its owner, not in the loop."""

    def __init__(self, stream: BinaryIO, max_lines: int = MAX_LINES) -> None:
        self._stream = stream
        self._lines: queue.Queue[bytes] = queue.Queue(max_lines)
        self._encode = msgspec.json.Encoder().encode
        self.dropped = 0
        # A daemon: a stream that blocks must not keep the process alive.
        self._thread = threading.Thread(
            target=self._write_lines, name="deuz-journal", daemon=True
        )
        self._thread.start()

    def __call__(self, event: Event) -> None:
        """Queue the line of a finished request or a fault."""
        if isinstance(event, RequestFinished):
            self._put(_request_line(event))
        elif isinstance(event, FaultCaught):
            self._put(_fault_line(event))

    def close(self, grace_seconds: float) -> None:
        """Write what is queued, for no longer than the grace."""
        try:
            self._lines.put(_END, timeout=grace_seconds)
        except queue.Full:
            return
        self._thread.join(grace_seconds)

    def _put(self, line: dict[str, object]) -> None:
        try:
            self._lines.put_nowait(self._encode(line) + b"\n")
        except queue.Full:
            self.dropped += 1

    def _write_lines(self) -> None:
        while (line := self._lines.get()) != _END:
            try:
                self._stream.write(line)
                if self._lines.empty():
                    self._stream.flush()
            except (OSError, ValueError):
                # A full disk or a closed stream: the next line may fare better.
                self.dropped += 1


def _request_line(event: RequestFinished) -> dict[str, object]:
    trace, compiled = event.trace, event.compile
    line = {
        "event": "request",
        "at": event.at,
        "request_id": event.request_id,
        "trace_id": f"{trace.trace_id:032x}" if trace else None,
        "route": event.route,
        "upstream": event.upstream,
        "wire": event.wire,
        "mode": event.mode,
        "group": event.group,
        "method": shown_word(event.method),
        "path": shown_path(event.path, event.upstream),
        "model": shown_name(event.model) if event.model else None,
        "status": event.status,
        "outcome": event.outcome,
        "error": shown_word(event.error),
        "passthrough": event.passthrough,
        "duration_seconds": round(event.duration_seconds, 6),
        "first_byte_seconds": event.first_byte_seconds,
        "overhead_seconds": round(event.overhead_seconds, 6),
        "request_bytes": event.request_bytes,
        "response_bytes": event.response_bytes,
        "is_streamed": event.is_streamed,
        "conversation": event.conversation,
        "tokens": _tokens(event.usage),
        "usage_status": event.usage_status,
        "prefix": _prefix(event.verdict),
        "context_tokens": compiled.tokens if compiled else None,
        "overflows": [f"{o.stage}:{o.outcome}" for o in event.overflows] or None,
        "compactions": [c.layer for c in event.compactions] or None,
    }
    return _known(line)


def _fault_line(event: FaultCaught) -> dict[str, object]:
    return {
        "event": "fault",
        "route": event.route,
        "where": shown_word(event.where),
        "code": shown_word(event.code),
    }


def _tokens(usage: Usage | None) -> dict[str, object] | None:
    if usage is None:
        return None
    return _known({name: getattr(usage, name) for name in _TOKEN_FIELDS})


def _prefix(verdict: Verdict | None) -> dict[str, object] | None:
    if verdict is None:
        return None
    return _known({name: getattr(verdict, name) for name in _PREFIX_FIELDS})


def _known(fields: dict[str, object]) -> dict[str, object]:
    return {name: value for name, value in fields.items() if value is not None}
