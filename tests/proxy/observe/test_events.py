import pytest
from msgspec.structs import replace

from deuz_proxy.observe.events import Event, Fanout, Overflow, UpstreamCall
from deuz_testing.events import finished, started


def broken(event: Event) -> None:
    raise KeyError(event)


def test_overhead_is_the_sum_of_the_stages() -> None:
    assert (
        finished(stages=("admit", "settle"), stage_seconds=(0.25, 0.5)).overhead_seconds
        == 0.75
    )


def test_measured_total_is_the_overhead() -> None:
    assert (
        finished(stages=("admit", "total"), stage_seconds=(0.25, 0.5)).overhead_seconds
        == 0.5
    )


def test_request_that_was_not_timed_has_no_overhead() -> None:
    assert finished(stages=(), stage_seconds=()).overhead_seconds == 0


FIRST, SECOND = UpstreamCall(0, 1, 400, None), UpstreamCall(0, 1, 400, None, "retry")
SUMMARY = UpstreamCall(0, 1, 200, None, "summarize")


@pytest.mark.parametrize(
    ("outcome", "calls", "answer"),
    [
        (None, (), None),
        (None, (FIRST,), FIRST),
        (None, (SUMMARY, FIRST), FIRST),
        ("observed", (FIRST, SUMMARY), FIRST),
        ("surfaced", (FIRST, SUMMARY, SECOND), FIRST),
        ("recovered", (FIRST, SUMMARY, SECOND), SECOND),
    ],
)
def test_second_try_is_the_answer_only_where_it_was_accepted(
    outcome: str | None, calls: tuple[UpstreamCall, ...], answer: UpstreamCall | None
) -> None:
    seen = (Overflow("rejected", outcome, None, None),) if outcome else ()

    assert finished(overflows=seen, upstream_calls=calls).answer is answer


def test_every_listener_hears_although_one_fails() -> None:
    heard: list[Event] = []
    fanout = Fanout((broken, heard.append))

    fanout(started())

    assert heard == [started()]
    assert fanout.faults == ["KeyError"]


def test_listener_of_requests_hears_only_how_they_ended_and_last() -> None:
    heard: list[tuple[str, Event]] = []
    fanout = Fanout(
        (lambda event: heard.append(("all", event)), broken),
        (broken, lambda event: heard.append(("ends", event))),
    )

    fanout(started())
    fanout(finished())

    assert heard == [("all", started()), ("all", finished()), ("ends", finished())]
    assert fanout.faults == ["KeyError"] * 3


def test_faults_of_listeners_do_not_pile_up() -> None:
    fanout = Fanout((broken,))

    for number in range(1_000):
        fanout(replace(started(), request_id=str(number)))

    assert len(fanout.faults) < 100
