from typing import Any

import pytest
from msgspec.structs import replace

from deuz_compiler import (
    Append,
    Candidate,
    Fold,
    Operation,
    Prune,
)
from deuz_proxy.calls import Call, Known
from deuz_proxy.observe.events import RequestFinished
from deuz_proxy.ports import Query
from deuz_proxy.runtime import Runtime
from deuz_proxy.stages.compile import add_context, compile_call, lay_out
from deuz_proxy.stages.recall import recall_context
from deuz_proxy.stages.settle import keep_call
from deuz_testing.bodies import (
    anthropic_body,
    assistant,
    chat_body,
    chat_call,
    chat_result,
    tool_result,
    tool_use,
    user,
)
from deuz_testing.conversation import (
    ASK,
    BLOCK,
    admitted,
    anthropic_answer,
    client_gets,
    conversation,
    parts_of,
    request,
    upstream_gets,
    upstream_says,
    with_block,
)
from deuz_testing.line import RULE, FixedSource, Told, make_config, make_runtime
from deuz_testing.scripted import GivenRequest

BODY = anthropic_body(ASK)


OK = anthropic_answer()


@pytest.fixture
def source() -> FixedSource:
    return FixedSource()


@pytest.fixture
def runtime(told: Told, source: FixedSource) -> Runtime:
    return make_runtime(make_config(), told, sources=[source])


@pytest.fixture
def told() -> Told:
    return Told()


async def call_of(runtime: Runtime, body: bytes = BODY) -> Call:
    return await admitted(runtime, GivenRequest(body))


async def test_without_an_operation_the_very_object_goes_out(told: Told) -> None:
    runtime = make_runtime(make_config(), told)

    compiled = compile_call(await call_of(runtime), Known(), runtime)

    assert compiled.body is BODY


async def test_what_is_not_understood_goes_out_as_it_is(told: Told) -> None:
    runtime = make_runtime(make_config(), told)
    call = await call_of(runtime, b"not json")

    compiled = compile_call(call, Known(), runtime)

    assert compiled.body == b"not json"
    assert compiled.verdict is None
    with pytest.raises(ValueError, match="no layout"):
        lay_out(call, {}, runtime)
    with pytest.raises(ValueError, match="nothing was gathered"):
        add_context(call, Known(), runtime)


async def test_the_same_recall_gives_the_same_bytes(told: Told) -> None:
    runtime = make_runtime(make_config(), told, sources=[FixedSource()])
    call = await call_of(runtime)
    known = await recall_context(call, runtime)

    once, again = (compile_call(call, known, runtime) for _ in range(2))

    assert once.body == again.body
    assert once.body != BODY
    assert list(once.pending) == [0]


async def test_an_edit_of_an_old_turn_is_placed_in_the_clients_body(
    told: Told,
) -> None:
    runtime = make_runtime(make_config(), told)
    turns = [user("first"), assistant("a"), user("second"), assistant("b")]
    first = await call_of(runtime, anthropic_body([*turns, user("x")]))
    await keep_call(first, compile_call(first, Known(), runtime), runtime)
    edited = [*turns[:2], user("SECOND"), *turns[3:], user("x")]
    body = anthropic_body(edited)

    compiled = compile_call(await call_of(runtime, body), Known(), runtime)

    verdict = compiled.verdict
    assert verdict is not None
    assert (verdict.segment, verdict.owner, verdict.index) == ("turn", "client", 2)
    assert verdict.offset is not None
    assert body[verdict.offset :].startswith(b'{"role":"user","content":"SECOND"')


async def test_a_lost_block_is_placed_where_it_was_missed(told: Told) -> None:
    source = FixedSource()
    runtime = make_runtime(make_config(), told, sources=[source])
    turns = [user("first"), assistant("a"), user("second")]
    first = await call_of(runtime, anthropic_body(turns[:1]))
    compiled = compile_call(first, await recall_context(first, runtime), runtime)
    await keep_call(first, compiled, runtime)
    body = anthropic_body(turns)

    lost = compile_call(
        await call_of(runtime, body), Known(is_ledger_lost=True), runtime
    )

    verdict = lost.verdict
    assert verdict is not None
    assert (verdict.cause, verdict.owner) == ("ledger_lost", "sidecar")
    assert verdict.offset is not None
    assert body[verdict.offset :].startswith(b'{"role":"assistant"')


async def test_blocks_that_come_back_break_the_prefix_for_the_same_cause(
    told: Told,
) -> None:
    runtime = make_runtime(make_config(), told, sources=[FixedSource()])
    turns = [user("1"), assistant("a"), user("2"), assistant("b"), user("3")]
    turns += [assistant("c"), user("4")]
    causes = []
    for count in (1, 3, 5, 7):
        call = await call_of(runtime, anthropic_body(turns[:count]))
        is_lost = count == 3
        known = Known(is_ledger_lost=True)
        known = known if is_lost else await recall_context(call, runtime)
        compiled = compile_call(call, known, runtime)
        await keep_call(call, compiled, runtime)
        causes.append(compiled.verdict and compiled.verdict.cause)

    assert causes == [None, "ledger_lost", "ledger_lost", None]


@pytest.mark.parametrize("content", ["q", [{"type": "text", "text": "q"}]])
async def test_a_server_that_demands_alternation_gets_a_part_of_the_turn(
    told: Told, source: FixedSource, content: Any
) -> None:
    config = make_config(placement="part")
    runtime = make_runtime(config, told, sources=[source])
    body = anthropic_body([user(content)])

    talk = conversation(runtime) >> request(body)
    talk <<= upstream_gets(lambda asked: texts(asked.payload) == ["q", BLOCK])
    await (talk >> upstream_says(OK) << client_gets(OK.chunks[0]))

    assert told.last.placements[0].form == "part"


def texts(payload: Any) -> list[str]:
    """Return the texts of the only message, whatever its form."""
    (message,) = payload["messages"]
    content = message["content"]
    if isinstance(content, str):
        return content.split("\n\n", 1)
    return [part["text"] for part in content]


async def test_the_form_of_a_conversation_outlives_a_change_of_config(
    told: Told, source: FixedSource
) -> None:
    runtime = make_runtime(make_config(placement="turn"), told, sources=[source])
    talk = conversation(runtime) >> request(BODY)
    talk <<= upstream_gets(with_block(ASK, 0))
    await (talk >> upstream_says(OK) << client_gets(OK.chunks[0]))
    source.found = [Candidate(**{**_fields(RULE), "record_id": "r2", "text": "Two."})]
    parts = parts_of(runtime)
    changed = make_runtime(
        make_config(placement="part"), told, sources=[source], **parts
    )
    later = [*ASK, assistant("9 km"), user("and back?")]

    talk = conversation(changed) >> request(anthropic_body(later))
    talk <<= upstream_gets(lambda a: len(a.payload["messages"]) == 5)
    await (talk >> upstream_says(OK) << client_gets(OK.chunks[0]))

    assert [p.form for p in told.last.placements] == ["turn", "turn"]


def _fields(candidate: Candidate) -> dict[str, Any]:
    return {name: getattr(candidate, name) for name in candidate.__struct_fields__}


TOOLS: dict[str, tuple[str, bytes]] = {
    "anthropic": (
        "/v1/messages",
        anthropic_body([user("q"), tool_use("t1"), tool_result("t1", "x")]),
    ),
    "chat": (
        "/v1/chat/completions",
        chat_body([user("q"), chat_call("c1"), chat_result("c1", "x")]),
    ),
    "prefill": ("/v1/messages", anthropic_body([user("q"), assistant('{"a":')])),
    "probe": ("/v1/messages", anthropic_body([user("q")], max_tokens=1)),
}


@pytest.mark.parametrize(("path", "body"), TOOLS.values(), ids=TOOLS)
async def test_where_no_question_is_asked_no_source_is_asked_and_nothing_placed(
    runtime: Runtime, source: FixedSource, path: str, body: bytes
) -> None:
    talk = conversation(runtime) >> request(body, target=path)
    talk <<= upstream_gets(body)
    await (talk >> upstream_says(OK) << client_gets(OK.chunks[0]))

    assert not source.asked


async def test_within_a_tool_loop_the_block_keeps_its_place_and_bytes(
    runtime: Runtime,
) -> None:
    turns: list[Any] = [*ASK]
    for number in range(3):
        talk = conversation(runtime) >> request(anthropic_body(turns))
        talk <<= upstream_gets(with_block(turns, 0))
        await (talk >> upstream_says(OK) << client_gets(OK.chunks[0]))
        turns += [tool_use(f"t{number}"), tool_result(f"t{number}", "x")]


async def test_forks_share_the_block_and_an_edit_loses_it(
    runtime: Runtime, told: Told, source: FixedSource
) -> None:
    first = [*ASK, assistant("9 km"), user("left?")]
    second = [*ASK, assistant("9 km"), user("right?")]
    edited = [user("how near is it?"), assistant("9 km"), user("left?")]
    talk = conversation(runtime) >> request(BODY)
    talk <<= upstream_gets(with_block(ASK, 0))
    await (talk >> upstream_says(OK) << client_gets(OK.chunks[0]))
    source.found = ()

    for turns in (first, second):
        talk = conversation(runtime) >> request(anthropic_body(turns))
        talk <<= upstream_gets(with_block(turns, 0))
        await (talk >> upstream_says(OK) << client_gets(OK.chunks[0]))
    talk = conversation(runtime) >> request(anthropic_body(edited))
    talk <<= upstream_gets(anthropic_body(edited))
    await (talk >> upstream_says(OK) << client_gets(OK.chunks[0]))

    assert sum(f.sidecar_mutations for f in told.finished) == 0


async def test_another_credential_sees_nothing_of_a_history(
    runtime: Runtime, source: FixedSource
) -> None:
    talk = conversation(runtime) >> request(BODY)
    talk <<= upstream_gets(with_block(ASK, 0))
    await (talk >> upstream_says(OK) << client_gets(OK.chunks[0]))
    source.found = ()

    talk = conversation(runtime) >> request(BODY, headers=((b"x-api-key", b"key-2"),))
    talk <<= upstream_gets(BODY)
    await (talk >> upstream_says(OK) << client_gets(OK.chunks[0]))


async def test_a_shadow_route_sends_the_clients_bytes_and_tells_what_it_would_do(
    told: Told, source: FixedSource
) -> None:
    config = make_config(mode="shadow", on_error="closed")
    runtime = make_runtime(config, told, sources=[source])

    talk = conversation(runtime) >> request(BODY)
    talk <<= upstream_gets(BODY)
    await (talk >> upstream_says(OK) << client_gets(OK.chunks[0]))

    assert told.last.compile is not None
    assert told.last.compile.selected == 1
    assert [p.records for p in told.last.placements] == [("rules/r1",)]
    assert told.last.estimated_input_tokens is not None
    assert told.last.sidecar_mutations == 0


async def test_shadow_predicts_what_compiling_then_does() -> None:
    seen = []
    for mode in ("shadow", "compile"):
        told = Told()
        runtime = make_runtime(make_config(mode=mode), told, sources=[Growing()])
        turns: list[Any] = list(ASK)
        for number in range(4):
            body = anthropic_body(turns)
            talk = conversation(runtime) >> request(body)
            is_same = mode == "shadow"
            talk <<= upstream_gets(body if is_same else lambda asked: asked.body)
            await (talk >> upstream_says(OK) << client_gets(OK.chunks[0]))
            turns += [assistant("Yes."), user(f"and {number}?")]
        seen.append([predicted(event) for event in told.finished])

    assert seen[0] == seen[1]
    assert [len(placements) for placements, *_ in seen[0]] == [1, 2, 3, 4]
    assert [verdict for *_, verdict in seen[0]] == ["first"] + ["extended"] * 3


class Growing(FixedSource):
    """A source that finds another record each time."""

    async def find(self, query: Query) -> list[Candidate]:
        self.asked.append(query)
        name = f"r{len(self.asked)}"
        return [replace(RULE, record_id=name, text=f"Rule {name}.")]


def predicted(event: RequestFinished) -> tuple[Any, ...]:
    """Return what is told of added context, but for how it ended."""
    assert event.compile is not None
    assert event.verdict is not None
    placements = [replace(p, state="") for p in event.placements]
    records = [(r.record_id, r.reason) for r in event.compile.records]
    return placements, event.compile.tokens, records, event.verdict.verdict


async def test_leaving_shadow_mode_breaks_no_prefix(
    told: Told, source: FixedSource
) -> None:
    shadow = make_runtime(make_config(mode="shadow"), told, sources=[source])
    talk = conversation(shadow) >> request(BODY)
    talk <<= upstream_gets(BODY)
    await (talk >> upstream_says(OK) << client_gets(OK.chunks[0]))
    parts = parts_of(shadow)
    compiling = make_runtime(make_config(), told, sources=[source], **parts)
    later = [*ASK, assistant("9 km"), user("and back?")]

    talk = conversation(compiling) >> request(anthropic_body(later))
    talk <<= upstream_gets(with_block(later, 2))
    await (talk >> upstream_says(OK) << client_gets(OK.chunks[0]))

    assert told.last.sidecar_mutations == 0


@pytest.mark.parametrize(
    ("asked", "mode"),
    [
        (b"observe", "observe"),
        (b"off", "off"),
        (b"OFF ", "off"),
        (b"shadow", "compile"),
    ],
)
async def test_a_client_may_lower_the_mode_and_only_that(
    runtime: Runtime, told: Told, source: FixedSource, asked: bytes, mode: str
) -> None:
    sent = with_block(ASK, 0) if mode == "compile" else BODY

    talk = conversation(runtime) >> request(BODY, (b"x-deuz-mode", asked))
    talk <<= upstream_gets(sent)
    await (talk >> upstream_says(OK) << client_gets(OK.chunks[0]))

    assert told.last.mode == mode
    assert bool(source.asked) == (mode == "compile")


@pytest.mark.parametrize("asked", [b"observe", b"off"])
async def test_a_lowered_request_in_a_conversation_is_no_mutation_of_ours(
    runtime: Runtime, told: Told, asked: bytes
) -> None:
    later = [*ASK, assistant("9 km"), user("and back?")]
    talk = conversation(runtime) >> request(BODY)
    talk <<= upstream_gets(with_block(ASK, 0))
    await (talk >> upstream_says(OK) << client_gets(OK.chunks[0]))

    talk = conversation(runtime)
    talk >>= request(anthropic_body(later), (b"x-deuz-mode", asked))
    talk <<= upstream_gets(anthropic_body(later))
    await (talk >> upstream_says(OK) << client_gets(OK.chunks[0]))

    assert told.last.sidecar_mutations == 0

    talk = conversation(runtime) >> request(anthropic_body(later))
    talk <<= upstream_gets(with_block(later, 0))
    await (talk >> upstream_says(OK) << client_gets(OK.chunks[0]))

    assert told.last.sidecar_mutations == 0
    assert told.last.verdict is not None
    assert told.last.verdict.verdict == "extended"


LOOP = [user("Read."), tool_use("t"), tool_result("t", "a log " * 99), assistant("ok")]


@pytest.mark.parametrize(
    ("turn", "operation", "cause", "index"),
    [
        (2, Prune(((0, b'"[gone]"'),)), "overflow_recovery", 2),
        (2, Fold(2, b"Notes.", 9), "overflow_recovery", 1),
        (0, Append(b"B", (), 1), "ledger_changed", 1),
    ],
)
async def test_what_another_branch_recovered_is_told_from_an_unmeant_change(
    told: Told, turn: int, operation: Operation, cause: str, index: int
) -> None:
    runtime = make_runtime(make_config(), told)
    first = await call_of(runtime, anthropic_body([*LOOP, user("x")]))
    await keep_call(first, compile_call(first, Known(), runtime), runtime)
    later = await call_of(runtime, anthropic_body([*LOOP, user("x"), user("y")]))

    compiled = compile_call(later, Known({turn: (operation,)}), runtime)

    verdict = compiled.verdict
    assert verdict is not None
    assert (verdict.owner, verdict.cause, verdict.index) == ("sidecar", cause, index)


async def test_a_block_behind_a_stub_is_no_part_of_a_recovery(told: Told) -> None:
    runtime = make_runtime(make_config(), told)
    stub = Prune(((0, b'"[gone]"'),))
    first = await call_of(runtime, anthropic_body([*LOOP, user("x")]))
    known = Known({2: (stub,)})
    await keep_call(first, compile_call(first, known, runtime), runtime)
    later = await call_of(runtime, anthropic_body([*LOOP, user("x"), user("y")]))

    both = Known({2: (stub, Append(b"B", (), 1))})
    compiled = compile_call(later, both, runtime)

    assert compiled.verdict is not None
    assert compiled.verdict.cause == "ledger_changed"
