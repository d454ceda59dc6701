import threading

import pytest

from deuz_proxy.sinks.otlp_logs import QuietLog
from deuz_proxy.sinks.otlp_send import MOST_TRIES, Outcome, Sender
from deuz_testing.otlp import heard_at_root, text_of
from deuz_testing.waiting import WAIT_SECONDS

THROUGH = Outcome(is_through=True)
REFUSED = Outcome(is_through=False, word="400")
BUSY = Outcome(is_through=False, word="503", is_passing=True, wait_seconds=0.0)


class Scripted:
    """A way whose tries end as told, the last as all further ones."""

    def __init__(self, *outcomes: Outcome) -> None:
        self.outcomes = list(outcomes)
        self.bodies: list[bytes] = []
        self.limits: list[float] = []
        self.is_closed = False
        self.tried = threading.Event()

    def attempt(self, body: bytes, timeout_seconds: float) -> Outcome:
        self.bodies.append(body)
        self.limits.append(timeout_seconds)
        self.tried.set()
        return self.outcomes.pop(0) if len(self.outcomes) > 1 else self.outcomes[0]

    def close(self) -> None:
        self.is_closed = True


def sender(way: Scripted, timeout_seconds: float = 30.0) -> Sender:
    log = QuietLog(lambda: 0.0)
    return Sender(way, signal="traces", timeout_seconds=timeout_seconds, log=log)


def test_what_got_through_is_sent_once() -> None:
    way = Scripted(THROUGH)

    assert sender(way).send(b"spans")
    assert way.bodies == [b"spans"]


def test_passing_failure_is_tried_again() -> None:
    way = Scripted(BUSY, BUSY, THROUGH)

    assert sender(way).send(b"spans")
    assert way.bodies == [b"spans"] * 3


def test_refused_is_not_tried_again_and_is_told_without_content() -> None:
    way = Scripted(REFUSED)
    with heard_at_root() as heard:
        assert not sender(way).send(b"CANARY")

    assert len(way.bodies) == 1
    assert "traces were not sent: 400" in text_of(heard)
    assert "CANARY" not in text_of(heard)


def test_tries_are_bounded() -> None:
    way = Scripted(BUSY)
    with heard_at_root():
        assert not sender(way).send(b"spans")

    assert len(way.bodies) == MOST_TRIES


@pytest.mark.parametrize("wait_seconds", [60.0, None])
def test_wait_beyond_the_time_limit_is_not_begun(wait_seconds: float | None) -> None:
    patient = Outcome(
        is_through=False, word="429", is_passing=True, wait_seconds=wait_seconds
    )
    way = Scripted(patient)
    with heard_at_root():
        assert not sender(way, timeout_seconds=0.5).send(b"spans")

    assert len(way.bodies) == 1


def test_all_tries_share_one_time_limit() -> None:
    way = Scripted(BUSY, THROUGH)
    now = iter([0.0, 4.0, 4.0])
    log = QuietLog(lambda: 0.0)
    sending = Sender(
        way, signal="traces", timeout_seconds=10.0, log=log, clock=lambda: next(now)
    )

    assert sending.send(b"spans")
    assert way.limits == [10.0, 6.0]


def test_giving_up_ends_the_wait_for_another_try() -> None:
    slow = Outcome(is_through=False, word="503", is_passing=True, wait_seconds=25.0)
    way = Scripted(slow)
    sending = sender(way)
    with heard_at_root():
        thread = threading.Thread(target=sending.send, args=(b"spans",))
        thread.start()
        assert way.tried.wait(WAIT_SECONDS)

        sending.give_up()
        thread.join(WAIT_SECONDS)

    assert not thread.is_alive()
    assert len(way.bodies) == 1


def test_closing_lets_go_of_the_way() -> None:
    way = Scripted(THROUGH)

    sender(way).close()

    assert way.is_closed
