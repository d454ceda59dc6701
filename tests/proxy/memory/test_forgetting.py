"""Forgetting, through the whole line: placed, forgotten, and what is told of it."""

import json
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from deuz_compiler import Append, Bare, PlacedRecord
from deuz_proxy.config.ledger import LedgerConfig
from deuz_proxy.config.memory import StoreSource
from deuz_proxy.errors import StoreFailed
from deuz_proxy.memory.forgetting import Forgotten, Memory
from deuz_proxy.memory.records import Draft
from deuz_proxy.ports import Ledger
from deuz_proxy.runtime import Runtime
from deuz_proxy.serving import new_id
from deuz_proxy.sources.store import StoredRecords
from deuz_proxy.sources.words import words_of
from deuz_proxy.stores.build import open_stores
from deuz_proxy.stores.memory_sqlite import SqliteMemory
from deuz_testing.bodies import anthropic_body, assistant, user
from deuz_testing.conversation import (
    Conversation,
    Step,
    anthropic_answer,
    anthropic_overflow,
    client_gets,
    conversation,
    is_summary,
    request,
    told_turns,
    upstream_gets,
    upstream_says,
)
from deuz_testing.line import Told, make_config, make_runtime
from deuz_testing.redis_process import running_redis
from deuz_testing.scripted import Asked, GivenClient

CANARY, OTHER = "The canary is yellow.", "The parrot is green."
ASK = [user("what colour is the canary, what the parrot?")]
OK = anthropic_answer()
TENANTS = "context: {refresh: {deadline_ms: 5000, min_steps: 9}}"


@dataclass
class Clock:
    now: float = 1_000.0

    def __call__(self) -> float:
        return self.now


@dataclass
class Part:
    """A line with a memory behind it."""

    memory: Memory
    runtime: Runtime
    told: Told
    clock: Clock


@pytest_asyncio.fixture
async def part() -> AsyncIterator[Part]:
    async with opened_part("memory://") as made:
        yield made


@asynccontextmanager
async def opened_part(url: str) -> AsyncIterator[Part]:
    """Open a line whose ledger is there."""
    told, clock = Told(), Clock()
    config = LedgerConfig.model_validate({"url": url, "deadline_ms": 10_000})
    async with AsyncExitStack() as stack:
        stores = await open_stores(config, stack, new_id=new_id, tell=told, clock=clock)
        records = await SqliteMemory(":memory:", words_of=words_of).open()
        stack.push_async_callback(records.close)
        memory = Memory(records, stores.ledger, clock=clock)
        runtime = make_runtime(
            make_config(more=TENANTS),
            told,
            sources=[StoredRecords(StoreSource(type="store"), records, clock=clock)],
            ledger=stores.ledger,
            tracker=stores.tracker,
            shared=stores.shared,
            memory=memory,
            clock=clock,
        )
        yield Part(memory, runtime, told, clock)


def texts(asked: Asked) -> str:
    return json.dumps(asked.payload)


def has(*wanted: str, lacks: tuple[str, ...] = ()) -> Any:
    def check(asked: Asked) -> bool:
        text = texts(asked)
        return all(w in text for w in wanted) and not any(w in text for w in lacks)

    return check


def is_whole(client: GivenClient) -> bool:
    return client.is_finished


async def talk(part: Part, turns: list[Any], check: Any) -> None:
    exchange = conversation(part.runtime) >> request(anthropic_body(turns))
    exchange <<= upstream_gets(check)
    await (exchange >> upstream_says(OK) << client_gets(is_whole))


def turns_after(count: int) -> list[Any]:
    turns = list(ASK)
    for number in range(count):
        turns += [assistant("It is."), user(f"and {number}?")]
    return turns


async def remember_both(part: Part, scope: str = "default") -> None:
    await part.memory.remember(scope, Draft("canary", CANARY))
    await part.memory.remember(scope, Draft("parrot", OTHER))


async def test_what_is_forgotten_leaves_the_conversation_and_the_break_is_ours(
    part: Part,
) -> None:
    await remember_both(part)
    await talk(part, turns_after(0), has(CANARY, OTHER))
    await talk(part, turns_after(1), has(CANARY, OTHER))

    forgotten = await part.memory.forget("default", ["canary"])

    assert forgotten == Forgotten(1, 1)
    await talk(part, turns_after(2), has(OTHER, lacks=(CANARY, 'id=\\"canary')))
    verdict = part.told.last.verdict
    assert verdict is not None
    assert (verdict.verdict, verdict.segment) == ("broken", "turn")
    assert (verdict.cause, verdict.owner) == ("record_forgotten", "sidecar")
    assert verdict.lost_tokens > 0
    assert part.told.last.sidecar_mutations == 0
    await talk(part, turns_after(3), has(OTHER, lacks=(CANARY,)))
    assert part.told.last.verdict is not None
    assert part.told.last.verdict.verdict == "extended"


async def test_a_block_whose_records_are_all_forgotten_is_gone_for_good(
    part: Part,
) -> None:
    await remember_both(part)
    await talk(part, turns_after(0), has(CANARY))
    await talk(part, turns_after(1), has(CANARY))

    forgotten = await part.memory.forget("default", ["canary", "parrot", "unknown"])

    assert forgotten == Forgotten(2, 1)
    await talk(part, turns_after(2), has(lacks=("deuz_context",)))
    verdict = part.told.last.verdict
    assert verdict is not None
    assert (verdict.cause, verdict.owner) == ("record_forgotten", "sidecar")
    assert part.told.last.sidecar_mutations == 0
    await talk(part, turns_after(3), has(lacks=("deuz_context",)))


async def test_forgetting_twice_is_forgetting_once(part: Part) -> None:
    await remember_both(part)
    await talk(part, turns_after(0), has(CANARY))

    await part.memory.forget("default", ["canary"])

    assert await part.memory.forget("default", ["canary"]) == Forgotten(0, 0)


async def test_another_scopes_record_of_the_same_name_stays(part: Part) -> None:
    await remember_both(part)
    await part.memory.remember("other", Draft("canary", CANARY))
    await talk(part, turns_after(0), has(CANARY))

    assert await part.memory.forget("other", ["canary"]) == Forgotten(1, 0)

    await talk(part, turns_after(1), has(CANARY))


async def test_what_a_request_under_way_commits_later_is_forgotten_too(
    part: Part,
) -> None:
    await remember_both(part)
    exchange = conversation(part.runtime)
    await (exchange >> request(anthropic_body(ASK)) << upstream_gets(has(CANARY)))

    # It has been compiled and sent, and commits when the upstream accepts.
    assert await part.memory.forget("default", ["canary"]) == Forgotten(1, 0)
    await (exchange >> upstream_says(OK) << client_gets(is_whole))

    await talk(part, turns_after(1), has(OTHER, lacks=(CANARY,)))
    assert part.told.last.verdict is not None
    assert part.told.last.verdict.cause == "record_forgotten"
    assert part.told.last.sidecar_mutations == 0


async def test_what_is_remembered_again_may_be_placed_again(part: Part) -> None:
    await remember_both(part)
    await part.memory.forget("default", ["canary"])
    part.clock.now += 1
    await part.memory.remember("default", Draft("canary", CANARY))
    part.clock.now += 1

    await talk(part, turns_after(0), has(CANARY))
    await talk(part, turns_after(1), has(CANARY))


async def test_an_improved_text_leaves_what_was_placed_as_it_was(part: Part) -> None:
    await remember_both(part)
    await talk(part, turns_after(0), has(CANARY))

    record = await part.memory.remember("default", Draft("canary", "It is red."))

    assert record.revision == 2
    await talk(part, turns_after(1), has(CANARY, lacks=("It is red.",)))


class FailingLedger:
    """A ledger that does not answer once."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self.read, self.read_here = ledger.read, ledger.read_here
        self.held_here = ledger.held_here
        self.commit, self.close = ledger.commit, ledger.close
        self._is_down = True

    async def rewrite(self, change: Any) -> int:
        if self._is_down:
            self._is_down = False
            raise StoreFailed(store="memory", operation="rewrite")
        return await self._ledger.rewrite(change)


async def test_a_ledger_that_fails_is_told_and_the_next_try_takes_the_rest(
    part: Part,
) -> None:
    failing = FailingLedger(part.runtime.ledger)
    memory = Memory(part.memory.records, failing, clock=part.clock)
    await remember_both(part)
    await talk(part, turns_after(0), has(CANARY))

    with pytest.raises(StoreFailed):
        await memory.forget("default", ["canary"])

    assert await memory.forget("default", ["canary"]) == Forgotten(0, 1)


async def test_nothing_is_looked_after_where_no_record_of_a_store_was_placed(
    part: Part,
) -> None:
    await part.memory.records.drop("", ["r"], now=part.clock.now)
    placed = Append(b"x", (PlacedRecord("docs", "r"),), 1)
    await part.runtime.ledger.commit({b"k": (placed,)})

    await part.memory.look_after({b"k": (placed, Bare())}, since=0)

    assert list(await part.runtime.ledger.read([b"k"])) == [(placed,)]


SUMMARY = "They said: the canary is yellow, and the parrot is green."
REPEATED = "canary is yellow"


def long_turns(count: int = 8) -> list[Any]:
    return [*ASK, *told_turns(count)[1:]]


async def condense(part: Part) -> None:
    """Bring the conversation to a summary that repeats what was placed."""
    exchange = conversation(part.runtime) >> request(anthropic_body(long_turns()))
    exchange <<= upstream_gets(has(CANARY))
    exchange >>= upstream_says(anthropic_overflow())
    exchange <<= upstream_gets(is_summary)
    exchange >>= upstream_says(anthropic_answer(SUMMARY))
    exchange <<= upstream_gets(has(SUMMARY))
    await (exchange >> upstream_says(OK) << client_gets(is_whole))


async def test_a_summary_that_may_repeat_it_goes_too_and_the_break_is_ours(
    part: Part,
) -> None:
    await remember_both(part)
    await talk(part, turns_after(0), has(CANARY))
    await condense(part)
    await talk(part, long_turns(9), has(SUMMARY, CANARY))

    forgotten = await part.memory.forget("default", ["canary"])

    assert forgotten == Forgotten(1, 2)
    await talk(part, long_turns(10), has(OTHER, "0: The river", lacks=(REPEATED,)))
    verdict = part.told.last.verdict
    assert verdict is not None
    assert (verdict.cause, verdict.owner) == ("record_forgotten", "sidecar")
    assert part.told.last.sidecar_mutations == 0
    await talk(part, long_turns(11), has(OTHER, lacks=(REPEATED,)))
    assert part.told.last.verdict is not None
    assert part.told.last.verdict.verdict == "extended"


async def test_a_summary_taken_out_is_told_where_the_blocks_stay(part: Part) -> None:
    await part.memory.remember("default", Draft("canary", CANARY))
    await talk(part, turns_after(0), has(CANARY))
    await condense(part)
    # As after an eviction: only the summary knows of the record any more.
    await part.runtime.ledger.rewrite(
        lambda held: tuple(Bare() if isinstance(o, Append) else o for o in held)
    )
    await talk(part, long_turns(9), has(SUMMARY, lacks=("deuz_context",)))

    assert await part.memory.forget("default", ["canary"]) == Forgotten(1, 1)

    await talk(part, long_turns(10), has("0: The river", lacks=(REPEATED,)))
    assert part.told.last.verdict is not None
    assert part.told.last.verdict.cause == "record_forgotten"
    assert part.told.last.sidecar_mutations == 0


async def test_a_summary_without_the_record_in_sight_stays(part: Part) -> None:
    await remember_both(part)
    await part.memory.remember("default", Draft("later", "Nobody asked for it."))
    await talk(part, turns_after(0), has(CANARY))
    await condense(part)

    await part.memory.forget("default", ["later"])
    await part.memory.forget("other", ["canary"])

    await talk(part, long_turns(9), has(SUMMARY))


async def test_a_summary_merged_into_the_next_one_hands_on_what_it_saw(
    part: Part,
) -> None:
    await remember_both(part)
    await talk(part, turns_after(0), has(CANARY))
    await condense(part)
    exchange = conversation(part.runtime) >> request(anthropic_body(long_turns(16)))
    exchange <<= upstream_gets(has(SUMMARY))
    exchange >>= upstream_says(anthropic_overflow())
    exchange <<= upstream_gets(is_summary)
    exchange >>= upstream_says(anthropic_answer("Second: the canary is yellow."))
    exchange <<= upstream_gets(has("Second: the canary"))
    await (exchange >> upstream_says(OK) << client_gets(is_whole))

    # The block and both summaries, of which the longer one was in force.
    assert await part.memory.forget("default", ["canary"]) == Forgotten(1, 3)

    await talk(part, long_turns(17), has(OTHER, lacks=(REPEATED, SUMMARY)))


async def test_a_summary_that_is_committed_later_is_forgotten_too(part: Part) -> None:
    await remember_both(part)
    await talk(part, turns_after(0), has(CANARY))
    exchange = conversation(part.runtime) >> request(anthropic_body(long_turns()))
    exchange <<= upstream_gets(has(CANARY))
    exchange >>= upstream_says(anthropic_overflow())
    exchange <<= upstream_gets(is_summary)
    exchange >>= upstream_says(anthropic_answer(SUMMARY))
    await (exchange << upstream_gets(has(SUMMARY)))

    assert await part.memory.forget("default", ["canary"]) == Forgotten(1, 1)
    await (exchange >> upstream_says(OK) << client_gets(is_whole))

    await talk(part, long_turns(9), has(OTHER, lacks=(REPEATED,)))


@pytest.fixture(
    params=["sqlite", pytest.param("redis", marks=pytest.mark.needs("redis-server"))]
)
def stored(request: pytest.FixtureRequest, tmp_path: Path) -> Any:
    """Return a ledger's URL, and what gives all that stands there as bytes."""
    if request.param == "sqlite":
        yield (
            f"sqlite:///{tmp_path}/ledger.db",
            lambda: b"".join([f.read_bytes() for f in tmp_path.glob("ledger.db*")]),
        )
        return
    with running_redis() as process:
        yield process.url, process.everything


async def test_no_store_holds_a_text_that_was_forgotten(
    stored: tuple[str, Callable[[], bytes]],
) -> None:
    url, held = stored
    async with opened_part(url) as part:
        await remember_both(part)
        await talk(part, turns_after(0), has(CANARY))
        await condense(part)
        before = held()

        await part.memory.forget("default", ["canary"])

        after = held()
        await talk(part, long_turns(9), has(OTHER, lacks=(REPEATED,)))
    assert REPEATED.encode() in before
    assert (REPEATED.encode() in after, OTHER.encode() in after) == (False, True)
    assert REPEATED.encode() not in held()


@pytest.mark.parametrize("moment", ["answer", "summary", "second answer"])
async def test_what_is_forgotten_during_a_recovery_does_not_come_back(
    part: Part, moment: str
) -> None:
    async def forget(_: Conversation) -> None:
        await part.memory.forget("default", ["canary"])

    def forgets_at(name: str) -> list[Step]:
        return [forget] if name == moment else []

    await remember_both(part)
    await talk(part, turns_after(0), has(CANARY))
    steps = [
        *(request(anthropic_body(long_turns())), upstream_gets(has(CANARY))),
        *(*forgets_at("answer"), upstream_says(anthropic_overflow())),
        *(upstream_gets(is_summary), *forgets_at("summary")),
        *(upstream_says(anthropic_answer(SUMMARY)), upstream_gets(has(SUMMARY))),
        *(*forgets_at("second answer"), upstream_says(OK), client_gets(is_whole)),
    ]
    exchange = conversation(part.runtime)
    for step in steps:
        exchange >>= step
    await exchange

    for more in (9, 10):
        await talk(part, long_turns(more), has(OTHER, lacks=(CANARY, REPEATED)))
        assert part.told.last.sidecar_mutations == 0
