import pytest

from deuz_proxy.stores.breaker import (
    FIRST_PAUSE_SECONDS,
    LONGEST_PAUSE_SECONDS,
    PATIENCE,
    Breaker,
)
from deuz_testing.ledger_suite import ManualClock


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def breaker(clock: ManualClock) -> Breaker:
    return Breaker(clock)


def fail(breaker: Breaker, times: int = PATIENCE) -> None:
    for _ in range(times):
        breaker.fail()


def test_failures_that_are_not_in_a_row_open_nothing(breaker: Breaker) -> None:
    for _ in range(5):
        fail(breaker, PATIENCE - 1)
        breaker.succeed()

    assert breaker.may_ask()
    assert not breaker.is_open


def test_failures_in_a_row_open_it_for_a_pause(
    breaker: Breaker, clock: ManualClock
) -> None:
    fail(breaker)

    assert breaker.is_open
    assert not breaker.may_ask()
    clock.move(FIRST_PAUSE_SECONDS)
    assert breaker.may_ask()


def test_one_at_a_time_tries_an_open_one(breaker: Breaker, clock: ManualClock) -> None:
    fail(breaker)
    clock.move(FIRST_PAUSE_SECONDS)

    assert [breaker.may_ask() for _ in range(3)] == [True, False, False]


def test_a_try_that_was_given_up_is_followed_by_another(
    breaker: Breaker, clock: ManualClock
) -> None:
    fail(breaker)
    clock.move(FIRST_PAUSE_SECONDS)
    assert breaker.may_ask()

    clock.move(FIRST_PAUSE_SECONDS)

    assert breaker.may_ask()


def test_one_success_closes_it_and_the_next_pause_is_short(
    breaker: Breaker, clock: ManualClock
) -> None:
    fail(breaker, 20)
    breaker.succeed()
    assert breaker.may_ask()

    fail(breaker)
    clock.move(FIRST_PAUSE_SECONDS)

    assert breaker.may_ask()


def test_pauses_double_up_to_the_longest(breaker: Breaker, clock: ManualClock) -> None:
    fail(breaker)
    pauses = []
    for _ in range(8):
        waited = 0.0
        while not breaker.may_ask():
            clock.move(FIRST_PAUSE_SECONDS)
            waited += FIRST_PAUSE_SECONDS
        pauses.append(waited)
        breaker.fail()

    assert pauses == [0.5, 1.0, 2.0, 4.0, 8.0, 15.0, 15.0, 15.0]
    assert max(pauses) == LONGEST_PAUSE_SECONDS
