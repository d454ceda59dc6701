from collections.abc import Awaitable, Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from deuz_compiler import Append, Bare, Operation, Reading
from deuz_proxy.ports import Ledger
from deuz_proxy.stores.bounds import Bounds
from deuz_proxy.stores.ledger_memory import ENTRY_BYTES, MemoryLedger
from deuz_testing.ledger_suite import (
    LedgerSuite,
    ManualClock,
    OpenLedger,
    Told,
    append,
    key,
)


def weigh(operations: tuple[Operation, ...]) -> int:
    return sum(len(each.text) for each in operations if isinstance(each, Append))


def memory_ledger(
    clock: ManualClock,
    told: Told,
    *,
    max_entries: int = 10_000,
    max_bytes: int = 10_000_000,
    ttl_seconds: float = 3_600,
) -> MemoryLedger:
    bounds = Bounds(max_entries, max_bytes, ttl_seconds)
    return MemoryLedger(bounds, weigh=weigh, clock=clock, tell=told)


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def told() -> Told:
    return Told()


@pytest.fixture
def open_ledger(clock: ManualClock, told: Told) -> OpenLedger:
    async def opened(**bounds: float) -> Ledger:
        return memory_ledger(clock, told, **bounds)  # type: ignore[arg-type]  # Bounds are numbers of either kind.

    return opened


class TestMemoryLedger(LedgerSuite):
    """The in-process ledger keeps what every ledger promises."""


async def test_the_bytes_told_are_those_of_what_is_held() -> None:
    told = Told()
    ledger = memory_ledger(ManualClock(), told)

    await ledger.commit({key(1): (append("abc"),), key(2): (append("de"),)})
    both = told.last.bytes
    await ledger.commit({key(1): (append("a"),), key(2): ()})

    assert both == 5 + 2 * ENTRY_BYTES
    assert told.last.bytes == 1 + ENTRY_BYTES
    assert told.last.store == "memory"


async def test_that_turns_stay_bare_is_one_value_for_all_of_them() -> None:
    ledger = memory_ledger(ManualClock(), Told())

    await ledger.commit({key(number): (Bare(),) for number in (1, 2)})

    first, second = await ledger.read([key(1), key(2)])
    assert first is second


async def test_what_is_closed_is_forgotten() -> None:
    ledger = memory_ledger(ManualClock(), Told())
    await ledger.commit({key(1): (append("a"),)})

    await ledger.close()

    assert list(await ledger.read([key(1)])) == [()]


async def test_many_conversations_leave_no_more_than_the_bounds_allow() -> None:
    told = Told()
    ledger = memory_ledger(ManualClock(), told, max_entries=100)

    for number in range(10_000):
        await ledger.commit({key(number): (append("x"),)})

    assert told.last.entries == 100
    assert told.count("evict") == 9_900
    assert len(ledger._entries) == 100


@given(
    st.lists(
        st.tuples(st.integers(0, 5), st.integers(0, 400), st.integers(0, 30)),
        max_size=60,
    )
)
async def test_whatever_happens_the_bounds_hold_and_bytes_add_up(
    steps: list[tuple[int, int, int]],
) -> None:
    told, clock = Told(), ManualClock()
    ledger = memory_ledger(
        clock, told, max_entries=3, max_bytes=2 * ENTRY_BYTES + 300, ttl_seconds=50
    )

    for number, length, pause in steps:
        clock.move(pause)
        await ledger.commit({key(number): (append("x" * length),) if length else ()})
        await ledger.read([key(number % 3)])

        held = ledger._entries.values()
        assert len(held) <= 3
        assert ledger._held_bytes == sum(entry.weight_bytes for entry in held)
        assert ledger._held_bytes <= 2 * ENTRY_BYTES + 300
        assert all(clock.now - entry.used_at < 50 for entry in held)
        assert (told.last.entries, told.last.bytes) == (len(held), ledger._held_bytes)


async def read_of(ledger: MemoryLedger, numbers: list[int]) -> Reading:
    await ledger.commit({key(number): (append("a"),) for number in numbers})
    return ledger.read_here([key(number) for number in numbers])


async def replace_it(ledger: MemoryLedger, _: ManualClock) -> None:
    await ledger.commit({key(1): (append("other"),)})


async def remove_it(ledger: MemoryLedger, _: ManualClock) -> None:
    await ledger.commit({key(1): ()})


async def rewrite_it(ledger: MemoryLedger, _: ManualClock) -> None:
    await ledger.rewrite(lambda held: (append("forgotten"),) * len(held))


async def expire_it(ledger: MemoryLedger, clock: ManualClock) -> None:
    clock.move(3_600)
    ledger.read_here([])


async def squeeze_it(ledger: MemoryLedger, _: ManualClock) -> None:
    await ledger.commit({key(9): (append("x" * 9_999_500),)})


async def close_it(ledger: MemoryLedger, _: ManualClock) -> None:
    await ledger.close()


@pytest.mark.parametrize(
    "let_go", [replace_it, remove_it, rewrite_it, expire_it, squeeze_it, close_it]
)
async def test_an_entry_that_is_let_go_keeps_no_text_and_is_read_anew(
    let_go: Callable[[MemoryLedger, ManualClock], Awaitable[None]],
    clock: ManualClock,
    told: Told,
) -> None:
    ledger = memory_ledger(clock, told)
    known = await read_of(ledger, [1])

    await let_go(ledger, clock)

    assert known.held[0].operations == ()
    assert ledger.read_here([key(1)], known).held is not known.held


async def test_what_is_held_as_before_is_known_again(
    clock: ManualClock, told: Told
) -> None:
    ledger = memory_ledger(clock, told)
    known = await read_of(ledger, [1, 2])
    await ledger.commit({key(8): (append("of another conversation"),)})

    again = ledger.read_here([key(1), key(2), key(3)], known)

    assert again.held is known.held
    assert again.count == 3
    # Of what only another request was asked of, the older reading tells nothing.
    assert known.version < again.version


async def test_what_is_read_again_is_used(clock: ManualClock, told: Told) -> None:
    ledger = memory_ledger(clock, told, ttl_seconds=100)
    known = await read_of(ledger, [1, 2])

    for _ in range(50):
        clock.move(9)
        known = ledger.read_here([key(1), key(2)], known)

    assert len(known.held) == 2


async def test_what_is_kept_behind_it_is_no_use_of_what_was_read_before(
    clock: ManualClock, told: Told
) -> None:
    ledger = memory_ledger(clock, told, ttl_seconds=100)
    known = await read_of(ledger, [0])

    for number in range(1, 30):
        clock.move(9)
        keys = [key(at) for at in range(number + 1)]
        known = ledger.read_here(keys, known)
        await ledger.commit({keys[-1]: (Bare(),)})
        known = ledger.held_here(keys)

    assert len(known.held) == 30


async def test_what_is_held_here_is_gone_on_with_and_no_use(
    clock: ManualClock, told: Told
) -> None:
    ledger = memory_ledger(clock, told, ttl_seconds=100)
    await ledger.commit({key(1): (append("a"),)})
    clock.move(60)

    known = ledger.held_here([key(1)])

    assert ledger.read_here([key(1), key(2)], known).held is known.held
    await ledger.commit({key(1): (append("b"),)})
    clock.move(60)
    ledger.held_here([key(1)])
    clock.move(60)
    assert not ledger.read_here([key(1)]).held


@given(
    st.lists(
        st.tuples(
            st.sampled_from(["put", "bare", "drop", "forget", "wait", "read"]),
            st.integers(0, 5),
        ),
        max_size=40,
    )
)
async def test_going_on_from_what_was_read_is_reading(
    steps: list[tuple[str, int]],
) -> None:
    clock = ManualClock()
    ledger = memory_ledger(clock, Told(), max_entries=4, ttl_seconds=100)
    keys, known = [key(number) for number in range(5)], None

    for step, number in steps:
        if step == "put":
            await ledger.commit({key(number): (append(str(number)),)})
        elif step == "bare":
            await ledger.commit({key(number): (Bare(),)})
        elif step == "drop":
            await ledger.commit({key(number): ()})
        elif step == "forget":
            await ledger.rewrite(lambda held: (Bare(is_redacted=True),) * len(held))
        elif step == "wait":
            clock.move(9 * number)
        reading = ledger.read_here(keys, known)
        whole = ledger.read_here(keys)

        assert _operations(reading) == _operations(whole)
        assert all(_operations(reading).values())
        # What is gone on with may be of the first of them alone.
        count = 5 if number % 2 else 3
        held = {at: entry for at, entry in reading.held.items() if at < count}
        known = replace(reading, held=held, count=count) if count < 5 else reading


def _operations(reading: Reading) -> dict[int, tuple[Operation, ...]]:
    return {at: entry.operations for at, entry in reading.held.items()}
