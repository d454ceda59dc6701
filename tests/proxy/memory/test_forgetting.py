"""Forgetting, through the whole line: placed, forgotten, and what is told of it."""

import json
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any

import pytest
import pytest_asyncio

from deuz_compiler import Append, Bare, PlacedRecord
from deuz_proxy.config.memory import StoreSource
from deuz_proxy.errors import StoreFailed
from deuz_proxy.memory.forgetting import Forgotten, Memory
from deuz_proxy.memory.records import Draft
from deuz_proxy.ports import Ledger
from deuz_proxy.runtime import Runtime
from deuz_proxy.sources.store import StoredRecords
from deuz_proxy.sources.words import words_of
from deuz_proxy.stores.memory_sqlite import SqliteMemory
from deuz_testing.bodies import anthropic_body, assistant, user
from deuz_testing.conversation import (
    anthropic_answer,
    client_gets,
    conversation,
    request,
    upstream_gets,
    upstream_says,
)
from deuz_testing.line import Told, make_config, make_runtime
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
    told, clock = Told(), Clock()
    records = await SqliteMemory(":memory:", words_of=words_of).open()
    source = StoredRecords(StoreSource(type="store"), records, clock=clock)
    runtime = make_runtime(make_config(more=TENANTS), told, sources=[source])
    memory = Memory(records, runtime.ledger, clock=clock)
    runtime = make_runtime(
        runtime.config,
        told,
        sources=[source],
        ledger=runtime.ledger,
        memory=memory,
        clock=clock,
    )
    yield Part(memory, runtime, told, clock)
    await records.close()


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
        self.read, self.commit = ledger.read, ledger.commit
        self.close = ledger.close
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
