import threading

from deuz_proxy.sinks.metric_pusher import MetricPusher
from deuz_proxy.sinks.otlp_logs import QuietLog
from deuz_testing.otlp import heard_at_root, text_of
from deuz_testing.waiting import WAIT_SECONDS


class Recording:
    def __init__(self, *, fails: int = 0) -> None:
        self.pictures: list[bytes] = []
        self.fails = fails
        self.is_closed = False
        self.is_given_up = False
        self.arrived = threading.Event()

    def send(self, body: bytes) -> bool:
        self.pictures.append(body)
        self.arrived.set()
        if len(self.pictures) <= self.fails:
            raise RuntimeError("CANARY")
        return True

    def give_up(self) -> None:
        self.is_given_up = True

    def close(self) -> None:
        self.is_closed = True


def pusher(sender: Recording, interval_seconds: float) -> MetricPusher:
    return MetricPusher(
        lambda: b"picture", sender, interval_seconds, QuietLog(lambda: 0.0)
    )


def test_failing_export_is_told_and_the_next_picture_is_sent() -> None:
    sender = Recording(fails=1)
    with heard_at_root() as heard:
        running = pusher(sender, 0.01)
        assert sender.arrived.wait(WAIT_SECONDS)

        running.close()

    assert len(sender.pictures) >= 2
    assert "metrics were not sent: RuntimeError" in text_of(heard)
    assert "CANARY" not in text_of(heard)


def test_last_picture_is_sent_before_the_connection_is_let_go() -> None:
    sender = Recording()

    pusher(sender, 600.0).close()

    assert sender.pictures == [b"picture"]
    assert sender.is_closed


def test_giving_up_reaches_the_sender() -> None:
    sender = Recording()
    running = pusher(sender, 600.0)

    running.give_up()
    running.close()

    assert sender.is_given_up
