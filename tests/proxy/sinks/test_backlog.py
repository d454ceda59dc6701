import threading
from collections.abc import Callable

from prometheus_client import CollectorRegistry

from deuz_proxy.observe.events import RequestFinished
from deuz_proxy.sinks.backlog import MOST_WAITING, Backlog, Settled
from deuz_testing.events import finished
from deuz_testing.waiting import WAIT_SECONDS


class Counted:
    """Which requests were counted together, by route."""

    def __init__(self) -> None:
        self.groups: list[tuple[str, list[str]]] = []
        self.hold: Callable[[], None] = lambda: None

    def __call__(self, route: str, events: list[RequestFinished]) -> None:
        self.hold()
        self.groups.append((route, [event.request_id for event in events]))

    def total(self) -> int:
        return sum(len(ids) for _, ids in self.groups)


def backlog(counted: Counted) -> Backlog[str]:
    return Backlog(lambda event: event.route, counted)


def add(waiting: Backlog[str], count: int, route: str = "chat") -> None:
    for number in range(count):
        waiting.add(finished(request_id=f"{route}-{number}", route=route))


def test_requests_alike_are_counted_together_in_their_order() -> None:
    counted = Counted()
    waiting = backlog(counted)
    add(waiting, 2)
    add(waiting, 1, route="other")
    add(waiting, 1)
    assert counted.groups == []

    waiting.settle()

    assert counted.groups == [
        ("chat", ["chat-0", "chat-1", "chat-0"]),
        ("other", ["other-0"]),
    ]


def test_request_is_counted_once() -> None:
    counted = Counted()
    waiting = backlog(counted)
    add(waiting, 3)

    waiting.settle()
    waiting.settle()

    assert counted.total() == 3


def test_nothing_waits_beyond_the_bound_where_nobody_reads() -> None:
    counted = Counted()
    waiting = backlog(counted)

    add(waiting, MOST_WAITING - 1)
    assert counted.total() == 0
    add(waiting, 1)

    assert counted.total() == MOST_WAITING


def test_adding_does_not_wait_for_a_reader_that_counts() -> None:
    counted = Counted()
    waiting = backlog(counted)
    is_counting, may_end = threading.Event(), threading.Event()

    def hold() -> None:
        is_counting.set()
        may_end.wait(WAIT_SECONDS)

    counted.hold = hold
    add(waiting, 1)
    reader = threading.Thread(target=waiting.settle)
    reader.start()
    assert is_counting.wait(WAIT_SECONDS)

    add(waiting, MOST_WAITING + 5)
    assert counted.total() == 0
    may_end.set()
    reader.join(WAIT_SECONDS)
    waiting.settle()

    assert counted.total() == MOST_WAITING + 6


def test_what_a_registry_shows_is_counted_first() -> None:
    counted = Counted()
    waiting = backlog(counted)
    registry = CollectorRegistry(auto_describe=False)
    registry.register(Settled(waiting))
    add(waiting, 1)

    assert list(registry.collect()) == []
    assert counted.total() == 1


def test_two_backlogs_need_not_be_full_at_the_same_request() -> None:
    counted = Counted()
    waiting = Backlog(lambda event: event.route, counted, most_waiting=3)

    add(waiting, 2)
    assert counted.total() == 0
    add(waiting, 1)

    assert counted.total() == 3
