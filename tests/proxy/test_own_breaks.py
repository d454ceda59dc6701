"""Breaks of ours: what the ledger put out, another mode, and what is a fault."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from deuz_compiler import Append, Operation, project
from deuz_proxy.errors import StoreFailed
from deuz_proxy.observe.events import RequestFinished
from deuz_proxy.stages import compile as compile_stage
from deuz_proxy.stores.ledger_memory import MemoryLedger
from deuz_testing.bodies import (
    anthropic_body,
    tool_result,
    tool_use,
)
from deuz_testing.conversation import (
    Conversation,
    Step,
    anthropic_answer,
    anthropic_overflow,
    client_gets,
    conversation,
    request,
    tool_turns,
    upstream_gets,
    upstream_says,
)
from deuz_testing.line import FixedSource, Told, make_config, make_runtime
from deuz_testing.redis_process import running_redis
from deuz_testing.small_ledger import Small

OK = anthropic_answer()
QUESTIONS = 5


@pytest.fixture
def told() -> Told:
    return Told()


@pytest.fixture(
    params=[
        "memory",
        "sqlite",
        pytest.param("redis", marks=pytest.mark.needs("redis-server")),
    ]
)
def url(request: pytest.FixtureRequest, tmp_path: Path) -> Any:
    if request.param != "redis":
        file = f"sqlite:///{tmp_path}/ledger.db"
        yield "memory://" if request.param == "memory" else file
        return
    with running_redis() as process:
        yield process.url


@pytest_asyncio.fixture
async def small(told: Told, url: str) -> AsyncIterator[Small]:
    async with AsyncExitStack() as stack:
        yield Small(told, stack, url)


def told_break(event: RequestFinished) -> tuple[str, str | None, str | None, int]:
    assert event.verdict is not None
    verdict = event.verdict
    return verdict.verdict, verdict.cause, verdict.owner, event.sidecar_mutations


def told_cause(event: RequestFinished) -> tuple[str, str | None]:
    """Return the break of what was sent, or would be."""
    prediction = event.prediction
    if prediction is not None:
        return prediction.verdict, prediction.cause
    assert event.verdict is not None
    return event.verdict.verdict, event.verdict.cause


GOES_ON = ("extended", None, None, 0)
EVICTED = ("broken", "evicted", "sidecar", 0)


async def test_a_ledger_that_is_too_small_for_a_conversation_says_so(
    small: Small,
) -> None:
    await small.open(max_entries=2)

    events = [await small.ask(number) for number in range(1, QUESTIONS + 1)]

    # The third block put the first one out.
    assert [told_break(event) for event in events[1:]] == [
        GOES_ON,
        GOES_ON,
        EVICTED,
        EVICTED,
    ]


async def test_a_block_that_got_too_old_says_so_once(small: Small) -> None:
    await small.open(ttl_seconds=60)
    await small.ask(1)

    small.clock.move(61)
    events = [await small.ask(number) for number in range(2, 5)]

    assert [told_break(event) for event in events] == [EVICTED, GOES_ON, GOES_ON]


async def test_a_ledger_that_is_large_enough_breaks_nothing(small: Small) -> None:
    await small.open(max_entries=QUESTIONS)

    events = [await small.ask(number) for number in range(1, QUESTIONS + 1)]

    assert {told_break(event) for event in events[1:]} == {GOES_ON}


async def test_what_would_be_sent_is_told_the_same_way(small: Small) -> None:
    await small.open(mode="shadow", max_entries=2)

    events = [await small.ask(number) for number in range(1, QUESTIONS + 1)]

    # What was sent is the client's own.
    assert {told_break(event) for event in events[1:]} == {GOES_ON}
    last = events[-1].prediction
    assert last is not None
    assert (last.verdict, last.cause) == ("broken", "evicted")


class Changing:
    """A ledger with a bug: it holds all, and answers another text than it was given."""

    def __init__(self, inner: Any) -> None:
        self._inner = inner

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def read_here(self, keys: Any, known: Any = None) -> None:
        """Say that it is to be waited for."""

    def held_here(self, keys: Any) -> None:
        """Say so here, too."""

    async def read(self, keys: Any) -> list[tuple[Operation, ...]]:
        found = await self._inner.read(keys)
        return [
            tuple(
                Append(b"other", each.records, each.tokens, each.form)
                if isinstance(each, Append)
                else each
                for each in held
            )
            for held in found
        ]


@pytest.mark.parametrize(("before", "after"), [(1, 2), (3, 2)])
async def test_a_ledger_that_holds_something_else_is_told_by_name(
    told: Told, before: int, after: int
) -> None:
    async with AsyncExitStack() as stack:
        small = await Small(told, stack, "memory://").open()
        for number in range(1, before + 1):
            await small.ask(number)
        parts: dict[str, Any] = {"ledger": Changing(small.runtime.ledger)}
        small.runtime = make_runtime(
            small.runtime.config, told, tracker=small.runtime.tracker, **parts
        )

        event = await small.ask(after)

    assert told_break(event) == ("broken", "ledger_changed", "sidecar", 0)


@pytest.mark.parametrize("mode", ["compile", "shadow"])
async def test_a_change_while_the_ledger_holds_what_it_held_is_a_fault(
    told: Told, monkeypatch: pytest.MonkeyPatch, mode: str
) -> None:
    """The fault is one of laying out: it writes another text than the ledger holds."""

    def project_wrongly(envelope: Any, operations: Any, *args: Any, **more: Any) -> Any:
        other = {
            turn: tuple(
                replace(each, text=b"other") if isinstance(each, Append) else each
                for each in held
            )
            for turn, held in operations.items()
        }
        return project(envelope, other, *args, **more)

    async with AsyncExitStack() as stack:
        small = await Small(told, stack, "memory://").open(mode=mode)
        await small.ask(1)
        # What stands is not laid out anew, but for one that nothing is known of.
        small.turn_to(mode)
        monkeypatch.setattr(compile_stage, "project", project_wrongly)

        event = await small.ask(2)

    if mode == "compile":
        assert told_break(event) == ("broken", "sidecar_changed", "sidecar", 1)
    else:
        assert event.prediction is not None
        assert event.prediction.cause == "sidecar_changed"


async def test_a_branch_that_decides_anew_what_was_put_out_is_no_fault(
    small: Small,
) -> None:
    await small.open(ttl_seconds=60)
    for number in (1, 2, 3, 3):
        await small.ask(number)
    small.clock.move(61)

    branch = await small.ask(4, branch="another answer")
    first = await small.ask(4)

    assert told_break(branch) == EVICTED
    # As many turns are held as there were, but they are decided otherwise.
    assert told_break(first) == ("broken", "ledger_changed", "sidecar", 0)


@pytest.mark.parametrize("other", ["observe", "shadow"])
async def test_another_mode_breaks_once_and_is_no_fault(
    small: Small, other: str
) -> None:
    await small.open()
    await small.ask(1)
    await small.ask(2)

    small.turn_to(other)
    away = [await small.ask(3), await small.ask(4)]
    small.turn_to("compile")
    back = [await small.ask(5), await small.ask(6)]

    changed = ("broken", "mode_changed", "sidecar", 0)
    assert [told_break(event) for event in away] == [changed, GOES_ON]
    assert [told_break(event) for event in back] == [changed, GOES_ON]


@pytest.mark.parametrize("other", ["observe", "shadow"])
async def test_another_mode_is_the_cause_where_a_client_went_back_as_well(
    small: Small, other: str
) -> None:
    await small.open(mode=other)
    for number in range(1, 4):
        await small.ask(number)

    small.turn_to("compile")
    back = await small.ask(2)
    small.turn_to(other)
    shorter = await small.ask(1)

    assert told_break(back) == ("broken", "mode_changed", "sidecar", 0)
    # Nothing stood behind the first question, and nothing is there now.
    assert shorter.verdict is not None
    assert shorter.verdict.verdict == "shortened"


@pytest.mark.parametrize("mode", ["compile", "shadow"])
async def test_what_was_put_out_is_told_where_a_client_went_back_as_well(
    small: Small, mode: str
) -> None:
    await small.open(mode=mode, ttl_seconds=60)
    for number in range(1, 5):
        await small.ask(number)

    small.clock.move(61)
    back = await small.ask(3)

    assert told_cause(back) == ("broken", "evicted")
    assert back.sidecar_mutations == 0


class Full:
    """A ledger that answers, and keeps nothing more."""

    def __init__(self, inner: Any) -> None:
        self._inner = inner

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    async def commit(self, operations: Any) -> None:
        raise StoreFailed(store="full", operation="commit")


async def test_what_could_not_be_kept_is_the_ledgers_failure_not_its_bounds(
    told: Told,
) -> None:
    async with AsyncExitStack() as stack:
        small = await Small(told, stack, "memory://").open()
        whole = small.runtime.ledger
        parts: dict[str, Any] = {
            "tracker": small.runtime.tracker,
            "sources": small.runtime.sources,
        }
        small.runtime = make_runtime(
            small.runtime.config, told, ledger=Full(whole), **parts
        )
        await small.ask(1)
        small.runtime = make_runtime(small.runtime.config, told, ledger=whole, **parts)

        event = await small.ask(2)

    assert event.verdict is not None
    assert (event.verdict.cause, event.verdict.owner) == ("ledger_lost", "sidecar")


async def test_a_block_that_the_ledger_lost_meanwhile_is_missing_from_the_next_turn_on(
    told: Told,
) -> None:
    """A recovery shortens what was tried, whatever became of the ledger since."""
    config = make_config(more="overflow: {layers: [prune-tool-results]}")
    runtime = make_runtime(config, told, sources=[FixedSource()])
    turns = tool_turns()

    def holds(*, block: bool) -> Step:
        return upstream_gets(lambda asked: (b"in metres" in asked.body) is block)

    async def lose_all(_: Conversation) -> None:
        ledger = runtime.ledger
        assert isinstance(ledger, MemoryLedger)
        await ledger.commit(dict.fromkeys(list(ledger._entries), ()))

    for end in (1, 3, 5, 7):
        talk = conversation(runtime) >> request(anthropic_body(turns[:end]))
        talk <<= holds(block=True)
        await (talk >> upstream_says(OK) << client_gets(OK.chunks[0]))
    talk = conversation(runtime) >> request(anthropic_body(turns))
    talk = (
        (talk << holds(block=True)) >> lose_all >> upstream_says(anthropic_overflow())
    )
    talk <<= holds(block=True)
    await (talk >> upstream_says(OK) << client_gets(OK.chunks[0]))

    assert told.last.verdict is not None
    assert told.last.verdict.cause == "overflow_recovery"
    talk = conversation(runtime) >> request(
        anthropic_body([*turns, tool_use("t9"), tool_result("t9", "found")])
    )
    await (talk << holds(block=False) >> upstream_says(OK) << client_gets(OK.chunks[0]))
    assert told.last.verdict.cause == "evicted"
    assert told.last.sidecar_mutations == 0


GOES = st.tuples(st.integers(1, QUESTIONS), st.sampled_from(["", "", "elsewhere"]))
TURNED = st.sampled_from(["observe", "shadow", "compile"])


@settings(max_examples=60, deadline=None)
@given(
    entries=st.integers(1, QUESTIONS + 1),
    steps=st.lists(st.one_of(GOES, TURNED, st.integers(20, 61)), max_size=14),
)
async def test_whatever_ledger_and_mode_do_who_goes_on_or_back_is_not_blamed(
    entries: int, steps: list[tuple[int, str] | str | int]
) -> None:
    told, has_branched = Told(), False
    async with AsyncExitStack() as stack:
        small = await Small(told, stack, "memory://").open(
            max_entries=entries, ttl_seconds=60
        )
        for step in steps:
            if isinstance(step, int):
                small.clock.move(step)
                continue
            if isinstance(step, str):
                small.turn_to(step)
                continue
            number, branch = step
            branch = branch if number > 1 else ""
            has_branched = has_branched or bool(branch)
            event = await small.ask(number, branch=branch)

            assert event.verdict is not None
            assert event.sidecar_mutations == 0
            prediction = event.prediction
            assert prediction is None or prediction.cause != "sidecar_changed"
            assert has_branched or event.verdict.owner != "client"
