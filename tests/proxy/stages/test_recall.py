import asyncio
from typing import Any

import pytest
from msgspec.structs import replace

from deuz_compiler import Bare, Candidate, Prune
from deuz_proxy.calls import Call, Known
from deuz_proxy.config.memory import IN_PROCESS
from deuz_proxy.memory.working import WorkingMemory
from deuz_proxy.observe.events import LedgerUsed
from deuz_proxy.runtime import Runtime
from deuz_proxy.sources.words import words_of
from deuz_proxy.stages.recall import recall_context, recall_here
from deuz_proxy.stores.memory_build import open_memory
from deuz_testing.bodies import (
    anthropic_body,
    assistant,
    tool_result,
    tool_use,
    user,
)
from deuz_testing.conversation import (
    ASK,
    admitted,
    anthropic_answer,
    client_gets,
    conversation,
    request,
    upstream_gets,
    upstream_says,
    with_block,
)
from deuz_testing.ledger_suite import append
from deuz_testing.line import RULE, FixedSource, Told, make_config, make_runtime
from deuz_testing.scripted import GivenRequest
from deuz_testing.waiting import until

TURNS = [user("one"), assistant("a"), user("two"), assistant("b"), user("three")]


OK = anthropic_answer()


BODY = anthropic_body(ASK)


@pytest.fixture
def told() -> Told:
    return Told()


@pytest.fixture
def source() -> FixedSource:
    return FixedSource()


async def call_of(
    runtime: Runtime, turns: list[Any], *lines: tuple[bytes, bytes]
) -> Call:
    return await admitted(runtime, GivenRequest(anthropic_body(turns), headers=lines))


async def recalled(runtime: Runtime, turns: list[Any] = TURNS) -> Known:
    return await recall_context(await call_of(runtime, turns), runtime)


@pytest.mark.parametrize("mode", ["observe", "off"])
async def test_routes_that_do_not_compile_ask_nobody(
    told: Told, source: FixedSource, mode: str
) -> None:
    runtime = make_runtime(make_config(mode=mode), told, sources=[source])

    assert await recalled(runtime) == Known()
    assert not told.events
    assert not source.asked


async def test_without_sources_only_the_ledger_is_asked(told: Told) -> None:
    known = await recalled(make_runtime(make_config(), told))

    assert known == Known({})


async def test_the_newest_question_is_what_the_sources_are_asked(
    told: Told, source: FixedSource
) -> None:
    runtime = make_runtime(make_config(), told, sources=[source])

    known = await recalled(runtime)

    assert known.place == 4
    assert known.gathered is not None
    assert known.gathered.candidates == (RULE,)
    assert known.gathered.refresh_reason == "initial"
    (query,) = source.asked
    assert (query.text, query.scope, query.limit) == ("three", "default", 20)


async def test_a_long_question_is_cut_for_the_sources(
    told: Told, source: FixedSource
) -> None:
    runtime = make_runtime(make_config(), told, sources=[source])

    await recalled(runtime, [user("x" * 100_000)])

    assert len(source.asked[0].text) == 2000


async def held_at(runtime: Runtime, index: int) -> Call:
    call = await call_of(runtime, TURNS)
    await runtime.ledger.commit({call.ledger_keys[index]: (append("held"),)})
    return call


@pytest.mark.parametrize(
    ("min_steps", "index", "is_due"),
    [(1, 2, True), (2, 2, False), (2, 0, True), (3, 0, False), (1, 4, False)],
)
async def test_a_refresh_is_due_so_many_answers_after_the_last_block(
    told: Told, source: FixedSource, min_steps: int, index: int, is_due: bool
) -> None:
    config = make_config(more=f"context: {{refresh: {{min_steps: {min_steps}}}}}")
    runtime = make_runtime(config, told, sources=[source])
    call = await held_at(runtime, index)

    known = await recall_context(call, runtime)

    assert known.operations == {index: (append("held"),)}
    assert (known.gathered is not None) == is_due
    assert bool(source.asked) == is_due


async def test_a_forced_refresh_does_not_touch_a_turn_that_has_its_block(
    told: Told, source: FixedSource
) -> None:
    runtime = make_runtime(make_config(), told, sources=[source])
    await held_at(runtime, 4)
    call = await call_of(runtime, TURNS, (b"x-deuz-refresh", b"1"))

    assert (await recall_context(call, runtime)).gathered is None


async def test_what_a_shadow_route_holds_is_no_other_routes(
    told: Told, source: FixedSource
) -> None:
    shadow = make_runtime(make_config(mode="shadow"), told, sources=[source])
    await held_at(shadow, 0)
    compiling = make_runtime(
        make_config(), told, sources=[source], ledger=shadow.ledger
    )

    assert (await recalled(shadow)).operations == {0: (append("held"),)}
    assert (await recalled(compiling)).operations == {}


async def test_sources_are_asked_at_the_same_time(told: Told) -> None:
    together = asyncio.Barrier(3)

    class Meeting(FixedSource):
        async def find(self, query: Any) -> Any:
            await together.wait()
            return await super().find(query)

    sources = [Meeting(id=name) for name in ("a", "b", "c")]
    runtime = make_runtime(
        make_config(more="context: {refresh: {deadline_ms: 3000}}"),
        told,
        sources=sources,
    )

    known = await recalled(runtime)

    assert known.gathered is not None
    assert [a.status for a in known.gathered.answers] == ["ok", "ok", "ok"]


async def test_what_a_source_says_beyond_the_limit_is_left_unless_mandatory(
    told: Told,
) -> None:
    def record(name: str, requirement: Any = "discretionary") -> Candidate:
        return Candidate(
            source="s",
            kind="rag",
            record_id=name,
            text=name,
            requirement=requirement,
        )

    many = [record(f"{n}") for n in range(9)] + [record("must", "mandatory")]
    config = make_config(more="context: {refresh: {candidates_per_source: 3}}")
    runtime = make_runtime(config, told, sources=[FixedSource(found=many)])

    known = await recalled(runtime)

    assert known.gathered is not None
    names = [c.record_id for c in known.gathered.candidates]
    assert names == ["0", "1", "2", "must"]


class Ready(FixedSource):
    """A source that may know at once what it finds."""

    def __init__(self, here: Any) -> None:
        super().__init__()
        self.find_here = lambda _: here


@pytest.mark.parametrize(
    ("here", "status"),
    [((RULE,), "ok"), ((), "empty"), (None, "ok"), ((1,), "failed")],
)
async def test_a_source_that_knows_at_once_is_not_waited_for(
    told: Told, here: Any, status: str
) -> None:
    source = Ready(here)

    known = await recalled(make_runtime(make_config(), told, sources=[source]))

    assert known.gathered is not None
    assert [answer.status for answer in known.gathered.answers] == [status]
    assert len(source.asked) == (here is None)


async def test_a_request_that_is_cancelled_while_sources_are_asked_ends(
    told: Told,
) -> None:
    slow = FixedSource(seconds=60)
    config = make_config(more="context: {refresh: {deadline_ms: 30000}}")
    runtime = make_runtime(config, told, sources=[slow])
    task = asyncio.ensure_future(recalled(runtime))
    await until(lambda: bool(slow.asked))

    task.cancel()

    with pytest.raises(asyncio.CancelledError):
        await task


class Wild(FixedSource):
    """A source whose very kind fails."""

    def __getattribute__(self, name: str) -> Any:
        if name == "kind":
            raise RuntimeError("secret")
        return super().__getattribute__(name)


async def test_a_source_that_breaks_the_gathering_leaves_the_blocks_there_are(
    told: Told,
) -> None:
    runtime = make_runtime(make_config(), told, sources=[Wild()])
    call = await held_at(runtime, 0)

    known = await recall_context(call, runtime)

    assert known == Known({0: (append("held"),)}, undecided=(2, 4))
    assert told.faults == [("recall", "sidecar_fault")]


async def test_on_a_closed_route_it_is_an_error(told: Told) -> None:
    config = make_config(on_error="closed")
    alone = make_runtime(config, told, sources=[Wild()])
    beside = make_runtime(config, told, sources=[Wild(), FixedSource()])

    with pytest.raises(RuntimeError):
        await recalled(alone)
    with pytest.raises(ExceptionGroup):
        await recalled(beside)


@pytest.mark.parametrize("on_error", ["open", "closed"])
async def test_a_turn_that_cannot_be_read_asks_nothing_and_is_no_fault(
    told: Told, source: FixedSource, on_error: str
) -> None:
    runtime = make_runtime(make_config(on_error=on_error), told, sources=[source])
    turn = {"role": "user", "content": [{"type": "text", "text": 1}]}

    known = await recalled(runtime, [turn])

    assert (known, source.asked, told.faults) == (Known(undecided=(0,)), [], [])


REFRESH = (b"x-deuz-refresh", b"1")


async def test_a_refresh_is_asked_for_by_header_before_it_is_due(
    told: Told, source: FixedSource
) -> None:
    config = make_config(more="context: {refresh: {min_steps: 5}}")
    runtime = make_runtime(config, told, sources=[source])
    later = [*ASK, assistant("9 km"), user("and back?")]
    talk = conversation(runtime) >> request(BODY)
    talk <<= upstream_gets(with_block(ASK, 0))
    await (talk >> upstream_says(OK) << client_gets(OK.chunks[0]))

    talk = conversation(runtime) >> request(anthropic_body(later))
    talk <<= upstream_gets(with_block(later, 0))
    await (talk >> upstream_says(OK) << client_gets(OK.chunks[0]))
    assert len(source.asked) == 1

    talk = conversation(runtime) >> request(anthropic_body(later), REFRESH)
    talk <<= upstream_gets(with_block(later, 0))
    await (talk >> upstream_says(OK) << client_gets(OK.chunks[0]))
    assert len(source.asked) == 2
    assert told.last.compile is not None
    assert told.last.compile.refresh_reason == "host-request"


SCOPES: dict[str, tuple[str, tuple[tuple[bytes, bytes], ...], str | None]] = {
    "absent": ("", (), "default"),
    "named": ("", ((b"X-Deuz-Scope", b"team-a"),), "default/team-a"),
    "malformed": ("", ((b"x-deuz-scope", b"../other"),), None),
    "empty": ("", ((b"x-deuz-scope", b""),), None),
    "required and absent": ("scope: {required: true}", (), None),
    "required and named": (
        "scope: {required: true}",
        ((b"x-deuz-scope", b"t"),),
        "default/t",
    ),
    "own header": (
        "scope: {headers: [x-user]}",
        ((b"X-User", b"u@x"), (b"x-deuz-scope", b"no")),
        "default/u@x",
    ),
    "unknown tenant": (
        'tenants: {acme: {keys: ["sha256:' + "0" * 64 + '"]}}',
        (),
        None,
    ),
}


@pytest.mark.parametrize(("more", "lines", "scope"), SCOPES.values(), ids=SCOPES)
async def test_sources_are_asked_in_the_callers_scope_or_not_at_all(
    told: Told,
    source: FixedSource,
    more: str,
    lines: tuple[tuple[bytes, bytes], ...],
    scope: str | None,
) -> None:
    runtime = make_runtime(make_config(more=more), told, sources=[source])

    talk = conversation(runtime) >> request(BODY, *lines)
    talk <<= upstream_gets(BODY if scope is None else with_block(ASK, 0))
    await (talk >> upstream_says(OK) << client_gets(OK.chunks[0]))

    assert [query.scope for query in source.asked] == ([] if scope is None else [scope])


async def test_a_client_that_condenses_its_history_is_left_alone(
    told: Told, source: FixedSource
) -> None:
    runtime = make_runtime(make_config(), told, sources=[source])
    talk = conversation(runtime) >> request(BODY)
    talk <<= upstream_gets(with_block(ASK, 0))
    await (talk >> upstream_says(OK) << client_gets(OK.chunks[0]))
    words = "Your task is to create a detailed summary of the conversation so far."
    turns = [*ASK, assistant("a"), user(words)]

    talk = conversation(runtime) >> request(anthropic_body(turns))
    # What stood there stays, for the cache; nothing new is asked for or added.
    talk <<= upstream_gets(with_block(turns, 0))
    await (talk >> upstream_says(OK) << client_gets(OK.chunks[0]))

    assert len(source.asked) == 1
    assert [p.turn for p in told.last.placements] == [0]


async def test_a_quoted_history_to_be_condensed_is_passed_through_and_told(
    told: Told, source: FixedSource
) -> None:
    runtime = make_runtime(make_config(), told, sources=[source])
    words = "*Briefly* summarize this partial conversation about programming."
    body = anthropic_body([user("# USER\nhow far?")], system=words)

    talk = conversation(runtime) >> request(body) << upstream_gets(body)
    await (talk >> upstream_says(OK) << client_gets(OK.chunks[0]))

    assert (source.asked, told.last.passthrough) == ([], "compaction")


def _result(call_id: str, *more: Any) -> list[Any]:
    asked = {"role": "assistant", "content": [tool_use(call_id)]}
    return [asked, {"role": "user", "content": [tool_result(call_id, "x"), *more]}]


@pytest.mark.parametrize("sources", [[], [FixedSource()]])
@pytest.mark.parametrize("mode", ["compile", "shadow"])
async def test_what_is_known_of_a_tool_result_is_here_and_what_waiting_tells(
    told: Told, mode: str, sources: list[FixedSource]
) -> None:
    turns = [*TURNS[:3], *_result("a"), *_result("b")]
    runtime = make_runtime(make_config(mode=mode), told, sources=sources)
    call = await call_of(runtime, turns)
    keys = call.ledger_keys
    await runtime.ledger.commit(
        {keys[0]: (append("a"),), keys[2]: (Prune(((0, b"cut"),)), Bare())}
    )

    known = recall_here(call, runtime)

    assert known is not None
    assert replace(known, reading=None) == await recall_context(call, runtime)
    assert list(known.operations) == [0, 2]
    # Both were told as a reading.
    assert [used.op for used in told.of(LedgerUsed)] == ["commit", "read", "read"]


@pytest.mark.parametrize("is_undecided", [False, True])
async def test_turns_of_which_nothing_is_known_are_told_here_too(
    told: Told, source: FixedSource, is_undecided: bool
) -> None:
    runtime = make_runtime(make_config(), told, sources=[source])
    call = await call_of(runtime, [*TURNS[:3], *_result("a")])
    held = Prune(((0, b"cut"),)) if is_undecided else Bare()
    await runtime.ledger.commit({call.ledger_keys[0]: (held,)})

    known = recall_here(call, runtime)

    assert known is not None
    assert known.undecided == ((0, 2) if is_undecided else (2,))


@pytest.mark.parametrize(
    ("turns", "lines"),
    [
        (TURNS, ()),
        ([*TURNS[:3], *_result("a")], ((b"x-deuz-working-memory", b"mine"),)),
    ],
)
async def test_what_asks_a_source_or_the_store_of_notes_is_to_be_waited_for(
    told: Told,
    source: FixedSource,
    turns: list[Any],
    lines: tuple[tuple[bytes, bytes], ...],
) -> None:
    records = await open_memory(IN_PROCESS, words_of=words_of)
    notes = WorkingMemory(records, clock=lambda: 0.0)
    await notes.is_in_use()
    runtime = make_runtime(make_config(), told, sources=[source], notes=notes)

    assert recall_here(await call_of(runtime, turns, *lines), runtime) is None

    # Nothing was read, and nobody was told that it was.
    assert not told.of(LedgerUsed)
    await records.close()
