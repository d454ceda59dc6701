import pytest

from deuz_proxy.sources.breakers import Breakers


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def breakers(clock: Clock) -> Breakers:
    return Breakers(["kb", "docs"], rest_after=3, rest_seconds=10, clock=clock)


def fail(breakers: Breakers, times: int, status: str = "failed") -> None:
    for _ in range(times):
        assert breakers.admit("kb")
        breakers.note("kb", status)


def rest_of(breakers: Breakers, clock: Clock) -> float:
    """Let the time pass until the source is tried; return how long it took."""
    start = clock.now
    while not breakers.admit("kb"):
        clock.now += 1
    return clock.now - start


@pytest.mark.parametrize("status", ["failed", "late"])
def test_a_source_rests_after_failures_in_a_row(
    breakers: Breakers, status: str
) -> None:
    fail(breakers, 3, status)

    assert not breakers.admit("kb")
    assert breakers.admit("docs")


@pytest.mark.parametrize("status", ["ok", "empty"])
def test_an_answer_between_failures_starts_the_count_again(
    breakers: Breakers, status: str
) -> None:
    fail(breakers, 2)
    breakers.note("kb", status)
    fail(breakers, 2)

    assert breakers.admit("kb")


def test_a_source_that_is_not_ready_has_neither_failed_nor_answered(
    breakers: Breakers,
) -> None:
    fail(breakers, 2)
    breakers.note("kb", "skipped")

    assert breakers.admit("kb")
    breakers.note("kb", "failed")
    assert not breakers.admit("kb")


def test_after_its_rest_one_request_tries_and_others_go_without(
    breakers: Breakers, clock: Clock
) -> None:
    fail(breakers, 3)
    clock.now += 10

    assert breakers.admit("kb")
    assert not breakers.admit("kb")


def test_a_try_that_is_answered_ends_the_rest(breakers: Breakers, clock: Clock) -> None:
    fail(breakers, 3)
    clock.now += 10
    breakers.admit("kb")
    breakers.note("kb", "empty")

    assert breakers.admit("kb")
    assert breakers.admit("kb")


def test_each_failed_try_doubles_the_rest_up_to_a_bound(
    breakers: Breakers, clock: Clock
) -> None:
    fail(breakers, 3)
    rests = []
    for _ in range(7):
        rests.append(rest_of(breakers, clock))
        breakers.note("kb", "late")

    assert rests == [10, 20, 40, 80, 160, 160, 160]


def test_a_try_that_nobody_waited_for_is_left_to_the_next_request(
    breakers: Breakers, clock: Clock
) -> None:
    fail(breakers, 3)
    clock.now += 10
    breakers.admit("kb")
    breakers.note("kb", None)

    assert breakers.admit("kb")


def test_answers_to_older_requests_do_not_prolong_the_rest(
    breakers: Breakers, clock: Clock
) -> None:
    fail(breakers, 3)
    clock.now += 5
    breakers.note("kb", "failed")

    assert rest_of(breakers, clock) == 5


def test_without_a_number_nobody_rests(clock: Clock) -> None:
    breakers = Breakers(["kb"], rest_after=0, rest_seconds=10, clock=clock)

    fail(breakers, 50)

    assert breakers.admit("kb")
