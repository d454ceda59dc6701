import json
import os
import threading
from io import BytesIO
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from deuz_compiler import Verdict
from deuz_proxy.observe.events import Event, FaultCaught, Placement
from deuz_proxy.sinks.journal import FAULT_FIELDS, REQUEST_FIELDS, Journal
from deuz_testing.events import (
    TRACE,
    compiled,
    finished,
    ledger_used,
    overflown,
    started,
)

GRACE_SECONDS = 10.0


def lines_of(*events: Event) -> list[dict[str, Any]]:
    stream = BytesIO()
    journal = Journal(stream)
    for event in events:
        journal(event)
    journal.close(GRACE_SECONDS)
    return [json.loads(line) for line in stream.getvalue().splitlines()]


def test_finished_request_is_one_line() -> None:
    (line,) = lines_of(started(), finished(), ledger_used())

    assert line["event"] == "request"
    assert line["request_id"] == "r-1"
    assert line["status"] == 200
    assert line["trace_id"] == f"{TRACE.trace_id:032x}"
    assert line["tokens"] == {
        "input_uncached": 100,
        "cache_read": 900,
        "cache_write": 0,
        "output": 50,
        "reasoning": 20,
    }
    assert line["overhead_seconds"] == 0.0005


def test_what_is_not_known_is_left_off() -> None:
    (line,) = lines_of(finished(usage=None, verdict=None, model=None, trace=None))

    assert not {"tokens", "prefix", "model", "trace_id", "error"} & set(line)


def test_break_and_overflow_are_told() -> None:
    verdict = Verdict("broken", "tools", "tool_added", "client", lost_tokens=7)

    (line,) = lines_of(overflown(verdict=verdict, compile=compiled()))

    assert line["prefix"] == {
        "verdict": "broken",
        "segment": "tools",
        "cause": "tool_added",
        "owner": "client",
        "lost_tokens": 7,
    }
    assert line["overflows"] == ["rejected:recovered"]
    assert line["compactions"] == ["prune-tool-results"]
    assert line["context_tokens"] == 300


def test_fault_is_one_line() -> None:
    (line,) = lines_of(FaultCaught("chat", "recall", "store_failed"))

    assert line == {
        "event": "fault",
        "route": "chat",
        "where": "recall",
        "code": "store_failed",
    }


def test_lines_have_the_listed_fields_only() -> None:
    full = overflown(
        compile=compiled(), error="x", passthrough="observe", group="treated"
    )

    request, fault = lines_of(full, FaultCaught("chat", "recall", "store_failed"))

    assert tuple(request) == REQUEST_FIELDS
    assert tuple(fault) == FAULT_FIELDS


# Strings that a line may show: names, ids made by us, and words of closed sets.
SHOWN = {
    "request_id",
    "route",
    "upstream",
    "wire",
    "mode",
    "model",
    "outcome",
    "passthrough",
    "conversation",
    "usage_status",
    "verdict",
    "segment",
    "cause",
    "owner",
    "stage",
    "layer",
}


def canaried(value: Any, name: str = "") -> Any:
    if isinstance(value, str):
        return value if name in SHOWN else f"CANARY {name}"
    if isinstance(value, tuple):
        return tuple(canaried(item, name) for item in value)
    if isinstance(value, msgspec.Struct):
        changes = {
            name: canaried(getattr(value, name), name)
            for name in value.__struct_fields__
        }
        return replace(value, **changes)
    return value


def test_string_that_no_rule_allows_is_in_no_line() -> None:
    placed = Placement(1, ("record-9",), 30, True)
    event = overflown(compile=compiled(), error="x", placements=(placed,))

    (line,) = lines_of(canaried(event))

    assert "CANARY" not in json.dumps(line)
    assert "record-9" not in json.dumps(line)


def test_reader_that_stopped_loses_lines_and_holds_up_nobody() -> None:
    """A pipe that nobody reads blocks its writer once it holds 64 KiB."""
    reader, writer = os.pipe()
    stream = os.fdopen(writer, "wb", buffering=0)
    journal = Journal(stream, max_lines=50)

    for _ in range(1_000):
        journal(finished())

    assert journal.dropped > 500
    os.close(reader)
    # The blocked write ends with a broken pipe; the lines left are lost one by one.
    journal.close(GRACE_SECONDS)
    assert not journal._thread.is_alive()
    stream.close()


class Full(BytesIO):
    def write(self, line: Any) -> int:
        raise OSError(28, "no space")


def test_full_disk_loses_the_line_and_the_next_one_is_tried() -> None:
    journal = Journal(Full())

    journal(finished())
    journal(finished())
    journal.close(GRACE_SECONDS)

    assert journal.dropped == 2


def test_closing_gives_up_after_its_grace() -> None:
    is_writing, may_write = threading.Event(), threading.Event()

    class Stuck(BytesIO):
        def write(self, line: Any) -> int:
            is_writing.set()
            may_write.wait()
            return 0

    journal = Journal(Stuck(), max_lines=1)
    journal(finished())
    assert is_writing.wait(GRACE_SECONDS)
    journal(finished())

    journal.close(0.05)

    assert journal._thread.is_alive()
    may_write.set()
    journal.close(GRACE_SECONDS)
    assert not journal._thread.is_alive()


@pytest.mark.parametrize("events", [(), (started(),)])
def test_nothing_finished_writes_nothing(events: tuple[Event, ...]) -> None:
    assert lines_of(*events) == []
