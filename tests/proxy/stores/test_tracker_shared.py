"""The tracker of several replicas: together they say what one alone would say."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AsyncExitStack
from itertools import count
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from deuz_proxy.config.ledger import LedgerConfig
from deuz_proxy.stores.build import open_stores
from deuz_proxy.stores.conversations import Ask, Found, Save
from deuz_proxy.stores.tracker import Tracker
from deuz_proxy.stores.tracker_shared import SharedTracker
from deuz_testing.ledger_suite import ManualClock, Told
from deuz_testing.redis_process import RedisProcess, running_redis
from deuz_testing.tracker_talks import Talk, show

Replica = Callable[[], "asyncio.Future[SharedTracker]"]


@pytest.fixture(scope="module")
def process() -> Iterator[RedisProcess]:
    with running_redis() as server:
        yield server


@pytest.fixture(
    params=["sqlite", pytest.param("redis", marks=pytest.mark.needs("redis-server"))]
)
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/ledger.db"
    server: RedisProcess = request.getfixturevalue("process")
    # A database of its own, so that no test sees what another left.
    request.config.stash[_DATABASE] = request.config.stash.get(_DATABASE, 0) + 1
    number = request.config.stash[_DATABASE] % 16
    server.flush(number)
    return server.url.removesuffix("/0") + f"/{number}"


_DATABASE = pytest.StashKey[int]()


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def told() -> Told:
    return Told()


class Replicas:
    """Opens trackers over one store."""

    def __init__(
        self, url: str, stack: AsyncExitStack, clock: ManualClock, told: Told
    ) -> None:
        self.url, self.stack, self.clock, self.told = url, stack, clock, told
        self.numbers = count(1)

    async def open(self, **more: object) -> SharedTracker:
        config = LedgerConfig.model_validate(
            {"url": self.url, "deadline_ms": 10_000, "ttl_seconds": 600} | more
        )
        stores = await open_stores(
            config,
            self.stack,
            new_id=lambda: f"c{next(self.numbers)}",
            tell=self.told,
            clock=self.clock,
        )
        assert isinstance(stores.shared, SharedTracker)
        return stores.shared


@pytest.fixture
async def replicas(url: str, clock: ManualClock, told: Told) -> AsyncIterator[Replicas]:
    async with AsyncExitStack() as stack:
        yield Replicas(url, stack, clock, told)


async def test_one_goes_on_from_what_the_other_recorded(replicas: Replicas) -> None:
    talk, one, two = Talk(), await replicas.open(), await replicas.open()

    verdicts = []
    names = set()
    for number in range(1, 9):
        tracker = (one, two)[number % 2]
        words = " ".join(f"w{n}" for n in range(number))
        sighting, verdict = await talk.send_shared(tracker, words)
        verdicts.append(verdict.verdict)
        names.add(sighting.conversation)

    assert verdicts == ["first"] + ["extended"] * 7
    assert len(names) == 1


async def test_a_restart_in_the_middle_goes_on(replicas: Replicas) -> None:
    talk, before = Talk(), await replicas.open()
    first, _ = await talk.send_shared(before, "a")
    before.note_frontier(first.conversation, 4_321)
    await before.settle()

    after = await replicas.open()
    sighting, verdict = await talk.send_shared(after, "a b c")

    assert verdict.verdict == "extended"
    assert sighting.conversation == first.conversation
    assert sighting.baselines[0].frontier_tokens == 4_321


async def test_a_break_is_named_from_a_text_that_another_saw(
    replicas: Replicas,
) -> None:
    talk, one, two = Talk(), await replicas.open(), await replicas.open()
    await talk.send_shared(two, "a", system="It is 2026-01-02 10:00 now.")
    await talk.send_shared(one, "a b", system="It is 2026-01-02 10:05 now.")

    _, verdict = await talk.send_shared(
        two, "a b c", system="It is 2026-01-02 11:00 now."
    )

    assert (verdict.verdict, verdict.cause) == ("broken", "system_time")
    assert verdict.offset is not None


async def test_a_side_call_is_told_by_the_session_that_another_saw(
    replicas: Replicas,
) -> None:
    talk, one, two = Talk(), await replicas.open(), await replicas.open()
    await talk.send_shared(one, "a b", session=b"s1")

    side, _ = await talk.send_shared(two, "title", system="other", session=b"s1")
    stranger, _ = await talk.send_shared(two, "title2", system="other", session=b"s2")

    assert side.is_side_call
    assert not stranger.is_side_call


async def test_nothing_is_found_by_another_scope(replicas: Replicas) -> None:
    talk, one, two = Talk(), await replicas.open(), await replicas.open()
    await talk.send_shared(one, "a b", root=b"x" * 16)

    sighting, verdict = await talk.send_shared(two, "a b c", root=b"y" * 16)

    assert verdict.verdict == "first"
    assert sighting.baselines == ()


async def test_requests_under_way_together_lose_nothing(replicas: Replicas) -> None:
    talk, one, two = Talk(), await replicas.open(), await replicas.open()
    await talk.send_shared(one, "a")
    for tracker in (one, two):
        await tracker.load(show("a b")[0], session=None)

    # Both recorded on top of the same form; who saves later takes the other's first.
    talk.send(one, "a b")
    talk.send(two, "a c")
    await asyncio.gather(one.settle(), two.settle())

    third = await replicas.open()
    assert (await talk.send_shared(third, "a b b"))[1].verdict == "extended"
    count_b, _ = third._local.longest(show("a b b")[0])
    count_c, name = third._local.longest(show("a c c")[0])
    assert (count_b, count_c) == (3, 2)
    assert name is not None


async def test_who_could_not_look_after_losing_a_race_saves_what_comes_then(
    replicas: Replicas, monkeypatch: pytest.MonkeyPatch
) -> None:
    talk, one, two = Talk(), await replicas.open(), await replicas.open()
    await talk.send_shared(one, "a")
    await two.load(show("a")[0], session=None)
    await talk.send_shared(one, "a b")

    with monkeypatch.context() as failing:
        failing.setattr(two._conversations, "find", _late)
        talk.send(two, "a b c")
        await two.settle()
    await talk.send_shared(two, "a b c d")

    third = await replicas.open()
    assert (await talk.send_shared(third, "a b c d e"))[1].verdict == "extended"
    assert third._local.longest(show("a b c d e")[0])[0] == 5
    assert two._unsaved == {}


async def _late(*_: object, **__: object) -> None:
    raise TimeoutError


async def test_what_is_on_its_way_to_the_store_outlives_a_look_up_of_before(
    replicas: Replicas, monkeypatch: pytest.MonkeyPatch
) -> None:
    talk, tracker, look = Talk(), await replicas.open(), asyncio.Event()
    find, save = tracker._conversations.find, tracker._conversations.save
    talk.send(tracker, "a")

    async def find_and_wait(ask: Ask, *, oldest: float) -> Found | None:
        await tracker.settle()
        found = await find(ask, oldest=oldest)
        # An equal request has been answered meanwhile, and is being saved.
        talk.send(tracker, "a b")
        await look.wait()
        return found

    async def save_behind_it(save_: Save, *, now: float, ttl_seconds: float) -> bool:
        if save_.stamp:
            look.set()
            await loaded
        return await save(save_, now=now, ttl_seconds=ttl_seconds)

    with monkeypatch.context() as slow:
        slow.setattr(tracker._conversations, "find", find_and_wait)
        slow.setattr(tracker._conversations, "save", save_behind_it)
        loading = tracker.load(show("a c")[0], session=None)
        loaded = asyncio.ensure_future(loading)
        await loaded
        await tracker.settle()

    assert tracker._local.longest(show("a b c")[0])[0] == 2


async def test_a_look_up_that_two_saves_overtook_takes_nothing_back(
    replicas: Replicas, monkeypatch: pytest.MonkeyPatch
) -> None:
    talk, tracker = Talk(), await replicas.open()
    find = tracker._conversations.find
    await talk.send_shared(tracker, "a")

    async def find_late(ask: Ask, *, oldest: float) -> Found | None:
        await tracker.settle()
        found = await find(ask, oldest=oldest)
        talk.send(tracker, "a b c")
        await tracker.settle()
        return found

    with monkeypatch.context() as slow:
        slow.setattr(tracker._conversations, "find", find_late)
        talk.send(tracker, "a b")
        await tracker.load(show("a b c d")[0], session=None)

    assert tracker._local.longest(show("a b c d")[0])[0] == 3
    assert (await talk.send_shared(tracker, "a b c d"))[1].verdict == "extended"


async def test_a_look_up_while_what_was_recorded_is_saved_takes_nothing_back(
    replicas: Replicas, monkeypatch: pytest.MonkeyPatch
) -> None:
    talk, one, two = Talk(), await replicas.open(), await replicas.open()
    await talk.send_shared(one, "a")
    await talk.send_shared(two, "a b")
    save, is_saving, is_looked = (
        one._conversations.save,
        asyncio.Event(),
        asyncio.Event(),
    )

    async def save_late(save_: Save, *, now: float, ttl_seconds: float) -> bool:
        is_saving.set()
        await is_looked.wait()
        return await save(save_, now=now, ttl_seconds=ttl_seconds)

    with monkeypatch.context() as slow:
        slow.setattr(one._conversations, "save", save_late)
        talk.send(one, "a c")
        await is_saving.wait()
        await one.load(show("a c d")[0], session=None)
        kept = one._local.longest(show("a c d")[0])[0]
        is_looked.set()
        await one.settle()

    # Once it is saved, what the other recorded is here as well.
    assert kept == 2
    assert one._local.longest(show("a c d")[0])[0] == 2
    assert one._local.longest(show("a b c")[0])[0] == 2


async def test_a_look_up_between_two_tries_to_save_takes_nothing_back(
    replicas: Replicas, monkeypatch: pytest.MonkeyPatch
) -> None:
    talk, one, two = Talk(), await replicas.open(), await replicas.open()
    await talk.send_shared(one, "a")
    await talk.send_shared(two, "a b")
    find, kept = one._conversations.find, list[int]()

    async def find_late(ask: Ask, *, oldest: float) -> Found | None:
        if ask.stamp < 0:
            await one.load(show("a c d")[0], session=None)
            kept.append(one._local.longest(show("a c d")[0])[0])
        return await find(ask, oldest=oldest)

    with monkeypatch.context() as slow:
        slow.setattr(one._conversations, "find", find_late)
        talk.send(one, "a c")
        await one.settle()

    assert kept == [2]
    assert one._local.longest(show("a b c")[0])[0] == 2


async def test_a_save_that_another_was_faster_than_keeps_the_session(
    replicas: Replicas,
) -> None:
    talk, one, two = Talk(), await replicas.open(), await replicas.open()
    await talk.send_shared(one, "a")
    await talk.send_shared(two, "a b")
    talk.send(one, "a c", session=b"one")
    await one.settle()

    other = await replicas.open()
    await other.load(show("x")[0], session=b"one")

    assert other._local.session_of(b"one") is not None


async def test_what_nobody_used_for_its_age_is_not_found(
    replicas: Replicas, clock: ManualClock
) -> None:
    talk = Talk()
    await talk.send_shared(await replicas.open(), "a")

    clock.move(601)

    _, verdict = await talk.send_shared(await replicas.open(), "a b")
    assert verdict.verdict == "first"


async def test_a_long_history_that_is_not_known_is_one_look_up(
    replicas: Replicas, told: Told
) -> None:
    talk = Talk()
    words = " ".join(f"w{n}" for n in range(2_100))
    await talk.send_shared(await replicas.open(), words)
    told.events.clear()
    fresh = await replicas.open()

    keys, _, _ = show(words + " x y z")
    await fresh.load(keys, session=b"s")

    assert fresh._local.longest(keys)[0] == 2_100


TALKS = st.lists(
    st.tuples(
        st.integers(0, 1),
        st.sampled_from(
            ["a", "a b", "a b c", "a b d", "a x", "a x y", "b", "b c", "a b c d e"]
        ),
        st.sampled_from(["s", "s", "s", "t"]),
        st.sampled_from([None, b"one"]),
    ),
    max_size=12,
)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=60)
@given(TALKS)
async def test_replicas_that_take_turns_say_what_one_would(
    tmp_path_factory: pytest.TempPathFactory,
    requests: list[tuple[int, str, str, bytes | None]],
) -> None:
    folder = tmp_path_factory.mktemp("talk")
    alone, numbers = Talk(), count(1)
    local = Tracker(new_id=lambda: f"l{next(numbers)}")
    together, names = Talk(), dict[str, str]()
    async with AsyncExitStack() as stack:
        url = f"sqlite:///{folder}/ledger.db"
        replicas = Replicas(url, stack, ManualClock(), Told())
        trackers = (await replicas.open(), await replicas.open())
        for number, words, system, session in requests:
            wanted, verdict = alone.send(local, words, system=system, session=session)
            sighting, told = await together.send_shared(
                trackers[number], words, system=system, session=session
            )

            assert told == verdict
            assert sighting.baselines == wanted.baselines
            assert sighting.is_fork == wanted.is_fork
            assert sighting.is_side_call == wanted.is_side_call
            # Names differ, conversations do not.
            assert names.setdefault(wanted.conversation, sighting.conversation) == (
                sighting.conversation
            )


async def test_a_store_that_fails_costs_no_verdict_of_what_is_known_here(
    tmp_path: Path, told: Told
) -> None:
    with running_redis() as process:
        async with AsyncExitStack() as stack:
            replicas = Replicas(process.url, stack, ManualClock(), told)
            tracker, talk = await replicas.open(deadline_ms=100), Talk()
            await talk.send_shared(tracker, "a")
            process.kill()

            verdicts = [
                (await talk.send_shared(tracker, words))[1].verdict
                for words in ("a b", "a b c", "a b c d", "a b c d e", "a b c d e f")
            ]

            assert verdicts == ["extended"] * 5
            assert {e.status for e in told.events if e.op == "load"} >= {
                "failed",
                "open",
            }


async def test_an_empty_history_asks_nothing(replicas: Replicas, told: Told) -> None:
    tracker = await replicas.open()

    await tracker.load([], session=None)
    tracker.record(
        tracker.sight([], show("a")[1], session=None, is_probe=False),
        [],
        None,  # type: ignore[arg-type]  # Not looked at.
        session=None,
        texts=[],
    )

    assert told.events == []
