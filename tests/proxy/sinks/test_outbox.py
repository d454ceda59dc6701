"""A worker's events on the way to its keeper: in batches, bounded, nothing unsaid."""

from collections.abc import Callable

from hypothesis import given
from hypothesis import strategies as st

from deuz_proxy.observe.encoding import decode_event
from deuz_proxy.observe.events import (
    Event,
    EventsLost,
    FaultCaught,
    RequestFinished,
    RequestStarted,
)
from deuz_proxy.sinks.outbox import BATCH_BYTES, BATCH_SECONDS, Outbox
from deuz_testing.events import finished, started


class SlowPipe:
    """A pipe whose reader takes only when it is told to."""

    def __init__(self) -> None:
        self.writes: list[bytes] = []
        self.kept = 0
        self.is_reading = True

    def write(self, data: bytes) -> None:
        self.writes.append(data)
        if not self.is_reading:
            self.kept += len(data)

    def get_write_buffer_size(self) -> int:
        return self.kept

    def events(self) -> list[Event]:
        lines = b"".join(self.writes).split(b"\n")
        return [decode_event(line) for line in lines if line]


class Timer:
    """Calls back when it is told to, not when time has passed."""

    def __init__(self) -> None:
        self.due: list[tuple[float, Callable[[], None]]] = []

    def __call__(self, seconds: float, call: Callable[[], None]) -> None:
        self.due.append((seconds, call))

    def ring(self) -> None:
        due, self.due = self.due, []
        for _, call in due:
            call()


def in_flight(events: list[Event]) -> dict[str, int]:
    found: dict[str, int] = {}
    for event in events:
        if isinstance(event, RequestStarted):
            found[event.route] = found.get(event.route, 0) + 1
        elif isinstance(event, RequestFinished):
            found[event.route] = found.get(event.route, 0) - 1
        elif isinstance(event, EventsLost):
            for route, change in event.in_flight:
                found[route] = found.get(route, 0) + change
    return found


def test_events_of_a_moment_go_in_one_write_and_in_order() -> None:
    pipe, timer = SlowPipe(), Timer()
    outbox = Outbox(pipe, timer)

    told: list[Event] = [started(), finished(), FaultCaught("chat", "recall", "late")]
    for event in told:
        outbox(event)
    assert (pipe.writes, [due[0] for due in timer.due]) == ([], [BATCH_SECONDS])
    timer.ring()

    assert len(pipe.writes) == 1
    assert pipe.events() == told
    assert timer.due == []


def test_a_full_batch_does_not_wait() -> None:
    pipe, timer = SlowPipe(), Timer()
    outbox = Outbox(pipe, timer)

    for _ in range(100):
        outbox(finished())

    assert len(pipe.writes[0]) >= BATCH_BYTES
    assert len(timer.due) == 1


def test_what_a_reader_that_stopped_misses_is_counted_and_told_once_it_reads() -> None:
    pipe, timer = SlowPipe(), Timer()
    outbox = Outbox(pipe, timer, most_bytes=5_000)
    pipe.is_reading = False
    for _ in range(100):
        outbox(started())
        outbox(finished())
        timer.ring()
    kept = pipe.kept

    pipe.is_reading, pipe.kept = True, 0
    timer.ring()

    lost = pipe.events()[-1]
    assert kept <= 5_000
    assert isinstance(lost, EventsLost)
    assert lost.count + len(pipe.events()) - 1 == 200
    assert in_flight(pipe.events()) == {"chat": 0}
    assert timer.due == []


def test_while_nothing_is_read_it_asks_again_and_tells_nothing_twice() -> None:
    pipe, timer = SlowPipe(), Timer()
    outbox = Outbox(pipe, timer, most_bytes=200)
    pipe.is_reading = False
    pipe.kept = 200
    outbox(started())

    timer.ring()
    timer.ring()
    assert pipe.writes == []
    pipe.kept = 0
    timer.ring()

    assert pipe.events() == [EventsLost(1, (("chat", 1),))]


def test_what_waits_is_handed_over_when_it_is_asked_for() -> None:
    pipe, timer = SlowPipe(), Timer()
    outbox = Outbox(pipe, timer)
    outbox(started())

    outbox.flush()
    outbox.flush()

    assert pipe.events() == [started()]
    assert len(pipe.writes) == 1


@given(st.lists(st.sampled_from("srfw"), max_size=200), st.integers(200, 5_000))
def test_nothing_is_lost_unsaid(steps: list[str], most_bytes: int) -> None:
    pipe, timer = SlowPipe(), Timer()
    outbox = Outbox(pipe, timer, most_bytes=most_bytes)
    told: list[Event] = []
    for step in steps:
        if step in "sf":
            told.append(started() if step == "s" else finished())
            outbox(told[-1])
        elif step == "r":
            pipe.is_reading, pipe.kept = True, 0
            timer.ring()
        else:
            pipe.is_reading = False

    pipe.is_reading, pipe.kept = True, 0
    timer.ring()
    timer.ring()

    heard = pipe.events()
    lost = sum(event.count for event in heard if isinstance(event, EventsLost))
    whole = [event for event in heard if not isinstance(event, EventsLost)]
    assert len(whole) + lost == len(told)
    assert in_flight(heard).get("chat", 0) == in_flight(told).get("chat", 0)
