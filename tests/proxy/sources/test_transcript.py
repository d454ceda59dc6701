"""What was said before, through the whole line: remembered, offered, forgotten."""

import asyncio
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass, replace
from typing import Any

import pytest
import pytest_asyncio

from deuz_compiler import lift
from deuz_proxy.config.inside import TranscriptSource
from deuz_proxy.memory.forgetting import Memory
from deuz_proxy.ports import Query
from deuz_proxy.runtime import Runtime
from deuz_proxy.sources.transcript import Transcript, exchange_id, exchanges_of
from deuz_proxy.sources.words import words_of
from deuz_proxy.stores.memory_sqlite import SqliteMemory
from deuz_testing.bodies import (
    anthropic_body,
    assistant,
    tool_result,
    tool_use,
    user,
)
from deuz_testing.conversation import (
    BLOCK,
    admitted,
    anthropic_answer,
    client_gets,
    conversation,
    request,
    upstream_gets,
    upstream_says,
)
from deuz_testing.line import Told, make_config, make_runtime
from deuz_testing.scripted import GivenRequest, Said
from deuz_testing.waiting import WAIT_SECONDS

OK = anthropic_answer()
RIVERS = [user("where do rivers run?"), assistant("Rivers run to the sea.")]
FIRST = anthropic_body([*RIVERS, user("thanks, and lakes?")])
TENANTS = """
scope: {headers: [x-deuz-scope]}
context: {refresh: {deadline_ms: 5000}}
"""


@dataclass
class Part:
    """A line that remembers."""

    transcript: Transcript
    runtime: Runtime
    memory: Memory
    past: SqliteMemory

    async def ask(
        self, body: bytes, scope: str = "anna", answer: Said = OK, **changes: Any
    ) -> None:
        talk = conversation(self.runtime)
        talk >>= request(body, (b"x-deuz-scope", scope.encode()), **changes)
        talk <<= upstream_gets(lambda _: True)
        await (talk >> upstream_says(answer) << client_gets(lambda _: True))

    async def remembered(self, scope: str = "default/anna") -> list[str]:
        """Return what is kept once all that waits is written."""
        async with asyncio.timeout(WAIT_SECONDS):
            await self.transcript.settled()
        kept = await self.past.page(scope, after="", limit=99, now=0.0)
        return [record.draft.text for record in kept]

    async def found(self, text: str, scope: str = "default/anna") -> list[str]:
        await self.remembered()
        query = Query(text, scope, 9)
        return [record.record_id for record in await self.transcript.find(query)]

    async def close(self) -> None:
        await self.transcript.close()
        assert isinstance(self.memory.records, SqliteMemory)
        await self.memory.records.close()


async def make_part(**fields: Any) -> Part:
    past = await SqliteMemory(":memory:", words_of=words_of).open()
    config = TranscriptSource.model_validate({"type": "transcript", **fields})
    transcript = Transcript(config, past, clock=time.time)
    await transcript.open()
    runtime = make_runtime(make_config(more=TENANTS), Told(), sources=[transcript])
    records = await SqliteMemory(":memory:", words_of=words_of).open()
    memory = Memory(
        records, runtime.ledger, clock=time.time, others=lambda: [transcript]
    )
    runtime = replace(runtime, archives=(transcript,), memory=memory)
    return Part(transcript, runtime, memory, past)


@pytest_asyncio.fixture
async def part() -> AsyncIterator[Part]:
    made = await make_part()
    yield made
    await made.close()


async def test_an_exchange_is_kept_once_its_answer_is_sent_back(part: Part) -> None:
    await part.ask(anthropic_body(RIVERS[:1]))
    before = await part.remembered()

    await part.ask(FIRST)
    await part.ask(anthropic_body([*RIVERS, user("thanks, and lakes?"), *RIVERS]))

    assert before == []
    assert await part.remembered() == [
        "User: where do rivers run?\n\nAssistant: Rivers run to the sea."
    ]


async def test_another_conversation_of_the_scope_gets_it_offered(part: Part) -> None:
    await part.ask(FIRST)
    await part.remembered()
    asked = anthropic_body([user("tell me where rivers run")])

    talk = conversation(part.runtime)
    talk >>= request(asked, (b"x-deuz-scope", b"anna"))
    talk <<= upstream_gets(lambda it: "Rivers run to the sea." in it.body.decode())
    await (talk >> upstream_says(OK) << client_gets(OK.chunks[0]))


async def test_a_conversation_is_not_offered_what_it_holds(part: Part) -> None:
    await part.ask(FIRST)
    await part.remembered()

    talk = conversation(part.runtime)
    body = anthropic_body([*RIVERS, user("where do rivers run, again?")])
    talk >>= request(body, (b"x-deuz-scope", b"anna"))
    talk <<= upstream_gets(body)
    await (talk >> upstream_says(OK) << client_gets(OK.chunks[0]))


async def test_nobody_else_is_offered_it(part: Part) -> None:
    await part.ask(FIRST)

    assert len(await part.found("where do rivers run?")) == 1
    for other in ("default/ben", "default", "acme/anna"):
        assert await part.found("where do rivers run?", other) == []


@pytest.mark.parametrize(
    ("lines", "answer"),
    [
        ({"method": "POST"}, Said(status=400, chunks=(b"{}",))),
        ({"method": "POST"}, Said(status=529, chunks=(b"{}",))),
    ],
)
async def test_a_request_that_was_not_accepted_is_not_kept(
    part: Part, lines: dict[str, Any], answer: Said
) -> None:
    await part.ask(FIRST, answer=answer, **lines)

    assert await part.remembered() == []


async def test_routes_and_requests_that_only_watch_are_not_kept(part: Part) -> None:
    talk = conversation(part.runtime)
    lines = ((b"x-deuz-scope", b"anna"), (b"x-deuz-mode", b"observe"))
    talk >>= request(FIRST, *lines)
    talk <<= upstream_gets(FIRST)
    await (talk >> upstream_says(OK) << client_gets(OK.chunks[0]))
    for mode in ("observe", "shadow"):
        config = make_config(mode=mode, more=TENANTS)
        watching = replace(part, runtime=replace(part.runtime, config=config))
        await watching.ask(FIRST)

    assert await part.remembered() == []


async def test_only_what_was_said_is_kept() -> None:
    turns = [
        user(f"look it up\n\n{BLOCK}"),
        tool_use("t1"),
        tool_result("t1", "canary of a tool"),
        assistant("It says blue."),
        user("thanks"),
    ]
    body = anthropic_body(turns, system="canary of the system prompt")
    envelope = lift("anthropic", body)
    chain = [bytes([number] * 16) for number in range(len(envelope.turns))]

    (exchange,) = exchanges_of(envelope, chain)

    assert exchange.text == "User: look it up\n\nAssistant: It says blue."
    assert exchange.key == chain[0]


async def test_long_texts_are_kept_shortened() -> None:
    turns = [user("q" * 9_000), assistant("a" * 9_000 + "\0"), user("next")]
    envelope = lift("anthropic", anthropic_body(turns))

    (exchange,) = exchanges_of(envelope, [b"1" * 16] * 3)

    assert len(exchange.text) == 1_500 + 2_500 + len("User: \n\nAssistant: ")
    assert "\0" not in exchange.text


async def test_a_long_conversation_that_is_new_here_is_kept_from_its_end(
    part: Part,
) -> None:
    turns = [
        turn
        for number in range(60)
        for turn in (user(f"question {number}"), assistant(f"answer {number}"))
    ]

    await part.ask(anthropic_body([*turns, user("and now?")]))

    kept = await part.remembered()
    assert len(kept) == 20
    assert "User: question 59\n\nAssistant: answer 59" in kept


async def test_the_oldest_go_over_the_bounds() -> None:
    part = await make_part(max_records_per_scope=2, max_records=3)
    for scope in ("anna", "ben"):
        for number in range(3):
            turns = [user(f"{scope} {number}"), assistant("Yes."), user("more")]
            await part.ask(anthropic_body(turns), scope)
            await part.remembered()

    assert sorted(await part.remembered("default/anna")) == [
        "User: anna 2\n\nAssistant: Yes."
    ]
    assert len(await part.remembered("default/ben")) == 2
    await part.close()


async def test_what_is_forgotten_is_gone_and_stays_so(part: Part) -> None:
    await part.ask(FIRST)
    (record_id,) = await part.found("where do rivers run?")

    told = await part.memory.forget("default/anna", [record_id])
    again = replace(
        part,
        transcript=Transcript(
            TranscriptSource(type="transcript"), part.past, clock=time.time
        ),
    )
    await again.transcript.open()
    again.runtime = replace(part.runtime, archives=(again.transcript,))
    await again.ask(FIRST)

    assert told.forgotten == 1
    assert await again.remembered() == []
    await again.transcript.close()


async def test_forgetting_takes_it_out_of_blocks_that_were_placed(part: Part) -> None:
    await part.ask(FIRST)
    await part.remembered()
    asked = anthropic_body([user("tell me where rivers run")])
    await part.ask(asked)
    (record_id,) = await part.found("where do rivers run?")

    told = await part.memory.forget("default/anna", [record_id])

    assert told.placements_redacted == 1
    talk = conversation(part.runtime)
    talk >>= request(asked, (b"x-deuz-scope", b"anna"))
    talk <<= upstream_gets(lambda it: b"to the sea" not in it.body)
    await (talk >> upstream_says(OK) << client_gets(OK.chunks[0]))


async def test_a_whole_scope_is_forgotten_and_no_other(part: Part) -> None:
    await part.ask(FIRST, "anna")
    await part.ask(FIRST, "ben")
    await part.remembered()

    await part.memory.forget_scope("default/anna")

    assert await part.remembered("default/anna") == []
    assert len(await part.remembered("default/ben")) == 1


async def test_what_comes_too_fast_is_dropped_and_counted(part: Part) -> None:
    incoming = GivenRequest(FIRST, headers=((b"x-deuz-scope", b"anna"),))
    call = await admitted(part.runtime, incoming)

    for _ in range(200):
        part.transcript.note(call)

    assert part.transcript.missed == 200 - 64
    assert len(await part.remembered()) == 1


async def test_what_goes_wrong_with_one_request_ends_nothing(
    part: Part, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def put_badly(*_: object, **__: object) -> None:
        raise ValueError

    with monkeypatch.context() as broken:
        broken.setattr(part.past, "put", put_badly)
        await part.ask(FIRST)
        assert await part.remembered() == []

    await part.ask(FIRST)

    assert len(await part.remembered()) == 1
    assert part.transcript.missed == 1


async def test_closing_writes_what_waits_and_leaves_no_task() -> None:
    before = asyncio.all_tasks()
    part = await make_part()
    await part.ask(FIRST)

    await part.transcript.close()
    await part.transcript.close()
    await part.ask(FIRST)

    assert not part.transcript.missed
    await part.close()
    assert asyncio.all_tasks() == before


def test_ids_come_from_the_lineage() -> None:
    assert exchange_id(bytes(range(16))) == "000102030405060708090a0b"
