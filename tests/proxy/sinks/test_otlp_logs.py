import pytest

from deuz_proxy.sinks.otlp_logs import QuietLog
from deuz_testing.otlp import heard_at_root, text_of


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


def test_complaint_names_the_signal_and_the_kind(clock: Clock) -> None:
    with heard_at_root() as heard:
        QuietLog(clock).complain("traces", "ConnectionRefusedError")

    assert text_of(heard) == (
        "telemetry: traces were not sent: ConnectionRefusedError"
        " (0 more since the last line)"
    )


def test_signal_complains_once_a_minute_and_tells_how_often_it_would_have(
    clock: Clock,
) -> None:
    log = QuietLog(clock)
    with heard_at_root() as heard:
        for now in (0.0, 1.0, 59.0, 60.0, 61.0):
            clock.now = now
            log.complain("traces", "503")

    assert [record.args for record in heard] == [
        ("traces", "503", 0),
        ("traces", "503", 2),
    ]


def test_signals_do_not_silence_each_other(clock: Clock) -> None:
    log = QuietLog(clock)
    with heard_at_root() as heard:
        log.complain("traces", "503")
        log.complain("metrics", "503")

    assert len(heard) == 2
