import logging
from collections.abc import Iterator

import pytest

from deuz_proxy.sinks.otlp_logs import QuietLogs
from deuz_testing.otlp import heard_at_root, text_of

Records = list[logging.LogRecord]

EXPORTER = logging.getLogger("opentelemetry.exporter.otlp.proto.http.trace_exporter")
BATCH = logging.getLogger("opentelemetry.sdk._shared_internal")


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Iterator[Clock]:
    clock = Clock()
    logs = QuietLogs(clock)
    yield clock
    logs.close()


@pytest.fixture
def heard() -> Iterator[Records]:
    with heard_at_root() as records:
        yield records


def test_complaint_names_its_logger_and_the_kind_of_error_only(
    clock: Clock, heard: Records
) -> None:
    EXPORTER.error("failed at http://CANARY@host: %s", ConnectionError("CANARY"))

    assert EXPORTER.name in text_of(heard)
    assert "ConnectionError" in text_of(heard)
    assert "CANARY" not in text_of(heard)


def test_complaints_of_one_logger_are_said_once_a_minute_with_their_number(
    clock: Clock, heard: Records
) -> None:
    for _ in range(1_000):
        EXPORTER.warning("again")
    BATCH.warning("queue full")
    assert len(heard) == 2

    clock.now = 61.0
    EXPORTER.warning("again")

    assert len(heard) == 3
    assert "999 more" in heard[-1].getMessage()


def test_exception_is_told_by_its_kind(clock: Clock, heard: Records) -> None:
    try:
        int("CANARY")
    except ValueError:
        EXPORTER.exception("while exporting")

    assert "ValueError" in text_of(heard)
    assert "CANARY" not in text_of(heard)


def test_exporters_do_not_reach_the_root_s_handlers(
    clock: Clock, heard: Records
) -> None:
    EXPORTER.error("x")

    assert [record.name for record in heard] == ["deuz_proxy.telemetry"]


def test_closing_gives_the_loggers_back() -> None:
    logs = QuietLogs(Clock())

    logs.close()

    logger = logging.getLogger("opentelemetry")
    assert logger.propagate
    assert logs not in logger.handlers
